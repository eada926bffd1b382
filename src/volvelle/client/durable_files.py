"""Files that are written atomically and survive a power failure."""

import json
import os
from contextlib import suppress
from pathlib import Path


def write_json(path: Path, content: object) -> None:
    """Write ``content`` as a JSON file, atomically and durably."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content), encoding="utf-8")
    publish(partial, path)


def publish(partial: Path, path: Path) -> None:
    """Rename a written file or folder to its final path, durably."""
    fsync_tree(partial)
    partial.replace(path)
    fsync(path.parent)


def fsync_tree(path: Path) -> None:
    """Fsync ``path`` and everything below it."""
    for each in (*path.rglob("*"), path):
        with suppress(FileNotFoundError):  # renamed by another rank
            fsync(each)


def fsync(path: Path) -> None:
    """Fsync one file or one folder's entries."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
