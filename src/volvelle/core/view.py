"""A policy's view: the jobs in the system as columns, and the GPUs that can be given."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volvelle.core.columns import COUNT
from volvelle.core.compiled import compiled
from volvelle.core.decision import Promise
from volvelle.core.fill import ClusterNow
from volvelle.core.lanes import borrowed
from volvelle.core.resources import Resources
from volvelle.core.state import COLUMNS, JOBS, KNOWN_COLUMNS, OLDEST, PLACE, State
from volvelle.model.arrays import BoolColumn, FloatColumn, IntColumn
from volvelle.model.cluster import Pool
from volvelle.model.job import JobSpec, Truth
from volvelle.model.tolerances import SAME_END

__all__ = [
    "BoolColumn",
    "FloatColumn",
    "IntColumn",
    "JobView",
    "View",
    "pool_columns",
    "rows_by_submission",
]


class Stored:
    """A column of `volvelle.core.state.Jobs` under the name that policies have for it."""

    def __init__(self, column: str) -> None:
        self.column = column

    def __get__(self, jobs: "JobView", kind: type) -> FloatColumn:
        return jobs.column(self.column)

    def __set__(self, jobs: "JobView", column: object) -> None:
        raise AttributeError(
            f"columns of jobs are read here; a policy writes to its own ({self.column})"
        )


class JobView:
    """The jobs in the system at ``now``: a column for each attribute, in order of submission.

    Beliefs (work, rates, remaining time) come from the configured estimator. Columns are copies:
    what a policy writes to them changes nothing, but for its `own`.
    """

    number = Stored("number")
    """The order of submission: 0 for the first job of the run."""
    submit_time = Stored("submit")
    """Seconds."""
    gpus = Stored("gpus")
    """GPUs requested: the gang, or for an elastic job the number it would like."""
    min_gpus = Stored("least")
    """The fewest GPUs each job runs on."""
    max_gpus = Stored("most")
    """The most GPUs each job can use."""
    held = Stored("held")
    """GPUs held now."""
    weight = Stored("weight")
    """The share a job's user declared for it; 1 unless said otherwise."""
    priority = Stored("priority")
    """As a job's user declared it: the higher the sooner; 0 unless said otherwise."""
    deadline = Stored("deadline")
    """Until when its full reward is earned, in seconds since the run's start; infinite without one."""
    first_start = Stored("first_start")
    """When it first held a GPU, seconds; NaN before that."""
    preemptions = Stored("preemptions")
    """How often the scheduler took its GPUs away."""

    def __init__(self, state: State, now: float, rows: Any = None) -> None:
        self.now = now
        self._jobs = state.jobs
        self.rows = rows_by_submission(state) if rows is None else rows
        """Where the jobs stand in the state."""
        self._columns: FloatColumn | None = None
        self._whole = False  # whether all known columns stand in them
        self._row_of: dict[int, int] | None = None
        self._spec: Callable[[int], JobSpec] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __dir__(self) -> list[str]:
        """The columns, as the how-to of policies lists them."""
        columns = {name for name, of in vars(JobView).items() if isinstance(of, Stored | property)}
        inner = {"matrix", "row_of", "interpreted", "overdue", "present_rate", "_specs"}
        return sorted(columns - inner)

    @property
    def matrix(self) -> FloatColumn:
        """All columns one after the other (`volvelle.core.columns`), then the policy's own."""
        columns = self._with_own()
        if not self._whole:
            self._gather(slice(KNOWN_COLUMNS), columns[:COUNT])
            self._whole = True
        return columns

    def matrix_of(self, places: Sequence[int]) -> FloatColumn:
        """The same, which may be 0 in other known columns than these."""
        columns, floats = self._with_own(), self._jobs.floats
        if self._whole:
            return columns
        if isinstance(self.rows, list):
            columns[list(places)] = self._listed([floats[place] for place in places])
        else:
            wanted = np.array(places, dtype=np.int64)
            columns[wanted] = floats[wanted[:, None], self.rows]
        return columns

    @property
    def own(self) -> FloatColumn:
        """The policy's own columns (`Policy.columns` of them), for it to write.

        0 for a new job, and for one that comes back after its user held or changed it.
        """
        return self._with_own()[COUNT:]

    def _with_own(self) -> FloatColumn:
        """Room for all columns, with the policy's own."""
        if self._columns is None:
            own = len(self._jobs.floats) - COLUMNS
            self._columns = np.zeros((COUNT + own, len(self.rows)))
            if own:
                self._gather(slice(COLUMNS, None), self._columns[COUNT:])
        return self._columns

    def _gather(self, places: slice, found: FloatColumn) -> None:
        """Write the jobs' entries of stored columns. A job's columns lie together: it is taken as a whole."""
        floats = self._jobs.floats
        if isinstance(self.rows, list):
            found[:] = self._listed(floats[places])
        else:
            found[:] = floats.T.take(self.rows, 0).T[places]

    def _listed(self, columns: Sequence[Any]) -> FloatColumn:
        """The entries of these columns, which are lists."""
        entries = chain.from_iterable(map(_entries(self.rows), columns))
        numbers = np.fromiter(entries, np.float64, len(columns) * len(self.rows))
        return numbers.reshape(len(columns), len(self.rows))

    def refresh(self, name: str) -> None:
        """See a stored column that was just written."""
        if self._columns is not None and self._whole:
            self._whole = False
            self._columns[PLACE[name]] = self.column(name)
            self._whole = True

    def write(self, name: str, values: FloatColumn) -> None:
        """Write a stored column, on behalf of the state's owner."""
        column = getattr(self._jobs, name)
        if isinstance(self.rows, list):
            for row, value in zip(self.rows, values.tolist(), strict=True):
                column[row] = value
        else:
            column[self.rows] = values

    def keep_own(self) -> None:
        """Write the policy's own columns back."""
        if self._columns is None or len(self._columns) == COUNT:
            return
        own = self.own
        if not isinstance(self.rows, list):
            self._jobs.floats[COLUMNS:, self.rows] = own
            return
        for column, values in zip(self._jobs.floats[COLUMNS:], own.tolist(), strict=True):
            for row, value in zip(self.rows, values, strict=True):
                column[row] = value

    @property
    def row_of(self) -> dict[int, int]:
        """Where in the columns the jobs stand, by number."""
        if self._row_of is None:
            numbers = self.number.astype(np.int64).tolist()
            self._row_of = {number: place for place, number in enumerate(numbers)}
        return self._row_of

    def column(self, name: str) -> FloatColumn:
        """A column of `volvelle.core.state.Jobs`."""
        if self._columns is not None and self._whole:
            stored: FloatColumn = self._columns[PLACE[name]].copy()
            return stored
        column = getattr(self._jobs, name)
        if isinstance(self.rows, list):
            return np.array(_entries(self.rows)(column))
        gathered: FloatColumn = column[self.rows]
        return gathered

    @property
    def interpreted(self) -> bool:
        """Whether the forward loop is interpreted: a policy's own loops need not be compiled either."""
        return isinstance(self.rows, list)

    @property
    def curve(self) -> IntColumn:
        """Where in `View.rates` each job's rates are; only to be read after asking for these."""
        return self.column("curve").astype(np.int64)

    @property
    def pool(self) -> IntColumn:
        """Index of the job's pool, -1 where none of the cluster's has the name of its `queue`."""
        return self.column("pool").astype(np.int64)

    def declaring(self, spec: Callable[[int], JobSpec]) -> "JobView":
        """The same with what users declared, by number: `user` and `queue`."""
        self._spec = spec
        return self

    @property
    def _specs(self) -> Iterator[JobSpec]:
        if self._spec is None:
            raise AttributeError("what users declared is not known here")
        return map(self._spec, map(int, self.number.tolist()))

    @property
    def user(self) -> NDArray[np.object_]:
        """The user of each job, a text."""
        return np.array([spec.user for spec in self._specs], dtype=object)

    @property
    def queue(self) -> NDArray[np.object_]:
        """The queue, account or tenant that it was submitted to, a text, also where no pool has that name."""
        return np.array([spec.pool for spec in self._specs], dtype=object)

    @property
    def running(self) -> BoolColumn:
        """Which jobs hold GPUs."""
        return self.held > 0

    @property
    def attained_seconds(self) -> FloatColumn:
        """Seconds with GPUs held so far."""
        held_for = np.where(self.running, np.maximum(self.now - self.column("started"), 0.0), 0.0)
        held_for += self.column("attained")
        return held_for

    @property
    def attained_gpu_seconds(self) -> FloatColumn:
        """GPU-seconds held so far: the service Tiresias counts (NSDI'19)."""
        service: FloatColumn = np.maximum(self.now - self.column("started"), 0.0) * self.held
        service += self.column("attained_gpu")
        return service

    @property
    def work_done(self) -> FloatColumn:
        """Units of work believed done."""
        worked = np.maximum(self.now - self.column("progress_from"), 0.0)
        done: FloatColumn = self.column("done") + worked * self.column("rate")
        return done

    @property
    def remaining_work(self) -> FloatColumn:
        """Units of work believed left, never negative."""
        left: FloatColumn = np.maximum(self.column("total") - self.work_done, 0.0)
        left *= self.column("scale")
        return left

    @property
    def present_rate(self) -> FloatColumn:
        """Units per second: on the GPUs that a job holds, or else on those that it requests at most."""
        return np.where(self.running, self.column("rate"), self.column("full_rate"))

    @property
    def overdue(self) -> BoolColumn:
        """Which jobs took longer than is believed of them, and are not through."""
        late: BoolColumn = self.work_done > self.column("total") + SAME_END * self.present_rate
        return late & (self.present_rate > 0.0)

    @property
    def remaining_seconds(self) -> FloatColumn:
        """Seconds believed left on the GPUs the job requests (its most, where it is elastic)."""
        seconds: FloatColumn = self.remaining_work / self.column("full_rate")
        return seconds

    @property
    def seconds_to_end(self) -> FloatColumn:
        """Seconds until the job is believed to end: on what it holds, or else on what it requests.

        The rest of a start's or restore's cost is counted.
        """
        restoring = np.maximum(self.column("progress_from") - self.now, 0.0)
        gap = np.where(self.running, restoring, self.column("start_gap"))
        rate = np.where(self.running, self.column("rate"), self.column("request_rate"))
        seconds: FloatColumn = gap + self.remaining_work / rate
        return seconds

    @property
    def total_seconds(self) -> FloatColumn:
        """Seconds the whole job is believed to take on the GPUs it requests, uninterrupted."""
        work = self.column("total") * self.column("scale")
        return work / self.column("full_rate")


