"""Users who submit jobs: each under its own key, repeated until it is acknowledged."""

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


class EventCounter:
    """Counts events; threads can wait for more of them."""

    def __init__(self) -> None:
        self._count, self._changed = 0, threading.Condition()

    def add(self) -> None:
        """Count one event."""
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def wait(self, more: int, timeout: float) -> bool:
        """Wait for so many more events; whether they came in time."""
        with self._changed:
            goal = self._count + more
            return self._changed.wait_for(lambda: self._count >= goal, timeout)


@dataclass
class SubmissionLog:
    """What all clients have submitted. ``totals``: iterations of the acknowledged jobs.

    requests: sent ones. answers: those that acknowledged a job.
    """

    totals: dict[int, int] = field(default_factory=dict)
    requests: EventCounter = field(default_factory=EventCounter)
    answers: EventCounter = field(default_factory=EventCounter)
    keys: int = 0
    repeated: int = 0
    retried: int = 0
    contradictions: list[str] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def lose(self, kept: set[int]) -> set[int]:
        """The store was set back to these jobs: the others, which count no longer."""
        with self.lock:
            lost = self.totals.keys() - kept
            for number in lost:
                del self.totals[number]
            self.keys -= len(lost)
            self.lost |= lost
        return lost


class Client:
    """The program of one user."""

    def __init__(
        self,
        name: str,
        url: str,
        token_file: Path,
        traces: Path,
        log: SubmissionLog,
        seed: str,
        most_open: int,
    ) -> None:
        self._name, self._url, self._token_file = name, url, token_file
        self._traces, self._log = traces, log
        self._rng, self._most_open = random.Random(seed), most_open
        self._ending = threading.Event()
        self._may_submit = threading.Event()
        self._may_submit.set()
        self._idle = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def client(self) -> ApiClient:
        """A client of the server, with its first token."""
        return ApiClient(self._url, read_secret(self._token_file))

    def pause(self) -> None:
        """Submit no jobs until `resume`; returns once all submitted ones are acknowledged."""
        self._idle.clear()
        self._may_submit.clear()
        self._idle.wait()

    def resume(self) -> None:
        """Submit jobs again."""
        self._may_submit.set()

    def end(self) -> None:
        """Submit no more jobs."""
        self._ending.set()
        self.resume()

    def ended(self, timeout: float) -> bool:
        """Wait until the last job is acknowledged; whether it was in time."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        count = 0
        while not self._ending.wait(_PAUSE_SECONDS):
            if not self._may_submit.is_set():
                self._idle.set()
                self._may_submit.wait()
                continue
            open_jobs = self._retry(lambda: len(self.client.get("/v1/jobs")["jobs"]), give_up=True)
            if open_jobs is not None and open_jobs < self._most_open:
                self._submit(f"{self._name}-{count}")
                count += 1

    def _submit(self, key: str) -> None:
        rng, log = self._rng, self._log
        total = rng.randint(*_ITERATIONS)
        arguments = [str(_SCRIPT), str(self._traces), str(total), str(_SECONDS)]
        body = {
            "name": key,
            "command": [sys.executable, *arguments, str(rng.choice(_SAVE_EVERY))],
            "gpus": rng.choices(_WIDTHS, _SHARES)[0],
            "estimate": total * _SECONDS,
            "retries": 1000,
            "checkpoint": {"grace": 10},
        }
        with log.lock:
            log.keys += 1
        (number,) = self._retry(lambda: self.client.post("/v1/jobs", body, key=key)["numbers"])
        log.answers.add()
        with log.lock:
            if number in log.totals or number in log.lost:
                log.contradictions.append(f"job {number} was acknowledged for two keys")
            log.totals[number] = total
        if rng.random() < 0.3:
            (again,) = self._retry(lambda: self.client.post("/v1/jobs", body, key=key)["numbers"])
            with log.lock:
                log.repeated += 1
                if again != number:
                    log.contradictions.append(f"key {key} was answered {number}, then {again}")

    def _retry(self, send: Callable[[], Any], *, give_up: bool = False) -> Any:
        """Repeat a request until it is answered."""
        while not (give_up and self._ending.is_set()):
            self._log.requests.add()
            try:
                return send()
            except Problem:
                with self._log.lock:
                    self._log.retried += 1
            time.sleep(_PAUSE_SECONDS)
        return None
