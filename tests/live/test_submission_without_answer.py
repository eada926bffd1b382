"""Submissions whose server went away before it answered."""

import socket
from threading import Thread

import pytest

from volvelle.live.http import client as api
from volvelle.live.http.client import ApiClient
from volvelle.model.problems import Problem

ANSWER = b'HTTP/1.1 201 Created\r\nContent-Length: 15\r\n\r\n{"numbers":[7]}'


class Server(Thread):
    """A server that takes a request, is gone without an answer, and comes back if ``again``."""

    def __init__(self, *, again: bool) -> None:
        super().__init__()
        self.again = again
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.requests: list[bytes] = []
        self.start()

    def _take(self, answer: bytes) -> None:
        connection, _ = self.listener.accept()
        self.listener.close()
        with connection:
            self.requests.append(connection.recv(1 << 16))
            connection.sendall(answer)

    def run(self) -> None:
        self._take(b"")
        if self.again:
            self.listener = socket.create_server(("127.0.0.1", self.port))
            self._take(ANSWER)


@pytest.mark.parametrize("again", [True, False])
def test_it_is_repeated_for_a_while_and_else_said_to_be_uncertain(
    again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "_SECONDS_BETWEEN", 0.05)
    monkeypatch.setattr(api, "_RESTART_SECONDS", 10.0 if again else 0.1)
    server = Server(again=again)
    client = ApiClient(f"http://127.0.0.1:{server.port}", "token")
    if again:
        assert client.post("/v1/jobs", key="one") == {"numbers": [7]}
        first, second = server.requests
        assert first == second
        assert b"Idempotency-Key: one" in first
    else:
        with pytest.raises(Problem, match=r"may have been accepted\. Look for it .*volvelle queue"):
            client.post("/v1/jobs", key="one")
    server.join()
    server.listener.close()
