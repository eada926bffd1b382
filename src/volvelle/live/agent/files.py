"""Small file operations that survive crashes: locks, atomic writes, the last line of a log."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def lock(path: Path) -> Iterator[bool]:
    """Try to lock the file ``path``; yields whether it was free. The lock ends with its holder."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def write_file(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path`` atomically and durably, readable by its owner only. Raises OSError."""
    partial = path.with_name(path.name + ".partial")
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def last_line(path: Path, max_bytes: int = 4096, max_characters: int = 200) -> str:
    """The last non-empty line of a text file, with printable characters only; "" if unreadable."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - max_bytes))
            text = file.read(max_bytes).decode(errors="replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    shown = "".join(char if char.isprintable() else " " for char in lines[-1]) if lines else ""
    return shown[-max_characters:]


def current_umask() -> int:
    """The umask of this process, which cannot be read without being set."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
