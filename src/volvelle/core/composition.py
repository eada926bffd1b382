"""A composition: admission, policy, placement, estimator and termination, each chosen by name."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from traceback import walk_tb
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import asdict

from volvelle.core.events import Recomposed
from volvelle.core.facets import FollowsLoss, FollowsRegimes, ForeseesArrivals, KnowsTheTruth
from volvelle.core.mistakes import is_own, mistake_in
from volvelle.core.parts import (
    Admission,
    Estimator,
    Placement,
    Termination,
    admissions,
    estimators,
    placements,
    terminations,
)
from volvelle.core.policy import Policy, policies
from volvelle.core.registry import Part, Registry
from volvelle.model.problems import Problem

REGISTRIES: Mapping[str, Registry[Any]] = MappingProxyType(
    {
        "policy": policies,
        "placement": placements,
        "admission": admissions,
        "estimator": estimators,
        "termination": terminations,
    }
)
"""Of parts, by their kind."""


class Composition(NamedTuple):
    """The parts of a scheduler. Parts hold parameters; their memory belongs to the scheduler."""

    policy: Policy
    placement: Placement
    admission: Admission
    estimator: Estimator
    termination: Termination

    @property
    def loss_every(self) -> float | None:
        """Seconds between the reports of a job's loss that some part asks for; None: no part does."""
        followed = self.estimator.loss_every if isinstance(self.estimator, FollowsLoss) else None
        asked = (followed, self.termination.loss_every)
        return min((every for every in asked if every is not None), default=None)

    @property
    def progress_every(self) -> float | None:
        """Seconds between the reports of a job's progress that the estimator follows; None: it needs none."""
        return self.estimator.progress_every if isinstance(self.estimator, FollowsRegimes) else None

    @property
    def foresees(self) -> bool:
        """Whether future arrivals are passed to the policy: it goes by them, and the estimator knows them."""
        return isinstance(self.policy, ForeseesArrivals) and isinstance(
            self.estimator, KnowsTheTruth
        )

    @property
    def reports_every(self) -> float | None:
        """Seconds between the reports of a job that changes its batch size or tells its loss, if any."""
        asked = (self.loss_every, self.progress_every)
        return min((every for every in asked if every is not None), default=None)

    @property
    def written(self) -> "WrittenComposition":
        """The composition in words, from which `WrittenComposition.build` makes it again."""
        return WrittenComposition(*(part.label for part in self))

    @property
    def own(self) -> dict[str, Part]:
        """The parts that are a user's own, by kind."""
        parts = self._asdict() | {"policy": self.policy.decider}
        return {kind: part for kind, part in parts.items() if is_own(type(part))}

    def changed(self, event: Recomposed) -> "Composition":
        """The composition with the parts that ``event`` names; one that is the same is kept as it is."""
        named = {kind: getattr(event, kind) for kind in self._fields}
        made = {kind: REGISTRIES[kind].make(name) for kind, name in named.items() if name}
        other = {k: part for k, part in made.items() if part.label != getattr(self, k).label}
        return self._replace(**other)

    def failed(self, error: Exception) -> tuple[str, str]:
        """The kind of the user's own part that raised ``error``, and what happened, in words.

        That is the innermost one; the first of its own where none is seen, as in machine code.
        """
        own = self.own
        parts = own_parts_in(error)
        kind = next((kind for kind, _ in parts if kind in own), next(iter(own), "policy"))
        part = f"{kind} {getattr(self, kind).name!r}"
        if not isinstance(error, Problem):
            error = mistake_in(part, error, "") or Problem(
                f"{part} failed: {type(error).__name__}: {error}"
            )
        return kind, str(error.args[0])

    def fork(self) -> "Composition":
        """Parts that remember nothing are shared, the others copied."""
        return Composition(
            self.policy.fork(),
            self.placement.fork(),
            self.admission.fork(),
            self.estimator.fork(),
            self.termination.fork(),
        )


class WrittenComposition(msgspec.Struct, frozen=True):
    """A composition as it is written in configurations and journals."""

    policy: str = "fifo"
    placement: str = "none"
    admission: str = "accept-all"
    estimator: str = "oracle"
    termination: str = "completion"

    def build(self) -> Composition:
        """The parts by these names. Raises `Problem` for an unknown name or parameter."""
        return Composition(*(REGISTRIES[kind].make(name) for kind, name in asdict(self).items()))


def own_parts_in(error: BaseException) -> list[tuple[str, Part]]:
    """Users' own parts that were being asked when ``error`` was raised, by kind, the innermost first.

    Where the frames are of functions, as those of a key are, these are the scheduler's own parts.
    """
    frames = [frame for frame, _ in walk_tb((error.__cause__ or error).__traceback__)]
    selves = [frame.f_locals.get("self") for frame in reversed(frames)]
    asked = [
        (kind, part)
        for part in selves
        for kind, base in Composition.__annotations__.items()
        if isinstance(part, base) and is_own(type(part))
    ]
    compositions = [getattr(each, "composition", None) for each in selves]
    composed = next((each for each in compositions if isinstance(each, Composition)), None)
    return asked or (list(composed.own.items()) if composed else [])


@contextmanager
def mistakes_of_parts() -> Iterator[None]:
    """An error of a user's own part within is raised as of `mistake_in`: of the innermost one."""
    asked = "mend it there, or choose another"
    try:
        yield
    except Problem:
        raise
    except Exception as error:
        for kind, part in own_parts_in(error)[:1]:
            if mistake := mistake_in(f"{kind} {part.name!r}", error, asked):
                raise mistake from error
        raise
