"""Floods of the API and of the agents' port, from an address of their own, by strangers and by a user.

Strangers hold connections open, send what is no protocol, ask with wrong tokens, and claim to be an agent
without knowing the token. The user asks for forecasts of large arrays and does not wait for them.
"""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from volvelle.live.agent import wire
from volvelle.live.agent.node_key import ask_to_join, prove_key
from volvelle.model.node import Node

_FROM = "127.0.0.2", 0
_IDLE_CONNECTIONS = 300
_TIMEOUT_SECONDS = 1.0
_HOSTILE = Path(__file__).parents[2] / "benchmarks" / "hostile_user.py"


class HostileUser:
    """A user whose requests, bodies and uploads are to fail the others (benchmarks/hostile_user.py)."""

    sent = let_in = 0

    def __init__(self, url: str, agents: tuple[str, int], token: str) -> None:
        where = ("--url", url, "--agents-port", str(agents[1]))
        self._process = subprocess.Popen(
            [sys.executable, str(_HOSTILE), *where], stdin=subprocess.PIPE
        )
        assert self._process.stdin is not None
        self._process.stdin.write(token.encode() + b"\n")
        self._process.stdin.close()

    def end(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


class Flood:
    """Floods until `end`. ``sent``: connections made. ``let_in``: strangers that were taken for an agent."""

    def __init__(self, api: int, agents: tuple[str, int], token: str) -> None:
        self._api, self._agents, self._token = ("127.0.0.1", api), agents, token
        self.sent = self.let_in = 0
        self._ending = threading.Event()
        floods = self._idle, self._nonsense, self._wrong_tokens, self._forecasts, self._strangers
        self._threads = [
            threading.Thread(target=self._repeat, args=(flood,), daemon=True) for flood in floods
        ]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """End the flood."""
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def _repeat(self, flood: Callable[[], None]) -> None:
        while not self._ending.is_set():
            try:
                flood()
            except OSError:  # at once again would hold up this process's other threads
                self._ending.wait(0.01)

    def _connect(self, to: tuple[str, int]) -> socket.socket:
        self.sent += 1
        return socket.create_connection(to, _TIMEOUT_SECONDS, source_address=_FROM)

    def _idle(self) -> None:
        held = []
        try:
            for n in range(_IDLE_CONNECTIONS):
                held.append(self._connect(self._agents if n % 2 else self._api))
            self._ending.wait()
        finally:
            for each in held:
                each.close()

    def _nonsense(self) -> None:
        for to in (self._api, self._agents):
            with self._connect(to) as connection:
                connection.sendall(os.urandom(4096))
                connection.recv(4096)

    def _request(self, method: str, path: str, token: str, body: bytes = b"") -> socket.socket:
        connection = self._connect(self._api)
        head = f"{method} {path} HTTP/1.1\r\nHost: chaos\r\nAuthorization: Bearer {token}\r\n"
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        return connection

    def _wrong_tokens(self) -> None:
        with self._request("GET", "/v1/jobs", "vv_wrong") as connection:
            connection.recv(4096)

    def _forecasts(self) -> None:
        body = json.dumps({"command": ["true"], "gpus": 1, "estimate": 60, "array": 9999}).encode()
        with self._request("POST", "/v1/forecast", self._token, body):
            time.sleep(0.1)  # and gives up

    def _strangers(self) -> None:
        with self._connect(self._agents) as connection, connection.makefile("rb") as answers:

            def receive() -> wire.ToAgent:
                message: wire.ToAgent = wire.to_agent.decode(
                    answers.read(int.from_bytes(answers.read(4)))
                )
                return message

            with suppress(msgspec.MsgspecError):  # the connection was closed
                challenge = receive()
                assert isinstance(challenge, wire.Challenge)
                node = Node("node-0", 2)
                transcript = challenge.nonce, "nonce", node.name
                hello = wire.Hello(
                    version=wire.VERSION, node=node, identity="stranger", address="", nonce="nonce",
                    proof=prove_key("a guess", *transcript),
                    join=ask_to_join("a guess", "a guess", *transcript),
                )  # fmt: skip
                connection.sendall(wire.frame(hello))
                self.let_in += isinstance(receive(), wire.Welcome)
