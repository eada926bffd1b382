"""Rounds by received shares: priorities, deficits, and the loop against its twin."""

import msgspec
import numpy as np
import pytest
from growth_cases import plain
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.core import columns
from volvelle.core.composition import WrittenComposition
from volvelle.core.state import Reason
from volvelle.model.cluster import parse_cluster
from volvelle.policies.rounds import serve_in_turn
from volvelle.simulate.run import Setting, simulate
from volvelle.testing.scenario import linear_job
from volvelle.workload.workload import Workload


@settings(max_examples=200)
@given(st.integers(0, 2**32 - 1))
def test_serving_in_turn_is_the_same_compiled_and_plain(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, types, pools = int(rng.integers(1, 9)), int(rng.integers(1, 4)), int(rng.integers(0, 3))
    m = np.zeros((columns.COUNT, jobs))
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
    turns = rng.permutation(jobs * types)
    rows, beside = turns % jobs, np.full(len(turns), -1)
    for i in np.flatnonzero(rng.random(len(turns)) < 0.5):
        alike = np.flatnonzero(m[columns.GPUS] == m[columns.GPUS, rows[i]])
        beside[i] = rng.choice(alike) if rng.choice(alike) != rows[i] else -1
    beside[beside == rows] = -1
    arguments = (m, jobs, rows, beside, turns // jobs, capacity, quota)
    given = serve_in_turn(*arguments)
    np.testing.assert_array_equal(given, plain(serve_in_turn)(*arguments))
    gpus, kinds, reasons, partner = given
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
