"""Pollux' workload as section 8.7 of Shockwave (NSDI'23) uses it: the batch sizes that Pollux chose.

Pollux runs the 160 jobs of its trace on 32 GPUs; the batch size at which each job began each of its epochs
there is its schedule from then on. A batch size is rounded to a power of two times the application's initial
one, without which nearly every epoch would have one of its own. Jobs go as was measured at these sizes: on as
many GPUs as their users asked for, or (``elastic``) on any number that was measured.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace
from shockwave_study import SHARED, Case, Options, setting

from volvelle.core.events import TrainingReported
from volvelle.core.goodput import arrays_of, best_batch
from volvelle.model.job import Job, Regime, Truth
from volvelle.model.throughput import AnyThroughput, PerBatchSize, Table
from volvelle.model.training import Training
from volvelle.simulate.run import simulate
from volvelle.workload.reading import read_trace
from volvelle.workload.workload import Workload

GPUS, NODE = 32, 4

Sizes = dict[str, list[int]]
"""By job, the batch size at the beginning of each epoch."""


def as_traced(given: Options) -> Case:
    """The trace: jobs tune their batch sizes, and can run on other numbers of GPUs."""
    path = SHARED / "data" / "pollux" / "workload-1.csv"
    workload = read_trace(path, "pollux", options={"elastic": True, "node_gpus": NODE})
    jobs = workload.jobs[: given.jobs or None]
    return Case("Pollux' jobs", Workload.of(jobs), GPUS, NODE)


def scheduled(case: Case, sizes: Sizes, *, elastic: bool = False) -> Case:
    """The same jobs at the batch sizes ``sizes``; ``elastic``: on any number of GPUs that was measured."""
    jobs = [_scheduled(job, sizes[job.spec.id], elastic) for job in case.workload.jobs]
    return case._replace(workload=Workload.of(jobs))


def sizes_under_pollux(case: Case) -> Sizes:
    """Those that the jobs of ``case`` have under Pollux."""
    journal = simulate(case.workload, setting(case, "pollux"), journal=True).journal
    assert journal is not None
    jobs = case.workload.jobs
    gpus: dict[int, int] = defaultdict(int)
    nodes: dict[int, int] = defaultdict(int)
    sizes: Sizes = {
        job.spec.id: [job.training.batch_size] * len(job.training.application.progress)
        for job in jobs
        if job.training is not None
    }
    for entry in journal.entries:
        for event in entry.events:
            if isinstance(event, TrainingReported) and event.goodput is not None:
                job = jobs[event.number]
                assert job.training is not None
                arrays, count = arrays_of(event.goodput), gpus[event.number]
                _, local, passes = best_batch(*arrays, nodes[event.number] > 1, count)
                how = job.training.application.limited(local, passes, count)
                epoch = np.searchsorted(
                    job.training.declared, event.work_done * (1 + 1e-9), "right"
                )
                sizes[job.spec.id][epoch - 1 :] = [how.batch_size] * (
                    len(sizes[job.spec.id]) - int(epoch) + 1
                )
        decision = entry.decision
        for row, number in enumerate(decision.job.tolist()):
            gpus[number] = int(decision.gpus[row])
            nodes[number] = len(set((decision.slots_of(row) // NODE).tolist()))
    return sizes


def _scheduled(job: Job, sizes: Sequence[int], elastic: bool) -> Job:
    """``job`` at a batch size for each epoch; its work is counted in progress."""
    training, spec = job.training, job.spec
    assert training is not None
    application = training.application
    rounded = [_rounded(size, application.initial_batch) for size in sizes]
    begins = [0, *(e for e in range(1, len(rounded)) if rounded[e] != rounded[e - 1])]
    most = int(spec.most_gpus)
    tables: dict[int, AnyThroughput] = {size: _rates(training, size, most) for size in rounded}
    regimes = []
    for begin, end in zip(begins, [*begins[1:], len(rounded)], strict=True):
        epochs, size = slice(begin, end), rounded[begin]
        gains = [_gain(training, size, epoch) for epoch in range(begin, end)]
        progress = np.diff(training.boundaries)[epochs]
        speed = float(progress.sum() / (progress / gains).sum())
        regimes.append(Regime(float(training.boundaries[begin]), size, speed))
    truth = Truth(
        work=training.work,
        throughput=PerBatchSize(tables, default=rounded[0]),
        regimes=tuple(regimes),
    )
    if not elastic:
        spec = replace(spec, min_gpus=None, max_gpus=None)
    return Job(spec, truth)


def _rounded(size: int, initial: int) -> int:
    return int(initial * 2 ** max(round(np.log2(size / initial)), 0))


def _rates(training: Training, size: int, most: int) -> Table:
    """Iterations a second on 1, 2, ... GPUs, packed onto nodes."""
    application, rates = training.application, []
    for gpus in range(1, most + 1):
        full, rest = divmod(gpus, NODE)
        counts = (rest,) * (rest > 0) + (NODE,) * full
        how = application.passes(size, gpus)
        rates.append(1.0 / application.iteration_seconds(counts, how))
    return Table(tuple(rates))


def _gain(training: Training, size: int, epoch: int) -> float:
    """Progress of an iteration."""
    sqr, var = training.application.gradient(size, epoch)
    return (var + sqr) / (var * training.application.initial_batch / size + sqr)
