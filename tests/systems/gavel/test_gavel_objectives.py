"""Gavel's programs are solved: at every allocation of a run, what a policy answers is as good as can be.

Every program is written a second time (`gavel_programs`) and solved by another library.
"""

import msgspec
import numpy as np
import pytest
from gavel_checks import CHECKS, watched
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.model.cluster import Cluster, Pool, parse_cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.throughput import AnyThroughput, PerType, Table
from volvelle.testing.scenario import Scenario, happen

pytest.importorskip("highspy", reason="the extra 'solvers' is not installed")
pytest.importorskip("scipy", reason="SciPy solves the programs a second time")


def _kind(rng: np.random.Generator) -> tuple[PerType, dict[str, AnyThroughput]]:
    """What jobs of one name do alone, and beside others: two GPUs do twice as much as one."""
    speed = {kind: float(rng.choice([1.0, 2.0, 5.0])) for kind in ("a", "b")}

    def on(shares: list[float]) -> PerType:
        pairs = zip(speed.items(), shares, strict=True)
        return PerType({k: Table((part * each, part * 2 * each)) for (k, each), part in pairs})

    return on([1.0, 1.0]), {
        name: on(rng.choice([0.0, 0.3, 0.6, 0.9], 2).tolist()) for name in "uvw"
    }


@st.composite
def crowds(draw: st.DrawFn, *, pools: bool) -> tuple[list[Job], Cluster]:
    """Up to six jobs of one or two GPUs on two types of GPU, coming one after another."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    cluster = parse_cluster(str(rng.choice(["1x2:a,1x2:b", "1x3:a,1x2:b", "1x2:a,1x1:b"])))
    if pools:
        quotas = (Pool("x", 2.0), Pool("y", float(rng.integers(1, cluster.gpus - 1))))
        cluster = msgspec.structs.replace(cluster, pools=quotas)
    kinds = {name: _kind(rng) for name in ("u", "v", "w")}
    jobs = []
    for n in range(int(rng.integers(2, 7))):
        gpus = float(rng.choice([1, 1, 2]))
        name = str(rng.choice(list(kinds)))
        spec = JobSpec(
            id=str(n),
            submit_time=float(rng.choice([0.0, 0.0, 150.0, 320.0])),
            gpus=gpus,
            name=name,
            weight=float(rng.choice([1.0, 1.0, 3.0])),
            pool=str(rng.choice(["", "x", "y"])) if pools else "",
            gpu_types=() if gpus == 2 or rng.random() < 0.8 else ("b",),
        )
        alone, beside = kinds[name]
        work = float(rng.integers(100, 900)) * gpus
        jobs.append(Job(spec, Truth(work=work, throughput=alone, beside=beside)))
    jobs.sort(key=lambda job: job.spec.submit_time)
    return jobs, cluster


@pytest.mark.parametrize("sharing", [False, True], ids=["alone", "sharing"])
@pytest.mark.parametrize("pools", [False, True], ids=["free", "pools"])
@pytest.mark.parametrize("name", CHECKS)
@settings(max_examples=6)
@given(st.data())
def test_every_answer_is_as_good_as_can_be(
    name: str, pools: bool, sharing: bool, data: st.DataObject
) -> None:
    jobs, cluster = data.draw(crowds(pools=pools))
    policy = f"{name}:round=100"
    policy += ",prices=a:2/b:1" if name == "gavel-cost" else ""
    policy += ",space_sharing=true" if sharing else ""
    with watched(policy, jobs, cluster):
        happen(Scenario.of(cluster, jobs, policy=policy))
