"""Submissions whose server went away before it answered, or right after."""

import pickle
import socket
from collections.abc import Iterable
from threading import Thread

import pytest

from volvelle.cli.main import app
from volvelle.live.http import client as api
from volvelle.live.http.client import ApiClient, NotAnswered
from volvelle.model.problems import Problem
from volvelle.notebook.server import Server as NotebookServer

GONE = b""
ACCEPTED = b'HTTP/1.1 201 Created\r\nContent-Length: 28\r\n\r\n{"numbers":[7],"notices":[]}'


class Server(Thread):
    """A server that is gone after each request, which it answers with the next of ``answers``."""

    def __init__(self, *answers: bytes) -> None:
        super().__init__()
        self.answers: Iterable[bytes] = answers
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.requests: list[bytes] = []
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.address[1]}"

    def run(self) -> None:
        for at, answer in enumerate(self.answers):
            if at:
                self.listener = socket.create_server(self.address)
            connection, _ = self.listener.accept()
            self.listener.close()
            with connection:
                self.requests.append(connection.recv(1 << 16))
                connection.sendall(answer)


@pytest.mark.parametrize("again", [True, False])
def test_it_is_repeated_for_a_while_and_else_said_to_be_uncertain(
    again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "_SECONDS_BETWEEN", 0.05)
    monkeypatch.setattr(api, "_RESTART_SECONDS", 10.0 if again else 0.1)
    server = Server(GONE, ACCEPTED) if again else Server(GONE)
    client = ApiClient(server.url, "token")
    if again:
        assert client.post("/v1/jobs", key="one")["numbers"] == [7]
        first, second = server.requests
        assert first == second
        assert b"Idempotency-Key: one" in first
    else:
        with pytest.raises(Problem, match=r"may have been accepted\. Look for it .*volvelle queue"):
            client.post("/v1/jobs", key="one")
    server.join()


def test_a_job_that_was_accepted_is_named_where_its_forecast_cannot_be_had(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server(ACCEPTED)
    monkeypatch.setenv("VOLVELLE_SERVER", server.url)
    monkeypatch.setenv("VOLVELLE_TOKEN", "token")
    app(["submit", "--", "true"], standalone_mode=False)
    server.join()
    said = capsys.readouterr()
    assert said.out == "job 7  accepted\n"
    assert said.err.startswith("its forecast is not known: nobody listens at ")


def test_no_answer_passes_between_processes_with_all_that_it_says() -> None:
    failure = NotAnswered("no answer", "look at the server", 2.0, lost=True, passes=False)
    passed = pickle.loads(pickle.dumps(failure))
    assert (str(passed), vars(passed)) == (str(failure), vars(failure))


def test_python_names_a_job_that_was_accepted_where_its_forecast_cannot_be_had() -> None:
    server = Server(ACCEPTED)
    client = ApiClient(server.url, "token")
    said = r"job 7 accepted, but its forecast .* nobody listens at .*\. Do not submit it again"
    with pytest.raises(Problem, match=said):
        NotebookServer(client).submit(["true"])
    server.join()
