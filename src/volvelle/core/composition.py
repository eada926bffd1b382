"""A composition: admission, policy, placement, estimator and termination, each chosen by name."""

from typing import NamedTuple

import msgspec

from volvelle.core.facets import FollowsLoss, FollowsRegimes, ForeseesArrivals, KnowsTheTruth
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
        return Composition(
            policies.make(self.policy),
            placements.make(self.placement),
            admissions.make(self.admission),
            estimators.make(self.estimator),
            terminations.make(self.termination),
        )
