"""Numbers of jobs as people write them: ``12``, and ``1188_3`` for a task of an array of an attached cluster.

The API has one number for each: above `_ARRAYS` that of a task, of which no own job and no JobId of Slurm is.
"""

import re

_ARRAYS = 1 << 26
"""Above every JobId of Slurm (slurm.h, ``MAX_JOB_ID``)."""


def job_number(written: str) -> int:
    """The number that stands for a job. Raises `ValueError` where ``written`` names none."""
    match = re.fullmatch(r"(\d{1,18})(?:_(\d{1,9}))?", written)
    if match is None:
        raise ValueError(
            f"{written!r} is no job: write its number, or 1188_3 for a task of an array"
        )
    first = int(match[1])
    return first if match[2] is None else first + (int(match[2]) + 1) * _ARRAYS


def job_name(number: int) -> str:
    """A job's number as people write it."""
    if number < _ARRAYS:
        return str(number)
    task, first = divmod(number, _ARRAYS)
    return f"{first}_{task - 1}"


def full_name(name: str, array_index: int | None) -> str:
    """``sweep``, ``sweep[2]`` of an array."""
    return name if array_index is None else f"{name}[{array_index}]"
