"""A user who wants the server to fail the others, until it is ended (see serve_load.py --hostile).

    python benchmarks/hostile_user.py --url http://127.0.0.1:8000 --agents-port 7475 < token

Nine threads, all from the address of the others: an array of 10,000 with 4,500 variables; bodies of 400,000
backslashes, 450,000 integers and 200,000 wrong items, two at a time; 260 connections to the API and 1,100 to
the agents' port that send nothing; four uploads that send nothing. What is closed or refused is tried again.
"""

import argparse
import contextlib
import json
import os
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit

_IDLE, _IDLE_AGENTS, _UPLOADS = 260, 1100, 4
_SECONDS = 5.0
_BESIDE = {"gpus": 1, "estimate": "1h"}


def bodies() -> list[bytes]:
    """What is slow to read, as bytes."""
    variables = {f"V{n}": "x" * 200 for n in range(4500)}
    documents = [
        {"command": ["true"], "array": 10_000, "environment": variables, **_BESIDE},
        {"command": "\\" * 400_000, **_BESIDE},
        {"command": list(range(450_000)), **_BESIDE},
        {"command": ["true"], "after": ["x"] * 200_000, **_BESIDE},
    ]
    return [json.dumps(document).encode() for document in documents]


class HostileUser:
    """Attacks from several threads."""

    def __init__(self, url: str, agents_port: int, token: str) -> None:
        place = urlsplit(url)
        self._api = (place.hostname or "127.0.0.1", place.port or 80)
        self._agents = (self._api[0], agents_port)
        self._head = f"HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {token}\r\n"
        self._bodies = bodies()

    def run(self) -> None:
        """Attack for ever."""
        idle = [
            lambda: self._hold(_IDLE, self._api),
            lambda: self._hold(_IDLE_AGENTS // 2, self._agents),
            lambda: self._hold(_IDLE_AGENTS // 2, self._agents),
        ]
        uploads: list[Callable[[], None]] = [self._upload for _ in range(_UPLOADS)]
        for attack in [self._submit, self._submit, *idle, *uploads]:
            threading.Thread(target=self._repeat, args=(attack,), daemon=True).start()
        threading.Event().wait()

    def _repeat(self, attack: Callable[[], None]) -> None:
        while True:
            with contextlib.suppress(OSError):
                attack()
            time.sleep(0.01)

    def _request(self, line: str, length: int) -> socket.socket:
        connection = socket.create_connection(self._api, _SECONDS)
        connection.sendall(f"{line} {self._head}Content-Length: {length}\r\n\r\n".encode())
        return connection

    def _submit(self) -> None:
        for body in self._bodies:
            with self._request("POST /v1/jobs", len(body)) as connection:
                connection.sendall(body)
                connection.recv(1 << 16)

    def _hold(self, count: int, where: tuple[str, int]) -> None:
        with contextlib.ExitStack() as held:
            for _ in range(count):
                held.enter_context(socket.create_connection(where, _SECONDS))
            time.sleep(_SECONDS)

    def _upload(self) -> None:
        with self._request(f"PUT /v1/uploads/{os.urandom(32).hex()}", 1 << 20) as connection:
            connection.settimeout(120.0)
            connection.recv(1 << 16)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--url", required=True)
    parser.add_argument("--agents-port", type=int, required=True)
    given = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.setpriority(os.PRIO_PROCESS, 0, 19)  # such a user computes on a machine of their own
    HostileUser(given.url, given.agents_port, sys.stdin.readline().strip()).run()


if __name__ == "__main__":
    main()
