"""How long a job takes, as one of a few bins (anticipatory scheduling, 5.4.2).

By jobs that ended: of the same user and name, which stand for the paper's experiment tags; else of the same
pool and width; else of the pool; else of all. The bin that most of them were in counts, of equals the longer.
A job is believed to take as long as the bin's upper end; in the last bin as long as the longest seen.
"""

from bisect import bisect_left
from typing import Annotated, ClassVar

from pydantic import Field, PrivateAttr

from volvelle.core.events import JobSubmitted
from volvelle.core.parts import Belief, Estimator, estimators
from volvelle.estimate.basic import PositiveSeconds, lasting
from volvelle.estimate.quanta import DEFAULT, Quanta, read_quanta
from volvelle.model.job import JobSpec

_Key = tuple[str, ...]


@estimators.register
class Bins(Estimator):
    """The bin of run times that most jobs like it ended in: of its user and name, else its pool and width."""

    name: ClassVar[str] = "bins"
    source: ClassVar[str] = "Anticipatory scheduling (SIA) section 5.4.2"

    quanta: Quanta = Field(DEFAULT, description="where bins end, one after another: 5m/1h/12h")
    fewest: Annotated[int, Field(ge=1)] = Field(
        3, description="jobs alike from which on they count"
    )
    default: PositiveSeconds = Field(86400.0, description="before anything is known")
    _seen: dict[_Key, list[int]] = PrivateAttr(default_factory=dict)
    _longest: float = PrivateAttr(0.0)

    def believe(self, job: JobSubmitted, seed: int) -> Belief:
        """A job as long as the bin of those like it."""
        edges = read_quanta(self.quanta)
        for key in _keys(job.spec):
            counts = self._seen.get(key, [0])
            if sum(counts) >= self.fewest:
                most = max(range(len(counts)), key=lambda at: (counts[at], at))
                seconds = edges[most] if most < len(edges) else self._longest
                return Belief(lasting(job.spec, seconds))
        return Belief(lasting(job.spec, self.default))

    def learn(self, spec: JobSpec, run_seconds: float) -> None:
        """Count a job that finished."""
        edges = read_quanta(self.quanta)
        place = bisect_left(edges, run_seconds)
        self._longest = max(self._longest, run_seconds)
        for key in _keys(spec):
            self._seen.setdefault(key, [0] * (len(edges) + 1))[place] += 1


def _keys(spec: JobSpec) -> list[_Key]:
    """What jobs have in common, the closest first."""
    alike: list[_Key] = [("tag", spec.user, spec.name)] if spec.name else []
    return [*alike, ("width", spec.pool, f"{spec.gpus:g}"), ("pool", spec.pool), ()]
