"""A decision under overload looks at the last running jobs only: the same as looking at all."""

import numpy as np
import pytest

from volvelle.core.composition import WrittenComposition
from volvelle.core.state import RANKED, RUNNING
from volvelle.metrics.outcomes import Outcomes
from volvelle.metrics.recorder import Recorder
from volvelle.model.cluster import Cluster, Node
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.node import FailureProcess
from volvelle.simulate.arrivals import ArrivalTable
from volvelle.simulate.run import Setting
from volvelle.simulate.world import World
from volvelle.workload.workload import Workload

NODES = 40


def crowd(seed: int) -> Workload:
    """Jobs that ask for a fifth more than there is, some of which keep what they have."""
    rng = np.random.default_rng(seed)
    many = 700
    widths = rng.choice([1.0, 2.0, 4.0, 8.0, 64.0], size=many, p=[0.5, 0.2, 0.1, 0.18, 0.02])
    work = np.round(widths * rng.lognormal(6.0, 1.5, size=many), -2) + 100.0  # equal keys
    submit = np.cumsum(work) / (NODES * 8 * 1.2)
    submit[::5] = np.floor(submit[::5] / 20) * 20  # several at once
    keep = rng.random(many) < 0.1
    return Workload.of(
        Job(
            JobSpec(
                id=f"job-{i}",
                submit_time=float(submit[i]),
                gpus=float(widths[i]),
                preemptible=not keep[i],
            ),
            Truth(work=float(work[i])),
        )
        for i in range(many)
    )


def run(written: WrittenComposition, seed: int, looked_at: list[float]) -> Outcomes:
    """The outcomes. looked_at: of each moment's decision, which share of the running jobs it looked at."""
    cluster = Cluster(tuple(Node(f"node-{i}", 8) for i in range(NODES)))
    if seed and written.placement != "none":
        cluster = Cluster(cluster.nodes, failures=FailureProcess(72_000.0, 3_600.0))
    workload = crowd(seed)
    scheduler = Setting(cluster=cluster, composition=written).header.scheduler()
    recorder = Recorder(cluster)
    count = scheduler.state.count

    def look(world: World) -> None:
        looked_at.append(count[RANKED] / max(count[RUNNING], 1))

    World(scheduler, ArrivalTable(scheduler, workload.jobs), [recorder]).run(look)
    tracked = np.ones(len(workload), dtype=np.bool_)
    return recorder.outcomes(workload.durations, tracked, workload.single_gpu_seconds)


@pytest.mark.parametrize(
    ("policy", "placement", "seed"),
    [("srsf", "none", 0), ("srtf", "consolidated", 1), ("fifo:preemptive=true", "none", 2)],
)
def test_the_last_running_jobs_are_enough(
    policy: str, placement: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where keys of running jobs may rise, a decision looks at all of them."""
    written = WrittenComposition(policy, placement)
    few: list[float] = []
    here = run(written, seed, few)
    monkeypatch.setattr("volvelle.core.ruling.never_rises", lambda key: False)
    everything: list[float] = []
    there = run(written, seed, everything)
    for name in ("first_start", "finish", "preemptions"):
        np.testing.assert_array_equal(getattr(here, name), getattr(there, name), name)
    assert np.mean(few) < 0.5 * np.mean(everything)
