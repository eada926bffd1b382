"""Facets: what few parts answer beside the questions of their kind. A part has one by its base class.

    class Buddy(Placement, PlacesByLane): ...

A kind's own interface (`volvelle.core.parts`, `volvelle.core.policy`) holds what every part of it may be
asked.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from volvelle.core.demand import Amounts
from volvelle.core.events import ArrivalsAnnounced
from volvelle.core.lanes import Lane
from volvelle.core.mistakes import answered
from volvelle.core.parts import Belief, Gang, KnownJob
from volvelle.core.resources import Resources
from volvelle.core.wrong_answers import (
    AMOUNTS,
    BY_SLOT,
    FOR_EACH_JOB,
    of_batch,
    of_claim,
    of_gpus,
    of_slots,
)
from volvelle.model.arrays import BoolColumn, IntColumn
from volvelle.model.job import JobSpec


class PlacesBatches(ABC):
    """A placement that places all jobs of a decision together, instead of one after another."""

    @property
    def moves(self) -> bool:
        """Whether jobs that run may be moved where a job would wait otherwise."""
        return False

    @abstractmethod
    @answered(of_batch, FOR_EACH_JOB)
    def choose_batch(
        self, gangs: Sequence[Gang], free: IntColumn, resources: Resources
    ) -> Sequence[IntColumn | None]:
        """As `Placement.choose` for each of ``gangs``; together they take no more than is ``free``.

        It is asked at every decision for all jobs that need a place on GPUs of one type, in the policy's
        order. If it `moves` and some are to wait, it is asked again with all jobs that may be moved in front:
        ``free`` counts what they hold. That answer holds where none of these and fewer of the others wait. A
        job that is moved pays what a resize costs.
        """
        raise NotImplementedError


class PlacesAllAnew(ABC):
    """A placement that chooses the GPUs of all jobs, running ones too, whenever some need a place."""

    @abstractmethod
    @answered(of_gpus, FOR_EACH_JOB)
    def choose_gpus(
        self, gangs: Sequence[Gang], free: BoolColumn, resources: Resources
    ) -> Sequence[IntColumn | None]:
        """The slots, ascending, of each of ``gangs``; None to let one wait that does not run.

        gangs: those that may be moved in front, in order of submission, then those that need a place, in the
        policy's order; all on GPUs of one type. free: by slot, those that they hold among them. A job that is
        moved pays what a resize costs.
        """
        raise NotImplementedError


class PlacesByLane(ABC):
    """A placement for which it matters on whose GPUs a job runs."""

    @property
    def by_lane(self) -> bool:
        """Whether `choose_slots` is asked in place of `Placement.choose`."""
        return True

    @abstractmethod
    @answered(of_slots, BY_SLOT)
    def choose_slots(
        self, free: IntColumn, gpus: int, resources: Resources, lane: Lane
    ) -> IntColumn | None:
        """The slots of a gang of ``gpus`` GPUs, or None to let it wait.

        free: GPUs by node, as of `Placement.choose`. A policy that chooses nodes itself leaves no lanes.
        """
        raise NotImplementedError


class ClaimsAmounts(ABC):
    """A placement that goes by CPUs and memory, and claims them until the policy has divided them."""

    @abstractmethod
    @answered(of_claim, AMOUNTS)
    def claim(self, job: KnownJob, slots: IntColumn, resources: Resources) -> Amounts:
        """CPUs and memory (GB) per GPU that ``job`` is counted on to get on ``slots``, just chosen for it."""
        raise NotImplementedError


class PlacesAnew:
    """A placement that places a job anew where it gets fewer GPUs; under others it keeps some of its own."""


class KnowsTheTruth:
    """An estimator that believes the truth of a job from the start, and knows which jobs will come."""


class FollowsLoss(ABC):
    """An estimator that goes by the loss that jobs report."""

    @property
    def loss_every(self) -> float | None:
        """Seconds between the reports of a job's loss; None: no reports are needed."""
        return None

    @abstractmethod
    def observe(self, spec: JobSpec, work_done: float, loss: float) -> Belief | None:
        """The belief about a job whose loss is ``loss`` after ``work_done`` units; None: as before."""
        raise NotImplementedError


class FollowsRegimes(ABC):
    """An estimator that goes by how far jobs are that change their batch size."""

    @property
    def progress_every(self) -> float | None:
        """Seconds between the reports of a job's progress; None: no reports are needed."""
        return None

    @abstractmethod
    def adapt(self, job: KnownJob, work_done: float, batch_size: int | None) -> Belief | None:
        """The belief about a job that goes on at ``batch_size`` after ``work_done`` units.

        batch_size: None where it goes on at the same. None is returned where the belief is as before.
        """
        raise NotImplementedError


class ForeseesArrivals(ABC):
    """A policy that goes by which jobs will come, where the estimator knows that."""

    @abstractmethod
    def expect(self, arrivals: ArrivalsAnnounced) -> None:
        """Take the jobs that will come; jobs that have come already are among them."""
        raise NotImplementedError