class View(NamedTuple):
    """A policy's view: the jobs in the system and the GPUs that can be given, at ``now``.

    ``capacity`` is GPUs by type (free or held), ``quota`` the most GPUs that the jobs of each pool may hold,
    ``owned`` those that it owns (fewer where it may borrow), ``lends`` whether it does, ``budget`` its
    weight, NaN where its jobs have their own. ``rates()`` is the table of believed rates by (curve, GPU type,
    GPUs), for whole GPUs on a node with CPUs and memory enough; ``jobs.curve`` says which curve is whose.
    ``rates_basis()`` is the same as long as no job's curve changes, wherever tables hold it.
    ``beside(number, other)`` is the believed rate, by GPU type, of a job that shares the GPUs it requests
    with another (0 where that is not known).
    ``spec(number)`` is what a job's user declared, ``believed(number)`` what is believed of it, with regimes
    to come, ``resources`` the nodes (to be read, not changed).
    ``promises`` is what holds now of what was guaranteed to jobs, by number. ``pools`` are their names.
    ``cpus``, ``memory``: of the nodes that take jobs, GB; infinite where none says how much it has.
    """

    now: float
    jobs: JobView
    gpu_types: tuple[str, ...]
    capacity: FloatColumn
    quota: FloatColumn
    owned: FloatColumn
    lends: BoolColumn
    budget: FloatColumn
    rates: Callable[[], NDArray[np.float64]]
    rates_basis: Callable[[], bytes]
    spec: Callable[[int], JobSpec]
    resources: Resources
    beside: Callable[[int, int], list[float]]
    believed: Callable[[int], Truth]
    promises: Mapping[int, Promise]
    pools: tuple[str, ...]
    cpus: float
    memory: float

    def cluster(self, rates: NDArray[np.float64]) -> ClusterNow:
        """The same for kernels, with these ``rates``."""
        lends = self.lends.astype(np.float64)
        return ClusterNow(
            self.now,
            self.capacity,
            self.quota,
            self.owned,
            lends,
            rates,
            self.cpus,
            self.memory,
        )

    @property
    def gpus(self) -> float:
        """GPUs of all types, free or held."""
        return float(sum(self.capacity.tolist()))

    @property
    def borrowed(self) -> BoolColumn:
        """Which jobs run on borrowed GPUs (`volvelle.core.lanes`)."""
        jobs, unowned = self.jobs, self.gpus - float(self.owned.sum())
        return borrowed(jobs.pool, jobs.held, jobs.column("started"), self.owned, unowned)


