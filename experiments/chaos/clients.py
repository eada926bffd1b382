"""Users who submit jobs and do not give up: each under its own key, until it is acknowledged."""

import random
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from volvelle.live.http.client import ApiClient
from volvelle.live.serve_folder import read_secret
from volvelle.model.problems import Problem

_SCRIPT = Path(__file__).with_name("traced_job.py")
_PAUSE_SECONDS = 0.1
_WIDTHS, _SHARES = (1, 2, 3, 4), (5, 3, 2, 1)
_ITERATIONS = (12, 40)
_SECONDS = 0.04
_SAVE_EVERY = (1, 3, 7)


class Counted:
    """Something that is counted, and that can be waited for."""

    def __init__(self) -> None:
        self._count, self._news = 0, threading.Condition()

    def add(self) -> None:
        """It happened."""
        with self._news:
            self._count += 1
            self._news.notify_all()

    def wait(self, more: int, timeout: float) -> bool:
        """Wait until it happened so often again; whether it did in time."""
        with self._news:
            goal = self._count + more
            return self._news.wait_for(lambda: self._count >= goal, timeout)


@dataclass
class Submitting:
    """What all clients know of their jobs. ``totals``: iterations of the jobs that were acknowledged.

    requests: that left. answers: that acknowledged a job.
    """

    totals: dict[int, int] = field(default_factory=dict)
    requests: Counted = field(default_factory=Counted)
    answers: Counted = field(default_factory=Counted)
    keys: int = 0
    repeated: int = 0
    retried: int = 0
    contradictions: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Client:
    """One user's program."""

    def __init__(
        self,
        name: str,
        url: str,
        token_file: Path,
        traces: Path,
        known: Submitting,
        seed: str,
        most_open: int,
    ) -> None:
        self._name, self._url, self._token_file = name, url, token_file
        self._traces, self._known = traces, known
        self._rng, self._most_open = random.Random(seed), most_open
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def client(self) -> ApiClient:
        """The server, with the token it gave out."""
        return ApiClient(self._url, read_secret(self._token_file))

    def end(self) -> None:
        """Begin no new job."""
        self._ending.set()

    def ended(self, timeout: float) -> bool:
        """Wait until the last job is acknowledged; whether it was in time."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _work(self) -> None:
        count = 0
        while not self._ending.wait(_PAUSE_SECONDS):
            open_jobs = self._insist(lambda: len(self.client.get("/v1/jobs")["jobs"]), give_up=True)
            if open_jobs is not None and open_jobs < self._most_open:
                self._submit(f"{self._name}-{count}")
                count += 1

    def _submit(self, key: str) -> None:
        rng, known = self._rng, self._known
        total = rng.randint(*_ITERATIONS)
        words = [str(_SCRIPT), str(self._traces), str(total), str(_SECONDS)]
        body = {
            "name": key,
            "command": [sys.executable, *words, str(rng.choice(_SAVE_EVERY))],
            "gpus": rng.choices(_WIDTHS, _SHARES)[0],
            "estimate": total * _SECONDS,
            "retries": 1000,
            "checkpoint": {"grace": 10},
        }
        with known.lock:
            known.keys += 1
        (number,) = self._insist(lambda: self.client.post("/v1/jobs", body, key=key)["numbers"])
        known.answers.add()
        with known.lock:
            if number in known.totals:
                known.contradictions.append(f"job {number} was acknowledged for two keys")
            known.totals[number] = total
        if rng.random() < 0.3:
            (again,) = self._insist(lambda: self.client.post("/v1/jobs", body, key=key)["numbers"])
            with known.lock:
                known.repeated += 1
                if again != number:
                    known.contradictions.append(f"key {key} was answered {number}, then {again}")

    def _insist(self, ask: Callable[[], Any], *, give_up: bool = False) -> Any:
        """Ask until there is an answer."""
        while not (give_up and self._ending.is_set()):
            self._known.requests.add()
            try:
                return ask()
            except Problem:
                with self._known.lock:
                    self._known.retried += 1
            time.sleep(_PAUSE_SECONDS)
        return None
