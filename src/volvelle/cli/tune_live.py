"""Input that ``volvelle tune --live`` takes from a server, and the point that it puts in place there."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from volvelle.live.http.client import ApiClient
    from volvelle.simulate.sources import Source
    from volvelle.tune.front import Front


@dataclass(frozen=True)
class LiveServer:
    """A server, its journal in a file, and the policy and the admission that decide there now."""

    client: "ApiClient"
    journal: Path
    policy: str
    admission: str

    @classmethod
    def ask(cls, directory: Path, *, again: bool) -> "LiveServer":
        """Download the journal into ``directory``; one that is there stays where it is looked at ``again``.

        Raises `Problem`, also for who is no operator.
        """
        from volvelle.live.http.client import ApiClient
        from volvelle.simulate.past import JOURNAL
        from volvelle.simulate.run_directory import written

        client = ApiClient.find()
        now = client.get("/v1/policy")
        journal = directory / JOURNAL
        if not (again and journal.exists()):
            directory.mkdir(parents=True, exist_ok=True)
            with written(journal) as path, path.open("wb") as file:
                for chunk in client.stream("/v1/journal"):
                    file.write(chunk)
        return cls(client, journal, now["policy"], now["admission"])

    def put(self, front: "Front", pick: str) -> None:
        """Let the point of ``front`` with the name ``pick`` decide from now on, if it is better in anything.

        Raises `Problem`.
        """
        from volvelle.model.problems import Problem, nearest

        if pick not in front.picks:
            raise Problem(
                f"the front has no point {pick!r}{nearest(pick, front.picks)}",
                mend=f"put one of {', '.join(front.picks)} with volvelle policy set",
                usage=True,
            )
        if not front.beats_present(front.picks[pick]):
            print(f"{self.policy} stays: {pick} is better in nothing")
            return
        chosen = f"{front.policy}:{front.points[front.picks[pick]].parameters}"
        now = self.client.put("/v1/policy", {"policy": chosen})
        print(f"{now['policy']} decides, admission {now['admission']}")


def latest(source: "Source", seconds: float) -> "Source":
    """The jobs of the last ``seconds`` before the last submission."""
    from volvelle.workload.workload import Workload

    jobs = source.workload.jobs
    first = max((job.spec.submit_time for job in jobs), default=0.0) - seconds
    kept = [job for job in jobs if job.spec.submit_time >= first]
    return replace(source, workload=Workload(kept, source.workload.name, source.workload.report))


def read_duration(option: str, text: str) -> float:
    """The seconds that ``option`` says. Raises `Problem`."""
    from volvelle.durations import parse_duration
    from volvelle.model.problems import Problem

    try:
        return parse_duration(text)
    except ValueError as error:
        raise Problem(f"{option}: {error}", usage=True) from None
