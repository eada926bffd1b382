"""A server with jobs and a browser that looks at its dashboard."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from browsers import chromium
from server_process import ServerProcess, server_process

CONFIG = """
cluster = "2x2"
policy = "fifo"

[listen]
port = 0
"""


@dataclass
class Site:
    """A server with jobs, a browser, tokens by user, and what the browser asked for or complained of."""

    server: ServerProcess
    api: httpx.Client
    browser: Any
    tokens: dict[str, str]
    requested: set[str] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)

    def page(self, user: str, **settings: Any) -> Any:
        """A page of ``user``, who logs in by keyboard alone."""
        page = self.browser.new_context(**settings).new_page()
        page.on("request", lambda request: self.requested.add(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._on_console)
        page.goto(self.server.url)
        page.wait_for_selector("input[type=password]:focus")
        page.keyboard.type(self.tokens[user])
        page.keyboard.press("Enter")
        page.wait_for_selector("nav a")
        return page

    def _on_console(self, message: Any) -> None:
        if message.type == "error" and "401" not in message.text:  # of tests that log out
            self.errors.append(message.text)

    def go(self, page: Any, view: str) -> None:
        page.goto(f"{self.server.url}/dashboard/#/{view}")
        page.wait_for_selector("h1")


def submit(api: httpx.Client, **job: Any) -> None:
    """Submit a job that takes ten minutes."""
    answer = api.post("/v1/jobs", json={"command": ["sleep", "600"], "estimate": "10m", **job})
    assert answer.status_code == 201, answer.text


@contextmanager
def dashboard_site(folder: Path) -> Iterator[Site]:
    """A server in ``folder`` with a job that runs and two that wait, all of ``root``."""
    with server_process(folder, CONFIG) as server, chromium() as browser:
        root = (folder / "volvelle-serve" / "token").read_text().strip()
        api = httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {root}"})
        made = api.post("/v1/tokens", json={"user": "dana"}).json()
        submit(api, name="long", gpus=2, command=["sh", "-c", "echo epoch 1; sleep 600"])
        submit(api, name="wide", gpus=4)
        submit(api, name="wide", gpus=4)
        yield Site(server, api, browser, {"root": root, "dana": made["token"]})
