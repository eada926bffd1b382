"""How far jobs get in how much time, with the changes of batch size that are believed to come.

Shockwave cuts a job's schedule into regimes, each with one throughput (NSDI'23, appendix G). Regimes of a
job follow each other and their epochs have to be done in order, so that its progress after n rounds does not
depend on which rounds of a window these are; what n rounds bring is worked out here for all n at once.
"""

from typing import NamedTuple

import numpy as np

from volvelle.core.compiled import compiled
from volvelle.core.view import View
from volvelle.model.arrays import FloatColumn, Floats, IntColumn
from volvelle.model.job import Truth
from volvelle.model.tolerances import LEAST_DIVISOR


class RunTimes(NamedTuple):
    """Jobs, each on a number of GPUs, by row.

    work, seconds: (jobs, regimes + 1), ascending from 0: after how many seconds, without interruption, how
    much of the work is done; between these evenly. done: units of work done now. scale: how much longer what
    is left takes. gap: seconds that pass before a job goes on.
    """

    work: Floats
    seconds: Floats
    done: FloatColumn
    scale: FloatColumn
    gap: FloatColumn

    @property
    def so_far(self) -> FloatColumn:
        """(jobs,) seconds that what is done takes."""
        return seconds_of(self.work, self.seconds, self.done)

    @property
    def left(self) -> FloatColumn:
        """(jobs,) R of equation 9: seconds that what is left takes."""
        seconds: FloatColumn = self.scale * np.maximum(self.seconds[:, -1] - self.so_far, 0.0)
        return seconds

    def progress(self, slots: int, slot_seconds: float) -> Floats:
        """(jobs, slots + 1) UTIL of equation 7: the share of the work done after 0, 1, 2, ... rounds."""
        ran = np.maximum(np.arange(slots + 1) * slot_seconds - self.gap[:, None], 0.0)
        then = self.so_far[:, None] + ran / self.scale[:, None]
        done = np.maximum(work_after(self.work, self.seconds, then), self.done[:, None])
        progress: Floats = np.minimum(done / self.work[:, -1:], 1.0)
        return progress


class BelievedCourse(NamedTuple):
    """A job as it was believed to be, on which GPU type, and what of it `RunTimes` has a row of."""

    believed: Truth
    gpu_type: int
    work: tuple[float, ...]
    seconds: tuple[float, ...]


def speeds(view: View) -> Floats:
    """(jobs, types) how fast each job of ``view`` is on each GPU type now, relative to its quickest.

    0 where it may not or cannot run. A gang that fits on no type for now, as nodes are down, has speeds of
    those that will do.
    """
    jobs = view.jobs
    rates = np.zeros((len(jobs), len(view.gpu_types)))
    numbers, gpus = jobs.number.astype(np.int64).tolist(), jobs.gpus.tolist()
    done = jobs.work_done.tolist()
    for row, number in enumerate(numbers):
        believed = view.believed(number)
        rates[row] = [believed.rate(gpus[row], kind, 1, done[row]) for kind in view.gpu_types]
    bits = jobs.column("types").astype(np.int64)[:, None]
    rates *= (bits >> np.arange(len(view.gpu_types))) & 1
    fitting = np.where(jobs.gpus[:, None] <= view.capacity, rates, 0.0)
    rates = np.where(fitting.max(axis=1, keepdims=True) > 0.0, fitting, rates)
    best = rates.max(axis=1, keepdims=True)
    speeds: Floats = np.divide(rates, best, out=np.zeros_like(rates), where=best > 0.0)
    return speeds


def room(view: View) -> FloatColumn:
    """(jobs,) GPUs that each could have if it were alone: those that are there, and its pool's quota."""
    there = np.append(np.minimum(view.quota, view.gpus), view.gpus)
    most: FloatColumn = there[view.jobs.pool]  # -1, no pool, is the last
    return most


def gangs_of(view: View) -> Floats:
    """(jobs, ways) numbers of GPUs on which each job may run, ascending; the last one repeated as needed.

    The fewest, the most that there is room for, those asked for, those it has, and powers of two between
    them; of a job that cannot be resized now those it has.
    """
    jobs = view.jobs
    powers = 2.0 ** np.arange(max(int(view.gpus), 1).bit_length())
    choices = []
    for there, pinned, least, most, asked, held in zip(
        room(view).tolist(),
        jobs.column("pinned").tolist(),
        jobs.min_gpus.tolist(),
        jobs.max_gpus.tolist(),
        jobs.gpus.tolist(),
        jobs.held.tolist(),
        strict=True,
    ):
        if pinned:
            choices.append([held])
            continue
        ends = {least, max(min(most, there), least), asked}
        some = {one for one in (held, *powers.tolist()) if least <= one <= max(ends)}
        choices.append(sorted(ends | some))
    ways = max(map(len, choices), default=1)
    padded = [some + some[-1:] * (ways - len(some)) for some in choices]
    return np.array(padded, dtype=np.float64).reshape(len(jobs), ways)


