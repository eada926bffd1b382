"""`volvelle.connect`: a live server, asked as the commands ask it."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from volvelle.live.forecasts.explanation import JobExplanation
from volvelle.live.forecasts.job_forecast import JobForecast
from volvelle.live.http import submission
from volvelle.live.http.client import ApiClient, NotAnswered
from volvelle.live.http.named_jobs import number_of
from volvelle.live.job_request import JobRequest
from volvelle.live.status.view import JobStatusView, NodeStatusView
from volvelle.model.problems import Problem
from volvelle.notebook.records import Record, Rows, record_of


@dataclass(frozen=True, repr=False)
class Explanation:
    """The answer to `Server.why`: shown as sentences, with the fields of ``record`` as its own."""

    record: Record
    sentences: tuple[str, ...]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.record, name)

    def __repr__(self) -> str:
        return "\n".join(self.sentences)

    def _repr_html_(self) -> str:
        return "".join(f"<p>{escape(one)}</p>" for one in self.sentences)


@dataclass(frozen=True, repr=False)
class Server:
    """A live cluster's server. Every method raises `Problem` with the server's message."""

    client: ApiClient

    def __repr__(self) -> str:
        return f"<Server at {self.client.url}>"

    def submit(self, job: Path | str | Sequence[str], **keys: Any) -> Rows:
        """Submit a job (``volvelle submit``): the path of its file, or the words of its command.

        keys: those of a job's file, as in ``gpus=8``, ``estimate="2h"``, ``deadline={"within": "9h"}``. A row
        for each job; the first one's has its forecast.
        """
        first, *others = submission.submit(self.client, _request(job, keys))["numbers"]
        try:
            rows = [submission.with_forecast(self.client, first)]
            rows += (self.client.get(f"/v1/jobs/{number}") for number in others)
        except NotAnswered as problem:
            last = f" to {others[-1]}" if others else ""
            message = f"job {first}{last} accepted, but its forecast is not known: {problem}"
            raise Problem(message.removesuffix("."), mend="do not submit it again") from None
        return Rows.of(JobStatusView, rows)

    def forecast(self, job: Path | str | Sequence[str], **keys: Any) -> Record:
        """The forecast of a job that were submitted now (``volvelle submit --dry-run``)."""
        return record_of(JobForecast, submission.forecast(self.client, _request(job, keys)))

    def queue(self, *, user: str | None = None) -> Rows:
        """The jobs that wait or run, with forecasts (``volvelle queue``)."""
        return Rows.of(JobStatusView, [*self.client.pages("/v1/jobs", "jobs", user=user)])

    def history(self, *, user: str | None = None, limit: int = 20) -> Rows:
        """The jobs that are over, those submitted last first (``volvelle history``)."""
        found = self.client.get("/v1/jobs", over="true", user=user, limit=limit)
        return Rows.of(JobStatusView, found["jobs"])

    def job(self, job: int | str) -> Record:
        """One job by its number or name, over or not."""
        return record_of(JobStatusView, self.client.get(self._path(job)))

    def nodes(self) -> Rows:
        """The nodes: their states, free GPUs and jobs (``volvelle nodes``)."""
        return Rows.of(NodeStatusView, self.client.get("/v1/nodes")["nodes"])

    def why(self, job: int | str) -> Explanation:
        """Why a job waits, or how it ended; and what would help it (``volvelle why``)."""
        from volvelle.cli.explaining import explained  # noqa: PLC0415 - the commands' words, late
        from volvelle.cli.moments import local_now  # noqa: PLC0415

        found = self.client.get(f"{self._path(job)}/why")
        said = explained(found, lambda: self.client.get("/v1/session")["titles"], local_now())
        return Explanation(record_of(JobExplanation, found), tuple(said))

    def change(self, job: int | str, **values: Any) -> Record:
        """Declare attributes of a waiting job anew, as in ``priority=5``; the job (``volvelle change``)."""
        self.client.patch(self._path(job), values)
        return self.job(job)

    def cancel(self, job: int | str) -> tuple[str, ...]:
        """End a job for good; sentences on jobs that are rejected by it (``volvelle cancel``)."""
        return tuple(self.client.post(f"{self._path(job)}/cancel")["notices"])

    def hold(self, job: int | str) -> None:
        """Keep a job from running until it is released (``volvelle hold``)."""
        self.client.post(f"{self._path(job)}/hold")

    def release(self, job: int | str) -> None:
        """Let a held job run again (``volvelle release``)."""
        self.client.post(f"{self._path(job)}/release")

    def requeue(self, job: int | str) -> None:
        """Stop a running job at a checkpoint, and let it wait again (``volvelle requeue``)."""
        path, attempt = self._path(job), self.job(job).attempt
        self.client.post(f"{path}/requeue" + (f"?attempt={attempt}" if attempt else ""))

    def _path(self, job: int | str) -> str:
        return f"/v1/jobs/{number_of(self.client, job)}"


def _request(job: Path | str | Sequence[str], keys: Mapping[str, Any]) -> JobRequest:
    words = [str(job)] if isinstance(job, (str, Path)) else [*job]
    if len(words) == 1 and " " in words[0] and not Path(words[0]).exists():
        raise Problem(
            f"there is no file {words[0]!r}",
            mend=f"give a command by words: {shlex.split(words[0])}",
        )
    return submission.requested(words, keys)


def connect(url: Path | str | None = None, *, token: str | None = None) -> Server:
    """The server at ``url`` or in a folder, or the one that the commands find (VOLVELLE_SERVER, or near).

    Raises `Problem` if there is none, or no token.
    """
    import os  # noqa: PLC0415 - one name of it

    named = {"VOLVELLE_SERVER": url, "VOLVELLE_TOKEN": token}
    given = {name: str(value) for name, value in named.items() if value is not None}
    return Server(ApiClient.find({**os.environ, **given}))
