"""Run times from the past under the same or similar names (Helios, SC'21: the rolling estimate)."""

from difflib import get_close_matches
from typing import Annotated, ClassVar

from pydantic import Field, PrivateAttr

from volvelle.core.events import JobSubmitted
from volvelle.core.parts import Belief, Estimator, estimators
from volvelle.estimate.basic import PositiveSeconds, lasting
from volvelle.model.job import JobSpec

_ANY = ""
_Key = tuple[str, str, float]
"""A user, a name and GPUs; empty and 0 for all."""


@estimators.register
class SimilarNames(Estimator):
    """The mean run time of the user's jobs of this name, or of similar ones, on as many GPUs."""

    name: ClassVar[str] = "similar-names"
    source: ClassVar[str] = "Helios (SC'21)"

    default: PositiveSeconds = Field(3600.0, description="before anything is known")
    likeness: Annotated[float, Field(ge=0, le=1)] = Field(
        0.6, description="share of letters that similar names have in common, in order"
    )
    names: Annotated[int, Field(ge=1)] = Field(
        500, description="names that were seen last, among which similar ones are looked for"
    )

    _seen: dict[_Key, tuple[int, float]] = PrivateAttr(default_factory=dict)
    _names: dict[str, None] = PrivateAttr(default_factory=dict)
    """The names that were seen last, the latest at the end."""

    def believe(self, job: JobSubmitted, seed: int) -> Belief:
        """The mean of those that are most like it: by name and user, then name, then user, then all."""
        spec = job.spec
        known = [spec.name] if spec.name in self._names else self._similar(spec.name)
        likest = [
            [(spec.user, name, spec.gpus) for name in known],
            [(spec.user, name, 0.0) for name in known],
            [(_ANY, name, 0.0) for name in known],
            [(spec.user, _ANY, 0.0)],
            [(_ANY, _ANY, 0.0)],
        ]
        for keys in likest:
            found = [self._seen[key] for key in keys if key in self._seen]
            if found:
                mean = sum(total for _, total in found) / sum(count for count, _ in found)
                return Belief(lasting(spec, max(mean, 1.0)))
        return Belief(lasting(spec, self.default))

    def guesses(self, spec: JobSpec) -> bool:
        """Before a job of this user and name has finished."""
        return (spec.user, spec.name, 0.0) not in self._seen

    def learn(self, spec: JobSpec, run_seconds: float) -> None:
        """Count a finished job under all that others may have in common with it."""
        for key in {
            (spec.user, spec.name, spec.gpus),
            (spec.user, spec.name, 0.0),
            (_ANY, spec.name, 0.0),
            (spec.user, _ANY, 0.0),
            (_ANY, _ANY, 0.0),
        }:
            count, total = self._seen.get(key, (0, 0.0))
            self._seen[key] = (count + 1, total + run_seconds)
        self._names.pop(spec.name, None)
        self._names[spec.name] = None
        if len(self._names) > self.names:
            del self._names[next(iter(self._names))]

    def _similar(self, name: str) -> list[str]:
        """The two most similar names, if any are."""
        return get_close_matches(name, list(self._names), n=2, cutoff=self.likeness) if name else []