Courses = dict[tuple[int, float], BelievedCourse]
"""By number of the job, and GPUs."""


def run_times(
    view: View, known: Courses, gangs: Floats, quickest: IntColumn | None = None
) -> RunTimes:
    """Run times of all jobs in ``view`` on the GPUs of ``gangs``, (jobs, ways): a row for each job and way.

    known: courses; those of beliefs that have not changed are kept, in place. quickest: (jobs,) the GPU
    type on which times are told (None: the first that will do).
    """
    jobs, ways = view.jobs, gangs.shape[1]
    before = known.copy()
    known.clear()
    bits, rates = jobs.column("types").astype(np.int64), jobs.column("request_rate")
    first = [(types & -types).bit_length() - 1 for types in bits.tolist()]
    courses = []
    for number, gpu_type, some, asked, rate in zip(
        jobs.number.astype(np.int64).tolist(),
        first if quickest is None else quickest.tolist(),
        gangs.tolist(),
        jobs.gpus.tolist(),
        rates.tolist(),
        strict=True,
    ):
        believed = view.believed(number)
        for gpus in some:
            course = before.get((number, gpus))
            if course is None or course.believed is not believed or course.gpu_type != gpu_type:
                on_type = view.gpu_types[gpu_type]
                if believed.regimes:
                    course = _by_regime(believed, gpus, gpu_type, on_type)
                else:
                    work, known_rate = believed.work, rate
                    if quickest is not None or gpus != asked:
                        known_rate = max(believed.rate(gpus, on_type, 1, 0.0), LEAST_DIVISOR)
                    seconds = (0.0, work / known_rate)
                    course = BelievedCourse(believed, gpu_type, (0.0, work), seconds)
            known[number, gpus] = course
            courses.append(course)
    width = max((len(course.work) for course in courses), default=2)
    table = np.zeros((2, len(courses), width))
    for row, course in enumerate(courses):
        padding = width - len(course.work)
        table[0, row] = course.work + course.work[-1:] * padding
        table[1, row] = course.seconds + course.seconds[-1:] * padding
    restoring = np.maximum(jobs.column("progress_from") - view.now, 0.0)
    resized = np.where(
        gangs == jobs.held[:, None], restoring[:, None], jobs.column("resize")[:, None]
    )
    gap = np.where(jobs.running[:, None], resized, jobs.column("start_gap")[:, None]).ravel()
    done = np.minimum(np.repeat(jobs.work_done, ways), table[0, :, -1])
    return RunTimes(table[0], table[1], done, np.repeat(jobs.column("scale"), ways), gap)


def _by_regime(believed: Truth, gpus: float, kind: int, gpu_type: str) -> BelievedCourse:
    work, seconds = [0.0], [0.0]
    begins = [one.start_work for one in believed.regimes if 0.0 < one.start_work < believed.work]
    for end in [*begins, believed.work]:
        rate = max(believed.rate(gpus, gpu_type, 1, work[-1]), LEAST_DIVISOR)
        seconds.append(seconds[-1] + (end - work[-1]) / rate)
        work.append(end)
    return BelievedCourse(believed, kind, tuple(work), tuple(seconds))


@compiled
def seconds_of(work: Floats, seconds: Floats, done: Floats) -> Floats:
    """(jobs,) after how many seconds ``done`` of each is."""
    after = np.zeros(len(done))
    for row in range(len(done)):
        piece = 1
        while piece < work.shape[1] - 1 and work[row, piece] < done[row]:
            piece += 1
        there = work[row, piece] - work[row, piece - 1]
        share = (done[row] - work[row, piece - 1]) / there if there > 0.0 else 1.0
        whole = seconds[row, piece] - seconds[row, piece - 1]
        after[row] = seconds[row, piece - 1] + share * whole
    return after


@compiled
def work_after(work: Floats, seconds: Floats, then: Floats) -> Floats:
    """(jobs, times) the work of each that is done after ``then`` seconds, ascending for each job."""
    done = np.zeros(then.shape)
    last = work.shape[1] - 1
    for row in range(len(then)):
        piece = 1
        for i in range(then.shape[1]):
            while piece < last and seconds[row, piece] < then[row, i]:
                piece += 1
            whole = seconds[row, piece] - seconds[row, piece - 1]
            share = (then[row, i] - seconds[row, piece - 1]) / whole if whole > 0.0 else 1.0
            there = work[row, piece] - work[row, piece - 1]
            done[row, i] = work[row, piece - 1] + min(share, 1.0) * there
    return done