def pool_columns(
    pools: tuple[Pool, ...],
) -> tuple[tuple[str, ...], FloatColumn, BoolColumn, FloatColumn]:
    """Their names; the GPUs that each owns, whether it lends, and its weight, to be read only."""
    owned = np.array([pool.quota for pool in pools], dtype=np.float64)
    lends = np.array([pool.lends for pool in pools], dtype=np.bool_)
    budget = np.array([pool.weight for pool in pools], dtype=np.float64)
    owned.flags.writeable = lends.flags.writeable = budget.flags.writeable = False
    return tuple(pool.name for pool in pools), owned, lends, budget


def _entries(rows: list[int]) -> Callable[[list[float]], Sequence[float]]:
    """A getter of the entries in ``rows`` of a column that is a list."""
    if len(rows) > 1:
        return itemgetter(*rows)
    return lambda column: [column[row] for row in rows]


def rows_by_submission(s: State) -> Any:
    """The rows of all jobs in the system, by submission: a list, or an array where columns are arrays."""
    oldest, count, younger = int(s.count[OLDEST]), int(s.count[JOBS]), s.jobs.younger
    if s.compiled:
        return _followed(oldest, count, np.asarray(younger))
    rows, row = [], oldest
    for _ in range(count):
        rows.append(row)
        row = int(younger[row])
    return rows


@compiled
def _followed(row: int, count: int, younger: NDArray[np.int64]) -> IntColumn:
    """This row and those after it, so many."""
    rows = np.empty(count, dtype=np.int64)
    for at in range(count):
        rows[at] = row
        row = younger[row]
    return rows
