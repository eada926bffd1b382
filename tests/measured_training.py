"""A small made-up application whose training was "measured", for tests: nothing in it is anybody's."""

import numpy as np

from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.throughput import Table
from volvelle.model.training import Application, StepTimes, Training

LOCALS = (8, 16, 32, 64)
EPOCHS = 5
EPOCH_ITERATIONS = 30.0


def seconds(nodes: int, gpus: int, local: float) -> tuple[float, float]:
    """Step and exchange: a sample takes 10 ms, the exchange 50 ms in a node and 200 ms across."""
    sync = 0.0 if gpus == 1 else (0.2 + 0.01 * gpus if nodes > 1 else 0.05)
    return 0.1 + 0.01 * local + sync, sync


def application(longer: float = 1.0) -> Application:
    """Initial batch 32, up to 256; gradients get noisier from epoch to epoch."""
    epochs = EPOCHS
    placements = ("1", "2", "3", "4", "11", "12", "22", "13", "23", "24", "33", "34", "44", "444")
    curves = {
        placement: [
            (local, *seconds(len(placement), sum(map(int, placement)), local)) for local in LOCALS
        ]
        for placement in placements
    }
    scalability = [
        (nodes, gpus, local, *seconds(nodes, gpus, local))
        for nodes in (6, 8)
        for gpus in (nodes, 4 * nodes)
        for local in LOCALS
    ]
    sizes = np.array([32.0, 64.0, 128.0, 256.0])
    ends = longer * EPOCH_ITERATIONS * np.arange(1.0, epochs + 1.0)
    sqr = np.ones((len(sizes), epochs))
    var = np.tile(2.0 ** np.arange(epochs), (len(sizes), 1))
    scale = sizes[:, None] / sizes[0]
    gain = (var + sqr) / (var / scale + sqr)
    return Application(
        name="made-up",
        steps=StepTimes(curves, scalability),
        batch_sizes=sizes,
        progress=ends,
        iterations=np.cumsum(longer * EPOCH_ITERATIONS / gain, axis=1),
        grad_sqr=sqr,
        grad_var=var,
        least_local=8,
        most_local=64,
    )


def training_job(
    number: int,
    submit: float,
    gpus: float = 1.0,
    *,
    batch_size: int = 64,
    most: float | None = None,
    whole_seconds: bool = False,
    tunable: bool = True,
    longer: float = 1.0,
) -> Job:
    """A job of the made-up application, elastic from 1 to ``most`` GPUs where that is given."""
    measured = application(longer)
    row = measured.batch_sizes.tolist().index(batch_size)
    declared = np.concatenate([[0.0], measured.iterations[row]])
    rates = []
    for share in range(1, int(most or gpus) + 1):
        full, rest = divmod(share, 4)
        counts = (4,) * full + (rest,) * (rest > 0)
        how = measured.passes(batch_size, share)
        rates.append(1.0 / measured.iteration_seconds(counts, how))
    spec = JobSpec(
        id=f"job-{number}",
        submit_time=submit,
        gpus=gpus,
        min_gpus=None if most is None else 1.0,
        max_gpus=most,
    )
    return Job(
        spec,
        Truth(work=float(declared[-1]), throughput=Table(tuple(rates))),
        Training(measured, batch_size, declared, tunable, whole_seconds),
    )
