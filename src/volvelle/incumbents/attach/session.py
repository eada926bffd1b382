"""Beside a running scheduler, or through a recording of one: poll, follow, tell, keep."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from threading import Event, Lock
from typing import Any, Protocol

from volvelle.incumbents.attach.accuracy import Told
from volvelle.incumbents.attach.follow import Attached, Follower
from volvelle.incumbents.attach.incumbent import Answers, Incumbent
from volvelle.incumbents.attach.recording import Recording, read, recorded
from volvelle.model.problems import Problem

SITE_EVERY = 600.0
"""Seconds after which what describes the site is asked for again."""


class Asked(Protocol):
    """The answers of a running scheduler. Raises `Problem` where it has none."""

    def site(self) -> Answers:
        """The answers that describe the site, by kind."""

    def poll(self) -> Answers:
        """The answers of what changes, such as jobs and nodes, by kind."""


class Publishes(Protocol):
    """The part that writes told times where users look."""

    def publish(self, follower: Attached, told: list[Told], /) -> None:
        """Write what changed."""

    def withdraw(self, follower: Attached, /) -> None:
        """Remove what is written."""


class Replay:
    """A follower that is led through entries of a recording."""

    def __init__(self, of: Incumbent[Any, Any]) -> None:
        self._of = of
        self._site: dict[str, Any] = {}
        self._site_is_new = False
        self.follower: Attached | None = None

    def feed(self, entry: Mapping[str, Any]) -> bool:
        """Take an entry in; whether it was a poll, so that the follower can tell. Raises `Problem`.

        A site is read with the next poll, which has parts of it, such as nodes.
        """
        if "site" in entry:
            self._site |= entry["site"]
            self._site_is_new = True
        if "poll" not in entry:
            return False
        self._site |= entry["poll"]
        if self.follower is None:
            self.follower = Follower(self._of.site(self._site), self._of)
        elif self._site_is_new:
            self.follower.site = self._of.site(self._site)
        self._site_is_new = False
        self.follower.observe(self._of.snapshot(entry["poll"], entry["t"]))
        return True

    def recall(self, entry: Mapping[str, Any]) -> bool:
        """Take an entry of the past in; one that could not be read, as was said then, is passed over."""
        try:
            return self.feed(entry)
        except Problem:
            return False


def replay(folder: Path) -> Iterator[tuple[Attached, list[Told]]]:
    """The follower after each poll of a recording that could be read, and what it tells then."""
    leads = Replay(recorded(folder))
    for entry in read(folder):
        if leads.recall(entry) and leads.follower is not None:
            yield leads.follower, leads.follower.tell()


Take = Callable[[Attached, list[Told]], None]
"""The part that is given the follower after each poll, and what it told then."""


def resumed(
    entries: Iterable[Mapping[str, Any]], of: Incumbent[Any, Any], take: Take | None = None
) -> Replay:
    """The follower as a recording leaves it, with what was told then; nothing is told anew."""
    leads = Replay(of)
    for entry in entries:
        leads.recall(entry)
        if "told" in entry and leads.follower is not None:
            leads.follower.remember(entry["told"])
            if take is not None:
                take(leads.follower, entry["told"])
    return leads


class Session:
    """Polls of a running scheduler, one in flight at a time, kept in a recording that can be gone on with."""

    def __init__(
        self,
        asked: Asked,
        folder: Path,
        of: Incumbent[Any, Any],
        take: Take | None = None,
        publisher: Publishes | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._asked, self._clock, self._take, self._publisher = asked, clock, take, publisher
        self.folder = folder
        known = folder.is_dir() and any(folder.glob("attach.jsonl*"))
        if known and (other := recorded(folder)).name != of.name:
            raise Problem(
                f"{folder} holds a recording of {other.title}", mend="name another: --record"
            )
        entries = list(read(folder)) if known else []
        self._recording = Recording(folder, of)
        self._recording.resume(entries)
        self._leads = resumed(entries, of, take)
        self._site_at = -SITE_EVERY
        self.seen: float | None = None
        """When the last poll had an answer."""
        self.learning = Lock()
        """Is held while the follower takes a poll in and tells."""

    @property
    def follower(self) -> Attached | None:
        """The cluster so far; None before the first poll."""
        return self._leads.follower

    def step(self) -> list[Told]:
        """Poll once and tell. Raises `Problem` where there is no answer, and keeps that it had none."""
        now = self._clock()
        try:
            if time.monotonic() - self._site_at >= SITE_EVERY or self.follower is None:
                site = self._asked.site()
                self._site_at = time.monotonic()
            else:
                site = {}
            answers = self._asked.poll()
        except Problem as problem:
            self._recording.failed(now, str(problem))
            raise
        now = self._clock()
        if site:
            self._recording.site(now, site)
        self._recording.poll(now, answers)
        with self.learning:
            if site:
                self._leads.feed({"t": now, "site": site})
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
        """Let another process go on with the recording; what was published is removed."""
        try:
            if self._publisher is not None and self.follower is not None:
                self._publisher.withdraw(self.follower)
        finally:
            self._recording.close()


def at_the_end(folder: Path) -> Attached:
    """The follower as a recording leaves it. Raises `Problem` where it has no poll."""
    follower = resumed(read(folder), recorded(folder)).follower
    if follower is None:
        raise Problem(f"the recording in {folder} has no poll")
    return follower
