"""Jobs as people call them: by number, or by the name of the one job that waits or runs under it."""

from collections.abc import Mapping
from typing import Any

from volvelle.live.http.client import ApiClient
from volvelle.model.job_number import full_name, job_name, job_number
from volvelle.model.problems import Problem, nearest

_LATEST = 1000
"""Jobs that are over, among which a name is looked for."""
_SHOWN = 5
_KEYS = ("number", "name", "array_index", "state")


def number_of(client: ApiClient, written: str | int) -> int:
    """The number of a job. A name is that of one active job or else of the latest that is over.

    Raises `Problem` where several active jobs have the name, or none has.
    """
    try:
        return job_number(str(written))
    except ValueError:
        name = str(written)
    active = list(client.pages("/v1/jobs", "jobs", _KEYS))
    found = [job for job in active if _is_called(job, name)]
    if len(found) > 1:
        said = ", ".join(f"{job_name(job['number'])} ({job['state']})" for job in found[:_SHOWN])
        said += f" and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
        raise Problem(
            f"{len(found):,} jobs are called {name!r}: {said}",
            mend="say which by number",
            usage=True,
        )
    if not found:
        over = client.get("/v1/jobs", over="true", limit=_LATEST)["jobs"]
        found = [job for job in over if _is_called(job, name)][:1]
        if not found:
            near = nearest(name, {_full_name(job) for job in (*active, *over)})
            raise Problem(f"there is no job {name!r}{near}", mend="see: volvelle queue", usage=True)
    number: int = found[0]["number"]
    return number


def after_all_of(client: ApiClient, name: str) -> str:
    """As in ``12``, or ``12-15`` where the active jobs, or else the latest, of this name are one array.

    Raises `Problem` as `number_of`.
    """
    active = list(client.pages("/v1/jobs", "jobs", _KEYS))
    over = client.get("/v1/jobs", over="true", limit=_LATEST)["jobs"]
    called = [job for job in active if _is_called(job, name)]
    called = called or [job for job in over if _is_called(job, name)][:1]
    firsts = {_first_of_array(job) for job in called if name == job["name"]}
    if len(firsts) != 1 or None in firsts:
        return str(number_of(client, name))
    [first] = firsts
    numbers = [job["number"] for job in (*active, *over) if _first_of_array(job) == first]
    return f"{first}-{max(numbers)}"


def _first_of_array(job: Mapping[str, Any]) -> int | None:
    """The number of the first job of its array; None for a job of none."""
    index = job["array_index"]
    return None if index is None else job["number"] - index


def _is_called(job: Mapping[str, Any], name: str) -> bool:
    return bool(name) and name in (job["name"], _full_name(job))


def _full_name(job: Mapping[str, Any]) -> str:
    return full_name(job["name"], job["array_index"])
