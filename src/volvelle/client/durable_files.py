"""Files that are there all at once, and that a power cut leaves."""

import json
import os
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, content: object) -> None:
    """Write ``content`` as a JSON file that is there all at once, and stays."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content), encoding="utf-8")
    put(partial, path)


def put(partial: Path, path: Path) -> None:
    """Give a file or folder that has been written the name under which it counts."""
    force(partial)
    partial.replace(path)
    force_one(path.parent)


def force(path: Path) -> None:
    """Have the disk hold ``path`` and all that is below it."""
    for each in (*path.rglob("*"), path):
        with suppress(FileNotFoundError):  # another rank's, renamed meanwhile
            force_one(each)


def force_one(path: Path) -> None:
    """Have the disk hold a file, or what a folder lists."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
