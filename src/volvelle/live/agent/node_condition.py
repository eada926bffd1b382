"""The condition of a node: whether its disk lets jobs start."""

import os
from pathlib import Path

_LEAST_BYTES = 64 << 20
_LEAST_FILES = 1000
_AGAIN = 2
"""After a problem, so many times the least must be free before jobs start again."""


def disk_problem(folder: Path, work: Path, before: str = "") -> str:
    """Why no job can start whose files are in ``folder`` and ``work``; empty where nothing is wrong.

    ``folder``: the agent's own, in which a file is written. before: the problem that was found last.
    """
    least = _AGAIN if before else 1
    try:
        for path in (folder, work):
            existing = next(each for each in (path, *path.parents) if each.exists())
            disk = os.statvfs(existing)
            if disk.f_bavail * disk.f_frsize < least * _LEAST_BYTES:
                return f"the disk of {path} is full"
            if disk.f_files and disk.f_favail < least * _LEAST_FILES:
                return f"the disk of {path} takes no more files"
        with (folder / "disk-check").open("wb") as file:
            file.write(b" " * 4096)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return f"the disk of {folder} cannot be written: {error.strerror}"
    return ""
