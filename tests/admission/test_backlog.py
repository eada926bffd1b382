"""The backlog of Blox' section 5.1: by hand, and the trend it reports."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from volvelle.core.composition import WrittenComposition
from volvelle.core.events import JobSubmitted
from volvelle.core.scheduler import Scheduler
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.simulate.arrivals import ArrivalTable
from volvelle.simulate.world import World
from volvelle.testing.scenario import Scenario, happen, linear_job


def under(admission: str, jobs: list[Job], cluster: str, policy: str = "fifo") -> Outcomes:
    scenario = Scenario.of(parse_cluster(cluster), jobs, policy=policy)
    composition = msgspec.structs.replace(scenario.setting.composition, admission=admission)
    setting = replace(scenario.setting, composition=composition)
    return happen(Scenario(scenario.jobs, setting)).outcomes


@pytest.mark.parametrize("prepared", [True, False])
@pytest.mark.parametrize(
    ("gpus", "demand", "waits"),
    [
        (4.0, 8.0, False),  # exactly at the threshold of 12
        (5.0, 8.0, True),  # the reference would let this one overshoot
        (1.0, 12.0, True),
        (8.0, 0.0, False),
    ],
)
def test_the_threshold_is_never_exceeded(
    gpus: float, demand: float, *, waits: bool, prepared: bool
) -> None:
    parts = WrittenComposition("smallest", admission="backlog:factor=1.2").build()
    scheduler = Scheduler(parse_cluster("1x10"), parts)
    others = [JobSpec(id=f"o{n}", submit_time=0.0, gpus=4.0) for n in range(int(demand / 4))]
    specs = [*others, JobSpec(id="a", submit_time=0.0, gpus=gpus)]
    if prepared:
        jobs = [Job(spec, Truth(work=spec.gpus * 100.0)) for spec in specs]
        world = World(scheduler, ArrivalTable(scheduler, jobs))
        world.run(until=0.0)
    else:
        told = [JobSubmitted(0.0, n, spec, Truth(work=1.0)) for n, spec in enumerate(specs)]
        scheduler.handle(0.0, told)
    assert (len(specs) - 1 not in scheduler.known) is waits


def test_jobs_enter_in_order_as_others_end() -> None:
    jobs = [
        linear_job(0, 0.0, 2.0, 10.0),
        linear_job(1, 0.0, 1.0, 30.0),
        linear_job(2, 1.0, 2.0, 10.0),  # 5 of 4 GPUs: at the door until 10
        linear_job(3, 2.0, 1.0, 10.0),  # would fit, but stands behind 2
    ]
    assert under("accept-all", jobs, "1x4").first_start.tolist() == [0.0, 0.0, 10.0, 10.0]
    smallest = under("backlog:factor=1", jobs, "1x4", policy="smallest")
    assert smallest.first_start.tolist() == [0.0, 0.0, 10.0, 10.0]
    assert under("accept-all", jobs, "1x4", policy="smallest").first_start[3] == 2.0


def test_jct_falls_and_responsiveness_rises_as_the_threshold_falls() -> None:
    """The trend of figure 12: at full load LAS shares the cluster among too many jobs."""
    rng = np.random.default_rng(2)
    submitted = np.cumsum(rng.exponential(280.0, 500))
    jobs = [
        linear_job(n, float(submitted[n]), 1.0, float(seconds))
        for n, seconds in enumerate(rng.uniform(3600.0, 4 * 3600.0, 500))
    ]
    mean_jct, mean_wait = [], []
    for admission in ["accept-all", *(f"backlog:factor={factor}" for factor in (1.5, 1.2, 1.0))]:
        outcomes = under(admission, jobs, "8x4", policy="las")
        mean_jct.append(float(np.mean(outcomes.jct)))
        mean_wait.append(float(np.mean(outcomes.first_start - outcomes.submit_time)))
    assert mean_jct == sorted(mean_jct, reverse=True)
    assert mean_wait == sorted(mean_wait)
    assert mean_jct[-1] < 0.9 * mean_jct[0]
