"""`volvelle.connect`: a live server, asked as the commands ask it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from volvelle.live.http import submission
from volvelle.live.http.client import ApiClient
from volvelle.live.job_request import JobRequest
from volvelle.notebook.arrow import Columnar


@dataclass(frozen=True, repr=False)
class Rows(Columnar):
    """The server's answer, a row for each job or node."""

    rows: tuple[Mapping[str, Any], ...]

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """Each value that is plain, by its key."""
        keys = dict.fromkeys(
            key for row in self.rows for key, value in row.items() if not isinstance(value, dict)
        )
        return {key: [row.get(key) for row in self.rows] for key in keys}

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self.rows)

    def __repr__(self) -> str:
        return "\n".join(map(str, self.rows)) or "<nothing>"

    def _repr_html_(self) -> str:
        columns = self.columns()
        heads = "".join(f"<th>{escape(key)}</th>" for key in columns)
        lines = "".join(
            f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in cells)}</tr>"
            for cells in zip(*columns.values(), strict=True)
        )
        return f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"


@dataclass(frozen=True)
class Server:
    """A live cluster's server. Every method raises `Problem` with the server's message."""

    client: ApiClient

    def submit(self, job: Path | str | Sequence[str], **keys: Any) -> Rows:
        """Submit a job (``volvelle submit``): the path of its file, or the words of its command.

        keys: those of a job's file, as in ``gpus=8``, ``estimate="2h"``, ``deadline={"within": "9h"}``. A row
        for each job; the first one's has its forecast.
        """
        first, *others = submission.submit(self.client, _request(job, keys))["numbers"]
        rows = [submission.with_forecast(self.client, first)]
        return Rows((*rows, *(self.client.get(f"/v1/jobs/{number}") for number in others)))

    def forecast(self, job: Path | str | Sequence[str], **keys: Any) -> Mapping[str, Any]:
        """The forecast of a job that were submitted now (``volvelle submit --dry-run``)."""
        return submission.forecast(self.client, _request(job, keys))

    def queue(self, *, user: str | None = None) -> Rows:
        """The jobs that wait or run, with forecasts (``volvelle queue``)."""
        return Rows(tuple(self.client.pages("/v1/jobs", "jobs", user=user)))

    def history(self, *, user: str | None = None, limit: int = 20) -> Rows:
        """The jobs that are over, the latest first (``volvelle history``)."""
        found = self.client.get("/v1/jobs", over="true", user=user, limit=limit)
        return Rows(tuple(found["jobs"]))

    def nodes(self) -> Rows:
        """The nodes: their states, free GPUs and jobs (``volvelle nodes``)."""
        return Rows(tuple(self.client.get("/v1/nodes")["nodes"]))

    def why(self, number: int) -> Mapping[str, Any]:
        """Why a job waits, or how it ended; and what would start it sooner (``volvelle why``)."""
        found: Mapping[str, Any] = self.client.get(f"/v1/jobs/{number}/why")
        return found

    def change(self, number: int, **values: Any) -> Mapping[str, Any]:
        """Declare attributes of a waiting job anew, as in ``priority=5``; the job (``volvelle change``)."""
        self.client.patch(f"/v1/jobs/{number}", values)
        found: Mapping[str, Any] = self.client.get(f"/v1/jobs/{number}")
        return found

    def requeue(self, number: int) -> None:
        """Stop a running job at a checkpoint, and let it wait again (``volvelle requeue``)."""
        attempt = self.client.get(f"/v1/jobs/{number}")["attempt"]
        self.client.post(f"/v1/jobs/{number}/requeue" + (f"?attempt={attempt}" if attempt else ""))


def _request(job: Path | str | Sequence[str], keys: Mapping[str, Any]) -> JobRequest:
    words = [str(job)] if isinstance(job, (str, Path)) else [*job]
    return submission.requested(words, keys)


def connect(*, url: str | None = None, token: str | None = None) -> Server:
    """The server at ``url``, or the one that the commands find (VOLVELLE_SERVER, or a folder near).

    Raises `Problem` if there is none, or no token.
    """
    import os  # noqa: PLC0415 - one name of it

    named = {"VOLVELLE_SERVER": url, "VOLVELLE_TOKEN": token}
    given = {name: value for name, value in named.items() if value is not None}
    return Server(ApiClient.find({**os.environ, **given}))
