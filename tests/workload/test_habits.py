"""Habits of users: batches, what follows what, think times found again in a trace that was made with them."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.problems import Problem
from volvelle.workload.habits import Habits, fit_habits
from volvelle.workload.workload import Workload


def job(name: str, submit: float, seconds: float = 100.0, user: str = "ada") -> Job:
    return Job(JobSpec(id=name, submit_time=submit, gpus=1.0, user=user), Truth(work=seconds))


SWEEPS = Workload(
    [
        job("a", 0.0),
        job("b", 30.0),
        job("other", 50.0, user="bob"),
        job("c", 430.0),
        job("d", 5000.0),
    ]
)


def test_jobs_of_a_user_that_are_close_are_a_batch_that_follows_the_one_before() -> None:
    found = Habits(batch_gap=60.0, think=(20.0,)).batches(SWEEPS, seed=0)
    assert [[one.spec.id for one in batch.jobs] for batch in found] == [
        ["a", "b"], ["other"], ["c"], ["d"],
    ]  # fmt: skip
    assert [batch.after for batch in found] == [None, None, 0, 2]
    assert [batch.think for batch in found[2:]] == [20.0, 20.0]
    assert [one.spec.submit_time for one in found[0].at(1000.0)] == [1000.0, 1030.0]


def test_nobody_follows_where_the_share_is_none() -> None:
    assert all(batch.after is None for batch in Habits(follows=0.0).batches(SWEEPS, seed=0))


def test_think_times_are_drawn_between_the_quantiles_and_alike_for_one_seed() -> None:
    habits = Habits(batch_gap=1.0, think=(10.0, 20.0, 400.0))
    jobs = Workload([job(str(n), 100.0 * n) for n in range(400)])
    drawn = [[batch.think for batch in habits.batches(jobs, seed)] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert min(drawn[0]) >= 10.0
    assert max(drawn[0]) <= 400.0
    assert np.median(drawn[0]) == pytest.approx(20.0, rel=0.5)


def test_fitted_habits_are_those_that_made_the_trace() -> None:
    """Every batch takes 100 s; three of four follow it after 10 to 30 s, one comes long after."""
    rng, time, jobs = np.random.default_rng(3), 0.0, []
    thought = []
    for number in range(2000):
        jobs.append(job(str(number), time))
        waits = rng.random() < 0.75
        thought.append(float(rng.uniform(310.0, 330.0)) if waits else 50_000.0)
        time += 100.0 + thought[-1]
    found = fit_habits(Workload(jobs))
    assert found.follows == pytest.approx(0.75, abs=0.04)
    assert found.think[0] == pytest.approx(310.0, abs=0.5)
    assert found.think[-1] == pytest.approx(330.0, abs=0.5)
    assert found.think[10] == pytest.approx(320.0, abs=1.0)


def test_a_trace_that_knows_when_jobs_ended_is_fitted_to_that() -> None:
    jobs = Workload([job("a", 0.0), job("b", 1000.0)])
    assert fit_habits(jobs).think[0] == 900.0
    assert fit_habits(jobs, ends=np.array([600.0, 1100.0])).think[0] == 400.0


def test_written_habits_are_read_again(tmp_path: Path) -> None:
    habits = Habits(batch_gap=60.0, follows=0.5, think=(1.0, 2.5, 100.0))
    path = tmp_path / "users.toml"
    path.write_text(habits.written, encoding="utf-8")
    assert Habits.read(path) == habits


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("follows = 1.5", "follows"),
        ("think = [3.0, 2.0]", "quantiles rise"),
        ("think = []", "think"),
        ("thinks = [1.0]", "thinks"),
    ],
)
def test_what_cannot_be_is_refused(text: str, wrong: str, tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Problem, match=wrong):
        Habits.read(path)


def test_users_who_never_follow_cannot_be_fitted() -> None:
    alone = [msgspec.structs.replace(job(str(n), 0.0, user=str(n)).spec) for n in range(3)]
    jobs = Workload([Job(spec, Truth(work=1.0)) for spec in alone])
    with pytest.raises(Problem, match="no batch of the trace follows another"):
        fit_habits(jobs)
