"""What every generator promises: its load, its seed, its errors, its deadlines and estimates."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from systems_here import needs

from volvelle.core.composition import WrittenComposition
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, JobClass
from volvelle.model.problems import Problem
from volvelle.simulate.run import Setting, simulate
from volvelle.workload.describe import describe
from volvelle.workload.generators import DEMO_SEED, generators, make_generator
from volvelle.workload.generators.base import JobColumns, JobRows, workload_of
from volvelle.workload.generators.declarations import rounded_up
from volvelle.workload.generators.lognormal import Demo
from volvelle.workload.generators.stationary import StationaryGenerator
from volvelle.workload.workload import Workload

SMALL: dict[str, dict[str, object]] = {
    name: {"length": "4d"} if name == "anticipatory" else {"jobs": 300}
    for name in generators.names()
}
STATIONARY = [
    name for name, kind in generators.all().items() if issubclass(kind, StationaryGenerator)
]


@pytest.mark.parametrize("name", generators.names())
def test_the_same_seed_gives_the_same_workload_and_another_seed_another(name: str) -> None:
    generator = make_generator(name, SMALL[name])
    first, again, other = (
        msgspec.json.encode(list(generator.generate(np.random.default_rng(seed))))
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_jobs_made_when_they_are_looked_at_are_those_that_are_kept() -> None:
    rng = np.random.default_rng(1)
    widths, users = rng.choice([1.0, 2.0], 90), [f"user-{i % 7}" for i in range(90)]
    submitted, work = np.sort(rng.random(90)) * 1e4, rng.random(90) * 1e4
    columns = JobColumns(submitted, widths, work, users=users, weights=rng.random(90))
    rows, kept = JobRows(columns), workload_of(columns, "drawn").jobs
    assert isinstance(kept, list) and list(rows) == kept
    assert (rows[3], rows[-1], rows[80:200], rows[::-7]) == (
        *(kept[3], kept[-1], kept[80:200], kept[::-7]),
    )
    with pytest.raises(IndexError):
        rows[90]
    setting = Setting(cluster=parse_cluster("1x4"), composition=WrittenComposition("srsf"))
    first, again = (simulate(Workload(jobs), setting).outcomes for jobs in (rows, kept))
    assert list(first.specs) == again.specs == [job.spec for job in kept]
    for name in ("submit_time", "gpus", "finish", "exclusive_seconds", "single_gpu_seconds"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))


@pytest.mark.parametrize("name", generators.names())
def test_jobs_are_sound(name: str) -> None:
    workload = make_generator(name, SMALL[name]).generate(np.random.default_rng(3))
    assert workload.name == name
    assert np.all(np.diff(workload.submit_times) >= 0) and workload.submit_times[0] >= 0
    assert np.all(workload.gpus >= 1)
    assert np.all(workload.durations > 0) and np.all(np.isfinite(workload.durations))
    assert len({job.spec.id for job in workload}) == len(workload)


@pytest.mark.parametrize("name", generators.names())
def test_every_parameter_says_what_it_is_and_where_it_comes_from(name: str) -> None:
    kind = generators.get(name)
    assert kind.source and kind.__doc__
    assert all(field.description for field in kind.model_fields.values())


@pytest.mark.parametrize("name", [name for name in generators.names() if name != "anticipatory"])
@pytest.mark.parametrize("jobs", [1, 2])
def test_tiny_workloads_work(name: str, jobs: int) -> None:
    workload = make_generator(name, {"jobs": jobs}).generate(np.random.default_rng(0))
    assert len(workload) == jobs


@pytest.mark.parametrize("name", STATIONARY)
@pytest.mark.parametrize("arrivals", ["poisson", "bursty", "batches", "diurnal:weekend=0.2"])
def test_the_load_is_met_by_the_workload_in_hand(name: str, arrivals: str) -> None:
    parameters = {"jobs": 2000, "gpus": 48, "load": 0.7, "arrivals": arrivals}
    workload = make_generator(name, parameters).generate(np.random.default_rng(11))
    work = sum(gpu_seconds(job) for job in workload)
    span = workload.submit_times[-1] - workload.submit_times[0]
    assert work / span / 48 == pytest.approx(0.7, rel=0.002)


def gpu_seconds(job: Job) -> float:
    """An adaptive job's, at its first batch size; a sensitive one's, with the proportional share."""
    profile = job.truth.sensitivity
    if profile is None:
        return job.truth.work
    from volvelle.systems.synergy.generator import SHARE_CPUS, SHARE_MEMORY_GB

    return job.truth.work / profile.share(SHARE_CPUS, SHARE_MEMORY_GB)


@needs("gavel")
def test_a_length_gives_the_jobs_of_that_time_at_the_load_on_average() -> None:
    generator = make_generator("gavel", {"length": "60d", "gpus": 128, "load": 0.5})
    drawn = [generator.generate(np.random.default_rng(seed)) for seed in range(8)]
    assert all(workload.submit_times[-1] < 60 * 86400 for workload in drawn)
    work = np.mean([(workload.gpus * workload.durations).sum() for workload in drawn])
    assert work / (60 * 86400 * 128) == pytest.approx(0.5, rel=0.05)


@needs("gavel")
def test_a_rate_replaces_the_load() -> None:
    generator = make_generator("gavel", {"jobs": 20_000, "jobs_per_hour": 30})
    workload = generator.generate(np.random.default_rng(5))
    assert workload.submit_times[-1] == pytest.approx(20_000 / 30 * 3600, rel=0.03)


@needs("gavel")
@pytest.mark.parametrize(
    ("name", "parameters", "said"),
    [
        ("gavle", {}, "unknown generator 'gavle' (did you mean 'gavel'?)"),
        ("gavel", {"jbos": 3}, "unknown key 'jbos' (did you mean 'jobs'?)"),
        ("gavel", {"arrivals": "bursti"}, "did you mean 'bursty'?"),
        ("gavel", {"arrivals": "bursty:intensty=3"}, "did you mean 'intensity'?"),
        ("gavel", {"load": -1}, "key 'load' is -1"),
        ("gavel", {"load": 0.5, "jobs_per_hour": 3}, "load and jobs_per_hour both set the rate"),
        ("gavel", {"jobs": 5, "length": "1d"}, "jobs and length both set the size"),
        ("gavel", {"length": "soon"}, "cannot read 'soon' as a duration"),
        ("demo", {"strict_share": 0.9}, "add up to more than 1"),
        ("lognormal", {"widths": {"0": 1}}, "GPU counts above 0"),
    ],
)
def test_errors_name_the_thing_and_the_nearest_known(
    name: str, parameters: dict[str, Any], said: str
) -> None:
    with pytest.raises(Problem) as caught:
        make_generator(name, parameters)
    assert said in str(caught.value)


@needs("gavel")
def test_deadlines_are_those_of_chronus() -> None:
    parameters = {"jobs": 20_000, "strict_share": 0.3, "soft_share": 0.6}
    workload = make_generator("gavel", parameters).generate(np.random.default_rng(6))
    shares = describe(workload).classes
    assert shares["strict"] / 20_000 == pytest.approx(0.3, abs=0.01)
    assert shares["soft"] / 20_000 == pytest.approx(0.6, abs=0.01)
    slack = []
    for job, duration in zip(workload, workload.durations.tolist(), strict=True):
        rewards = job.spec.rewards
        if job.spec.job_class is JobClass.BEST_EFFORT:
            assert rewards == ()
            continue
        first = rewards[0].deadline_seconds
        slack.append(first / duration)
        if job.spec.job_class is JobClass.STRICT:
            assert [reward.value for reward in rewards] == [100]
        else:
            assert [reward.value for reward in rewards] == [100, 80, 50, 20]
            steps = [reward.deadline_seconds / first for reward in rewards]
            assert steps == pytest.approx([1.0, 1.1, 1.2, 1.5])
    assert min(slack) >= 1.2 and max(slack) <= 2.0
    assert np.mean(slack) == pytest.approx(1.6, abs=0.01)


@needs("gavel")
def test_users_are_unequal_and_each_belongs_to_one_pool() -> None:
    parameters = {"jobs": 20_000, "users": 10, "pools": 3}
    workload = make_generator("gavel", parameters).generate(np.random.default_rng(7))
    pairs = {(job.spec.user, job.spec.pool) for job in workload}
    assert len(pairs) == 10 and len({pool for _, pool in pairs}) == 3
    counts = sorted(np.unique([job.spec.user for job in workload], return_counts=True)[1])
    assert counts[-1] / counts[-2] == pytest.approx(2.0, rel=0.1)


@given(seconds=st.floats(1.0, 1e8))
@settings(max_examples=200)
def test_estimates_are_rounded_up_to_what_people_write(seconds: float) -> None:
    rounded = float(rounded_up(np.array([seconds]))[0])
    assert rounded >= seconds
    assert rounded % 300 == 0
    assert rounded <= max(300.0, 2 * seconds + 1, seconds + 7 * 86400)


def test_the_demo_is_a_busy_shared_cluster() -> None:
    workload, again = (Demo().generate(np.random.default_rng(DEMO_SEED)) for _ in range(2))
    description = describe(workload, 64)
    assert description.jobs == 2000
    assert description.load == pytest.approx(0.9, abs=0.005)
    assert description.users == 24 and description.pools == 4
    assert {width.gpus for width in description.widths} == {1, 2, 4, 8, 16}
    assert 0.15 < description.classes["strict"] / 2000 < 0.25
    assert 0.15 < description.classes["soft"] / 2000 < 0.25
    durations = description.duration_seconds
    assert durations.mean is not None
    assert durations.mean > 2.5 * (durations.quantile(0.5) or 0)  # a heavy tail
    assert (description.estimate_ratio.quantile(0.5) or 0) > 1.2
    assert 10 * 86400 < description.span_seconds < 18 * 86400
    assert list(workload) == list(again)
