"""Rounds by received shares: priorities, deficits, and the loop against its twin."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.core import columns
from volvelle.core.compiled import compiled
from volvelle.core.composition import WrittenComposition
from volvelle.core.fill import ClusterNow
from volvelle.core.state import Reason
from volvelle.model.cluster import parse_cluster
from volvelle.policies.claims import BY_TYPE, LAST, NEVER, begin, set_targets, with_room
from volvelle.policies.rounds import give
from volvelle.simulate.run import Setting, simulate
from volvelle.testing.scenario import linear_job
from volvelle.workload.workload import Workload

_served = compiled(give)


@settings(max_examples=200)
@given(st.integers(0, 2**32 - 1))
def test_a_round_is_the_same_compiled_and_plain(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, types, pools = int(rng.integers(1, 9)), int(rng.integers(1, 4)), int(rng.integers(0, 3))
    m = np.zeros((columns.COUNT, jobs))
    m[columns.NUMBER] = np.arange(jobs)
    m[columns.GPUS] = rng.integers(1, 4, jobs)
    m[columns.TYPES] = rng.integers(1, 1 << types, jobs)
    m[columns.POOL] = rng.integers(-1, pools, jobs)
    m[columns.PREEMPTIBLE] = rng.random(jobs) < 0.7
    m[columns.TYPE] = -1
    capacity = np.zeros(types)
    for row in np.flatnonzero(rng.random(jobs) < 0.4):
        kind = int(rng.integers(types))
        m[columns.HELD, row], m[columns.TYPE, row] = m[columns.GPUS, row], kind
        capacity[kind] += m[columns.GPUS, row]
    capacity += rng.integers(0, 4, types)
    quota = m[columns.GPUS].sum() * rng.choice([0.3, 0.6, 1.0], pools)
    pairs = [
        (i, j) for i in range(jobs) for j in range(i) if m[columns.GPUS, i] == m[columns.GPUS, j]
    ]
    rows = np.array([*range(jobs), *(i for i, _ in pairs)])
    beside = np.array([*[-1] * jobs, *(j for _, j in pairs)])
    target = rng.choice([0.0, 0.3, 1.0], (types, len(rows)))
    leftovers = int(rng.choice([LAST, BY_TYPE, NEVER]))
    memory = with_room(begin(60.0, 0.0, leftovers, aware=True), types, 64)
    set_targets(m, 0.0, memory, rows, beside, target)
    cluster = ClusterNow(0.0, capacity, quota, quota, np.zeros(pools), np.zeros((0, 0, 0)))
    out, interpreted, remembered = np.zeros((5, jobs)), np.zeros((5, jobs)), memory.copy()
    _served(m, cluster, memory, out)
    give(m, cluster, remembered, interpreted)
    np.testing.assert_array_equal(out, interpreted)
    np.testing.assert_array_equal(memory, remembered)
    gpus, kinds, reasons, _, partner = out
    for kind in range(types):
        assert gpus[kinds == kind].sum() <= capacity[kind]
    kept = (m[columns.HELD] > 0) & (m[columns.PREEMPTIBLE] == 0)
    np.testing.assert_array_equal(gpus[kept], m[columns.HELD, kept])
    np.testing.assert_array_equal(kinds[kept], m[columns.TYPE, kept])
    np.testing.assert_array_equal(reasons == Reason.NONE, gpus > 0)
    sharing: list[int] = np.flatnonzero(partner >= 0).tolist()
    for mine in sharing:
        other = int(partner[mine])
        assert partner[other] == mine
        assert kinds[other] == kinds[mine]
        assert gpus[mine] == gpus[other] == m[columns.GPUS, mine] / 2
    for pool in range(pools):
        held = gpus[(m[columns.POOL] == pool) & ~kept].sum()
        assert held <= max(quota[pool] - gpus[(m[columns.POOL] == pool) & kept].sum(), 0.0) + 1e-9


def service_after(seconds: float, policy: str, *gpus: float, weight: float = 1.0) -> list[float]:
    """GPU-seconds of jobs that want ``gpus`` of four; the first has ``weight``."""
    jobs = [linear_job(n, 0.0, each, 1e6) for n, each in enumerate(gpus)]
    heavy = msgspec.structs.replace(jobs[0].spec, weight=weight)
    jobs[0] = msgspec.structs.replace(jobs[0], spec=heavy)
    setting = Setting(
        cluster=parse_cluster("1x4"), composition=WrittenComposition(policy), until=seconds
    )
    service: list[float] = simulate(Workload(jobs), setting).outcomes.gpu_seconds.tolist()
    return service


def test_received_time_follows_the_targets() -> None:
    """Eight jobs on four GPUs: each has half of the time after an even number of rounds."""
    assert service_after(3600, "gavel-las", *[1.0] * 8) == [1800.0] * 8


def test_weights_shift_the_targets() -> None:
    """Weight 3 of 3 + 7 gives three tenths of four GPUs, capped at the one it wants."""
    service = service_after(36_000, "gavel-las", *[1.0] * 8, weight=3.0)
    assert service[0] == pytest.approx(36_000, rel=0.02)
    assert service[1:] == pytest.approx([3 / 7 * 36_000] * 7, rel=0.05)


def test_wide_jobs_get_as_many_gpu_seconds_as_narrow_ones() -> None:
    service = service_after(72_000, "gavel-las", 4.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
    assert service == pytest.approx([36_000] * 8, rel=0.05)
