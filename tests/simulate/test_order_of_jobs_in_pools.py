"""Pools decided each for itself where its jobs wait for each other only: the same as serving all jobs."""

from collections.abc import Callable

import numpy as np
import pytest

from volvelle.core.composition import WrittenComposition
from volvelle.metrics.outcomes import Outcomes
from volvelle.metrics.recorder import Recorder
from volvelle.model.cluster import Cluster, Node, Pool
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.simulate.arrivals import ArrivalTable
from volvelle.simulate.run import Setting
from volvelle.simulate.world import World
from volvelle.workload.workload import Workload

POOLS = 4


def crowd(seed: int, share: float, without_pool: float) -> tuple[Workload, Cluster]:
    """Jobs that wait in pools whose quotas add up to ``share`` of the cluster."""
    rng = np.random.default_rng(seed)
    nodes, many = 6, 300
    quotas = np.maximum(rng.dirichlet(np.ones(POOLS)) * nodes * 8 * share // 1, 1.0)
    pools = tuple(Pool(f"pool-{i}", float(quota)) for i, quota in enumerate(quotas))
    cluster = Cluster(tuple(Node(f"node-{i}", 8) for i in range(nodes)), pools=pools)
    widths = rng.choice([1.0, 2.0, 4.0, 8.0], size=many)
    work = widths * rng.lognormal(6.0, 1.0, size=many)
    submit = np.cumsum(work) / (nodes * 8)
    submit[seed % 2 :: 5] = np.floor(submit[seed % 2 :: 5] / 100) * 100  # several at once
    jobs = [
        Job(
            JobSpec(
                id=f"job-{i}",
                submit_time=float(submit[i]),
                gpus=float(widths[i]),
                pool="" if rng.random() < without_pool else f"pool-{rng.integers(POOLS)}",
                preemptible=bool(rng.random() < 0.9),
            ),
            Truth(work=float(work[i])),
        )
        for i in range(many)
    ]
    return Workload.of(jobs), cluster


def outcomes(
    workload: Workload,
    cluster: Cluster,
    written: WrittenComposition,
    on_pause: Callable[[World], None] | None = None,
) -> Outcomes:
    scheduler = Setting(cluster=cluster, composition=written).header.scheduler()
    recorder = Recorder(cluster)
    World(scheduler, ArrivalTable(scheduler, workload.jobs), [recorder]).run(on_pause)
    tracked = np.ones(len(workload), dtype=np.bool_)
    return recorder.outcomes(workload.durations, tracked, workload.single_gpu_seconds)


@pytest.mark.parametrize("placement", ["none", "consolidated"])
@pytest.mark.parametrize("policy", ["srsf", "fifo", "fifo:preemptive=true"])
@pytest.mark.parametrize(("share", "without_pool"), [(1.0, 0.0), (0.6, 0.1), (2.0, 0.0)])
def test_a_pool_is_decided_for_itself_as_among_all(
    policy: str, placement: str, share: float, without_pool: float
) -> None:
    """A run that pauses after each moment serves all jobs in each decision."""
    written = WrittenComposition(policy, placement)
    workload, cluster = crowd(len(policy), share, without_pool)
    whole = outcomes(workload, cluster, written)
    paused = outcomes(workload, cluster, written, lambda _: None)
    np.testing.assert_array_equal(whole.first_start, paused.first_start)
    np.testing.assert_array_equal(whole.finish, paused.finish)
    np.testing.assert_array_equal(whole.preemptions, paused.preemptions)
