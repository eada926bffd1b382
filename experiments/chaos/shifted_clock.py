"""A wall clock that the experiment sets, for the processes of commands (`commands`), without root.

It is imported before all else where commands are forked, so `time.time` is ours wherever it is called or
kept. Clocks of the kernel, such as times of files, stay as they are.
"""

import time
from contextlib import suppress
from pathlib import Path

_real = time.time
_offset_file: Path | None = None


def _shifted() -> float:
    offset = 0.0
    if _offset_file is not None:
        with suppress(OSError, ValueError):
            offset = float(_offset_file.read_text())
    return _real() + offset


def follow(offset_file: Path) -> None:
    """From now on this process's clock is ahead by the seconds in ``offset_file``."""
    global _offset_file  # noqa: PLW0603 - one clock
    _offset_file = offset_file


time.time = _shifted
