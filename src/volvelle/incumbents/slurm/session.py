"""Beside a running Slurm, or through a recording of one: poll, follow, tell, keep."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from threading import Event
from typing import Any, Protocol

from volvelle.incumbents.slurm.accuracy import Told
from volvelle.incumbents.slurm.follow import Follower, Mechanism
from volvelle.incumbents.slurm.publish import Publisher
from volvelle.incumbents.slurm.read_jobs import read_snapshot
from volvelle.incumbents.slurm.read_site import read_site
from volvelle.incumbents.slurm.recording import Recording, read
from volvelle.model.problems import Problem

SITE_EVERY = 600.0
"""Seconds after which what describes the site is asked for again."""


class Asked(Protocol):
    """The answers of a Slurm (`volvelle.incumbents.slurm.ask.Slurm`)."""

    def site(self) -> dict[str, str]:
        """The answers that describe the site, by kind."""

    def poll(self) -> dict[str, str]:
        """The answers of jobs, nodes and reservations, by kind."""


class Replay:
    """A follower that is led through entries of a recording."""

    def __init__(self, mechanism: Mechanism) -> None:
        self._mechanism = mechanism
        self._site: dict[str, str] = {}
        self.follower: Follower | None = None

    def feed(self, entry: Mapping[str, Any]) -> bool:
        """Take an entry in; whether it was a poll, so that the follower can tell."""
        if "site" in entry:
            self._site |= entry["site"]
            if self.follower is not None:
                self.follower.site = read_site(self._site)
        if "poll" not in entry:
            return False
        self._site |= entry["poll"]  # nodes and reservations are part of the site
        if self.follower is None:
            self.follower = Follower(read_site(self._site), self._mechanism)
        self.follower.observe(read_snapshot(entry["poll"], entry["t"]))
        return True


def replay(folder: Path, mechanism: Mechanism) -> Iterator[tuple[Follower, list[Told]]]:
    """The follower after each poll of a recording, and what it tells then."""
    leads = Replay(mechanism)
    for entry in read(folder):
        if leads.feed(entry) and leads.follower is not None:
            yield leads.follower, leads.follower.tell()


Take = Callable[[Follower, list[Told]], None]
"""The part that is given the follower after each poll, and what it told then."""


def resumed(
    entries: Iterable[Mapping[str, Any]], mechanism: Mechanism, take: Take | None = None
) -> Replay:
    """The follower as a recording leaves it, with what was told then; nothing is told anew."""
    leads = Replay(mechanism)
    for entry in entries:
        leads.feed(entry)
        if "told" in entry and leads.follower is not None:
            leads.follower.remember(entry["told"])
            if take is not None:
                take(leads.follower, entry["told"])
    return leads


class Session:
    """Polls of a running Slurm, one in flight at a time, kept in a recording that can be gone on with."""

    def __init__(
        self,
        slurm: Asked,
        folder: Path,
        mechanism: Mechanism,
        take: Take | None = None,
        publisher: Publisher | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._slurm, self._clock, self._take, self._publisher = slurm, clock, take, publisher
        self.folder = folder
        known = folder.is_dir() and any(folder.glob("attach.jsonl*"))
        entries = list(read(folder)) if known else []
        self._recording = Recording(folder)
        self._recording.resume(entries)
        self._leads = resumed(entries, mechanism, take)
        self._site_at = -SITE_EVERY
        self.seen: float | None = None
        """When the last poll had an answer."""

    @property
    def follower(self) -> Follower | None:
        """The cluster so far; None before the first poll."""
        return self._leads.follower

    def step(self) -> list[Told]:
        """Poll once and tell. Raises `Problem` where Slurm has no answer, and keeps that it had none."""
        now = self._clock()
        try:
            if time.monotonic() - self._site_at >= SITE_EVERY or self.follower is None:
                site = self._slurm.site()
                self._site_at = time.monotonic()
            else:
                site = {}
            answers = self._slurm.poll()
        except Problem as problem:
            self._recording.failed(now, str(problem))
            raise
        now = self._clock()
        if site:
            self._recording.site(now, site)
            self._leads.feed({"t": now, "site": site})
        self._recording.poll(now, answers)
        self._leads.feed({"t": now, "poll": answers})
        if self.follower is None:
            raise Problem("the poll had no answer")
        told = self.follower.tell()
        self._recording.told(now, told)
        self.seen = now
        if self._take is not None:
            self._take(self.follower, told)
        if self._publisher is not None:
            self._publisher.publish(self.follower, told)
        return told

    def steps(self, every: float, stop: Event) -> Iterator[list[Told] | Problem]:
        """The answer of each poll, or why there was none; ``every``: seconds. The first must have one."""
        while not stop.is_set():
            began = time.monotonic()
            try:
                found: list[Told] | Problem = self.step()
            except Problem as problem:
                if self.seen is None:
                    raise
                age = time.time() - self.seen
                found = Problem(f"{problem} The last answer is {age:.0f} s old.")
            yield found
            stop.wait(max(every - (time.monotonic() - began), 1.0))

    def close(self) -> None:
        """Let another process go on with the recording; comments are removed."""
        try:
            if self._publisher is not None and self.follower is not None:
                self._publisher.withdraw(self.follower)
        finally:
            self._recording.close()
