"""A Gymnasium environment over the scheduler: an agent says in which order jobs are served.

The world, the jobs and all rules are those of `volvelle.simulate`; only the policy is the agent's. In
steps of ``interval`` seconds it sees jobs as rows of numbers from 0 to 1 (`COLUMNS`) and gives each a score.
GPUs go to jobs by falling scores at each event until the next step; those that came since stand behind,
equal ones by submission, so that an agent that always answers the same serves first in, first out. The
reward of a step is the job-hours spent in the system, negative: over an episode, minus all completion times.
"""

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray
from pydantic import PrivateAttr

from volvelle.core.composition import WrittenComposition
from volvelle.core.order_policy import fill_in_order, rank
from volvelle.core.policy import Allocation, Policy
from volvelle.core.scheduler import Scheduler
from volvelle.core.view import View
from volvelle.model.arrays import IntColumn
from volvelle.model.cluster import Cluster, parse_cluster
from volvelle.model.units import DAY, HOUR
from volvelle.simulate.arrivals import ArrivalTable
from volvelle.simulate.sources import generated
from volvelle.simulate.world import World
from volvelle.workload.workload import Workload

COLUMNS = ("present", "waiting", "gpus", "held", "age", "attained", "remaining")
"""The columns of an observation.

present: 1, or 0 of a row without a job. gpus, held: over those of the cluster. age, attained: seconds in the
system, and with GPUs; remaining: as the estimator believes. Seconds are logarithms, 1 from 30 days on.
"""

_LONG = np.log1p(30 * DAY)

Rows = NDArray[np.float32]


class SchedulingEnv(gymnasium.Env[Rows, Rows]):
    """Jobs on a cluster until all of them are through.

    jobs: a workload, or a generator as ``--generate`` takes it, which draws anew at each ``reset``. slots:
    how many jobs are seen, those that wait first, by submission. preemptive: whether jobs that run give way
    to higher scores. estimator, placement: as in a composition. longest: steps after which an episode is
    truncated.
    """

    def __init__(
        self,
        jobs: str | Workload,
        cluster: str | Cluster,
        *,
        interval: float = 300.0,
        slots: int = 32,
        preemptive: bool = False,
        estimator: str = "oracle",
        placement: str = "none",
        longest: int = 100_000,
    ) -> None:
        self.cluster = parse_cluster(cluster) if isinstance(cluster, str) else cluster
        self.jobs, self.interval, self.slots, self.longest = jobs, interval, slots, longest
        self._composition = WrittenComposition(placement=placement, estimator=estimator)
        self._preemptive = preemptive
        self.observation_space = Box(0.0, 1.0, (slots, len(COLUMNS)), np.float32)
        self.action_space = Box(-1.0, 1.0, (slots,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Rows, dict[str, Any]]:
        """Begin anew, with other jobs where a generator draws them."""
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(2**31))
        jobs = self.jobs
        if isinstance(jobs, str):
            jobs = generated(jobs, drawn, self.cluster.gpus).workload
        policy = _ByScores(interval=self.interval, preemptive=self._preemptive)
        composition = self._composition.build()._replace(policy=policy)
        scheduler = Scheduler(self.cluster, composition, seed=drawn)
        own = scheduler.composition.policy  # a copy
        assert isinstance(own, _ByScores)
        self._policy = own
        self._world = World(scheduler, ArrivalTable(scheduler, jobs.jobs))
        self._count, self._steps, self._spent = len(jobs), 0, _JobHours()
        while self._steps == 0 or not (self._world.in_system or self._over):
            self._advance()
        return self._seen()

    def step(self, action: Rows) -> tuple[Rows, float, bool, bool, dict[str, Any]]:
        """Serve jobs by these scores until the next step."""
        numbers = self._rows()
        scores = zip(numbers.tolist(), np.ravel(action).tolist(), strict=False)
        self._policy.answer(dict(scores))
        before = self._spent.total
        self._advance()
        observation, info = self._seen()
        reward = before - self._spent.total
        return observation, reward, self._over, self._steps >= self.longest, info

    @property
    def _over(self) -> bool:
        return self._world.submitted == self._count and self._world.in_system == 0

    def _advance(self) -> None:
        """Let time pass up to the next step, whose decision is still to come."""
        self._steps += 1
        until = np.nextafter(self._steps * self.interval, 0.0)
        self._world.run(self._spent.add, until=until)
        self._spent.add(self._world)

    def _rows(self) -> IntColumn:
        """The numbers of the jobs that are seen."""
        view, given = self._policy.last
        if view is None or not self._world.in_system:
            return np.zeros(0, dtype=np.int64)
        jobs = view.jobs
        order = np.lexsort((jobs.number, given > 0))
        return jobs.number[order][: self.slots].astype(np.int64)

    def _seen(self) -> tuple[Rows, dict[str, Any]]:
        rows = np.zeros((self.slots, len(COLUMNS)), dtype=np.float32)
        numbers, (view, given), now = self._rows(), self._policy.last, self._world.now
        if view is not None and len(numbers):
            jobs = view.jobs
            at = np.array([jobs.row_of[number] for number in numbers.tolist()])
            held, since = given[at], now - view.now
            ran = np.where(held > 0, since, 0.0)
            seconds = (
                now - jobs.submit_time[at],
                jobs.attained_seconds[at] + ran,
                np.maximum(jobs.seconds_to_end[at] - ran, 0.0),
            )
            rows[: len(at)] = np.transpose(
                [
                    np.ones(len(at)),
                    held == 0,
                    jobs.gpus[at] / self.cluster.gpus,
                    held / self.cluster.gpus,
                    *(np.minimum(np.log1p(each) / _LONG, 1.0) for each in seconds),
                ]
            )
        return np.clip(rows, 0.0, 1.0), {"time": now, "jobs": numbers}


class _JobHours:
    """The time that jobs have spent in the system."""

    def __init__(self) -> None:
        self.total, self._since, self._jobs = 0.0, 0.0, 0

    def add(self, world: World) -> None:
        """Count up to now."""
        self.total += self._jobs * (world.now - self._since) / HOUR
        self._since, self._jobs = world.now, world.in_system


class _ByScores(Policy):
    """The agent's scores, highest first; jobs without one behind, by submission."""

    name: ClassVar[str] = "agent"
    time_varying: ClassVar[bool] = True

    interval: float
    preemptive: bool

    _scores: dict[int, float] = PrivateAttr(default_factory=dict)
    _view: View | None = PrivateAttr(None)
    _given: NDArray[np.float64] = PrivateAttr(default_factory=lambda: np.zeros(0))

    def answer(self, scores: dict[int, float]) -> None:
        """Go by the scores of these jobs, by number, from now on."""
        self._scores = scores

    @property
    def last(self) -> tuple[View | None, NDArray[np.float64]]:
        """The view at its last decision, and the GPUs that it gave each job."""
        return self._view, self._given

    def allocate(self, view: View) -> Allocation:
        """Serve the jobs by falling scores."""
        numbers = view.jobs.number.astype(np.int64).tolist()
        keys = [-self._scores.get(number, -2.0) for number in numbers]
        allocation = fill_in_order(
            view, rank(np.array(keys)), preemptive=self.preemptive, strict=False, elastic=False
        )
        self._view, self._given = view, allocation.gpus
        return allocation

    def next_wake(self, view: View) -> float | None:
        """The next step."""
        return float((np.floor(view.now / self.interval) + 1.0) * self.interval)
