"""One sentence to the user where compiling takes long."""

import mmap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LONG_SECONDS = 1.0
"""Seconds of compiling, in all, after which it is announced."""


class Announcement:
    """Says once that kernels are being compiled, as soon as that has taken more than a second.

    Processes that are forked from the one that made it say it once together.
    """

    def __init__(self, say: Callable[[], None]) -> None:
        self._say = say
        self._said = mmap.mmap(-1, 1)  # shared with forked processes
        self._seconds = 0.0
        self._since: list[float] = []

    def begun(self) -> None:
        """A kernel is about to be compiled, perhaps as a part of another."""
        self._since.append(time.monotonic())
        if not self._said[0] and self._seconds + time.monotonic() - self._since[0] > LONG_SECONDS:
            self._said[0] = 1
            self._say()

    def done(self) -> None:
        """The kernel that was begun last is compiled."""
        since = self._since.pop()
        if not self._since:
            self._seconds += time.monotonic() - since


_announcement = Announcement(lambda: None)


def announce(say: Callable[[], None]) -> None:
    """Let ``say`` be called once, as soon as compiling has taken more than a second in this process."""
    global _announcement  # noqa: PLW0603 - the command line alone knows whether there is a screen
    _announcement = Announcement(say)


@contextmanager
def announcement() -> Iterator[None]:
    """Within, a kernel is compiled."""
    _announcement.begun()
    try:
        yield
    finally:
        _announcement.done()
