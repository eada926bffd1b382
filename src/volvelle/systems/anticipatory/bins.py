"""How long a job takes, as one of a few bins (anticipatory scheduling, 5.4.2).

By jobs that ended: of the same user and name, which stand for the paper's experiment tags; else of the same
user, pool and width; else of pool and width; else of the pool; else of all. Old jobs are forgotten: each
counts a hundredth less when the next one alike has ended. A job is believed to take as long as the upper end
of a bin; in the last bin as long as the longest seen.

The paper does not say which of the bins. The most frequent bin is often the shortest, where most of the other
jobs are wrong by hours, and a borrower that outlasts its bin holds GPUs for which none are kept. Here the bin
is the shortest in which at least ``sure`` x (n + 1) of the n jobs alike ended: where the next is like those
before, it ends in time with that probability (split conformal prediction: Vovk, Gammerman, Shafer 2005; with
weights, where jobs change: Barber, Candes, Ramdas, Tibshirani, Annals of Statistics 2023).

Of jobs seen by a run that has just begun only short ones have ended. `RunTimes` of an earlier past, which
``volvelle train-arrivals`` writes, have no such bias.
"""

import json
from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, PrivateAttr

from volvelle.core.events import JobSubmitted
from volvelle.core.parts import Belief, Estimator, estimators
from volvelle.estimate.basic import PositiveSeconds, lasting
from volvelle.model.job import JobSpec
from volvelle.model.problems import Problem
from volvelle.model.tolerances import SAME_AMOUNT
from volvelle.systems.anticipatory.quanta import DEFAULT, Quanta, read_quanta

_Key = tuple[str, ...]

FORMAT = 1
"""Of files of run times."""
_FORGETS = 0.99
"""The weight of an ended job once the next one alike has ended."""


@dataclass
class RunTimes:
    """How many jobs of each kind ended in each bin; they end at ``edges``, seconds, and the last never."""

    edges: tuple[float, ...]
    longest: float = 0.0
    counts: dict[_Key, list[float]] = field(default_factory=dict)

    def add(self, spec: JobSpec, run_seconds: float) -> None:
        """A job ended."""
        place = bisect_left(self.edges, run_seconds)
        self.longest = max(self.longest, run_seconds)
        for key in _keys(spec):
            kept = [
                _FORGETS * count for count in self.counts.get(key, [0.0] * (len(self.edges) + 1))
            ]
            kept[place] += 1.0
            self.counts[key] = kept

    def alike(self, spec: JobSpec, fewest: int) -> list[float]:
        """Counts of the most similar jobs of which at least ``fewest`` are known; empty where none are."""
        found = (self.counts.get(key, []) for key in _keys(spec))
        enough = (1.0 - _FORGETS**fewest) / (1.0 - _FORGETS)  # what so many count
        return next((counts for counts in found if sum(counts) + SAME_AMOUNT >= enough), [])

    def save(self, path: Path) -> None:
        """Write them as JSON."""
        text = {
            "run_times": FORMAT,
            "edges": self.edges,
            "longest": self.longest,
            "counts": [[list(key), counts] for key, counts in self.counts.items()],
        }
        path.write_text(json.dumps(text), encoding="utf-8")

    @classmethod
    def load(cls, path: Path, edges: tuple[float, ...]) -> Self:
        """Read what `save` wrote. Raises `Problem` where it cannot be read, or is for other bins."""
        again = "write it again: volvelle train-arrivals --run-times"
        try:
            text: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            found = cls(tuple(map(float, text["edges"])))
            found.longest = float(text["longest"])
            found.counts = {tuple(key): list(map(float, counts)) for key, counts in text["counts"]}
            version = text["run_times"]
        except OSError as error:
            raise Problem(f"no run times at {path}: {error.strerror}", mend=again) from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise Problem(f"{path} has no run times", mend=again) from None
        if version != FORMAT:
            raise Problem(f"{path} is of version {version}, this is {FORMAT}", mend=again)
        if found.edges != edges:
            raise Problem(f"{path} is for bins that end at {found.edges} s", mend=again)
        if any(len(counts) != len(edges) + 1 for counts in found.counts.values()):
            raise Problem(f"{path} is damaged: bins are missing", mend=again)
        return found


@estimators.register
class Bins(Estimator):
    """The bin of run times that jobs like it ended in: of its user and name, else its pool and GPUs."""

    name: ClassVar[str] = "bins"
    source: ClassVar[str] = "Anticipatory scheduling (SIA) section 5.4.2"

    quanta: Quanta = Field(DEFAULT, description="where bins end, one after another: 5m/1h/12h")
    sure: Annotated[float, Field(gt=0, le=1)] = Field(
        0.5, description="share of jobs alike that end within the bin; 1: all jobs are long"
    )
    past: str = Field("", description="file of `volvelle train-arrivals --run-times` to begin with")
    fewest: Annotated[int, Field(ge=1)] = Field(
        3, description="jobs alike from which on they count"
    )
    default: PositiveSeconds = Field(86400.0, description="before anything is known")
    _seen: RunTimes | None = PrivateAttr(None)

    def believe(self, job: JobSubmitted, seed: int) -> Belief:
        """A job as long as the bin of similar jobs."""
        seen = self._run_times()
        if not (counts := seen.alike(job.spec, self.fewest)):
            return Belief(lasting(job.spec, self.default))
        needed, ended = self.sure * (sum(counts) + 1.0), 0.0
        for edge, count in zip(seen.edges, counts, strict=False):
            ended += count
            if ended >= needed:
                return Belief(lasting(job.spec, edge))
        return Belief(lasting(job.spec, max(seen.longest, 2.0 * seen.edges[-1])))

    def learn(self, spec: JobSpec, run_seconds: float) -> None:
        """Count a job that finished."""
        self._run_times().add(spec, run_seconds)

    def _run_times(self) -> RunTimes:
        if self._seen is None:
            edges = read_quanta(self.quanta)
            self._seen = RunTimes.load(Path(self.past), edges) if self.past else RunTimes(edges)
        return self._seen


def _keys(spec: JobSpec) -> list[_Key]:
    """Keys of similar jobs, the closest first."""
    alike: list[_Key] = [("tag", spec.user, spec.name)] if spec.name else []
    if spec.user:
        alike.append(("user", spec.user, spec.pool, f"{spec.gpus:g}"))
    return [*alike, ("width", spec.pool, f"{spec.gpus:g}"), ("pool", spec.pool), ()]
