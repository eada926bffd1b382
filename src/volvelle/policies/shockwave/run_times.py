"""How far jobs get in how much time, with the changes of batch size that are believed to come.

Shockwave cuts a job's schedule into regimes, each with one throughput (NSDI'23, appendix G). Regimes of a
job follow each other and their epochs have to be done in order, so that its progress after n rounds does not
depend on which rounds of a window these are; what n rounds bring is worked out here for all n at once.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volvelle.core.compiled import compiled
from volvelle.core.view import FloatColumn, View
from volvelle.model.job import Truth

Floats = NDArray[np.float64]


class RunTimes(NamedTuple):
    """Jobs by row of a view, on the GPUs that they request.

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
    """A job as it was believed to be, and what of it `RunTimes` has a row of."""

    believed: Truth
    work: tuple[float, ...]
    seconds: tuple[float, ...]


def run_times(view: View, known: dict[int, BelievedCourse]) -> RunTimes:
    """Those of all jobs in ``view``.

    known: courses by number; those of beliefs that have not changed are kept, in place.
    """
    jobs = view.jobs
    before = known.copy()
    known.clear()
    bits, rates = jobs.column("types").astype(np.int64), jobs.column("request_rate")
    for number, types, gpus, rate in zip(
        jobs.number.astype(np.int64).tolist(),
        bits.tolist(),
        jobs.gpus.tolist(),
        rates.tolist(),
        strict=True,
    ):
        believed, former = view.believed(number), before.get(number)
        if former is not None and former.believed is believed:
            known[number] = former
        elif believed.regimes:
            gpu_type = view.gpu_types[(types & -types).bit_length() - 1]
            known[number] = _by_regime(believed, gpus, gpu_type)
        else:
            work = believed.work
            known[number] = BelievedCourse(believed, (0.0, work), (0.0, work / rate))
    width = max((len(course.work) for course in known.values()), default=2)
    table = np.zeros((2, len(known), width))
    for row, course in enumerate(known.values()):
        padding = width - len(course.work)
        table[0, row] = course.work + course.work[-1:] * padding
        table[1, row] = course.seconds + course.seconds[-1:] * padding
    restoring = np.maximum(jobs.column("progress_from") - view.now, 0.0)
    gap = np.where(jobs.running, restoring, jobs.column("start_gap"))
    done = np.minimum(jobs.work_done, table[0, :, -1])
    return RunTimes(table[0], table[1], done, jobs.column("scale"), gap)


def _by_regime(believed: Truth, gpus: float, gpu_type: str) -> BelievedCourse:
    work, seconds = [0.0], [0.0]
    begins = [one.start_work for one in believed.regimes if 0.0 < one.start_work < believed.work]
    for end in [*begins, believed.work]:
        rate = believed.rate(gpus, gpu_type, 1, work[-1])
        seconds.append(seconds[-1] + (end - work[-1]) / rate)
        work.append(end)
    return BelievedCourse(believed, tuple(work), tuple(seconds))


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
