"""Run times in bins: how sure it is that a job ends in its own, and by whose."""

from pathlib import Path

import pytest

from volvelle.core.events import JobSubmitted
from volvelle.model.job import JobSpec
from volvelle.model.problems import Problem
from volvelle.systems.anticipatory.bins import Bins, RunTimes

EDGES = (10.0, 100.0)


def job(gpus: float = 1.0, name: str = "") -> JobSpec:
    return JobSpec(id="job", submit_time=0.0, gpus=gpus, pool="a", user="u", name=name)


def believed(bins: Bins, spec: JobSpec) -> float:
    truth = bins.believe(JobSubmitted(0.0, 0, spec), 0).truth
    return truth.work / spec.gpus


@pytest.mark.parametrize(
    ("sure", "seconds"), [(0.3, 10.0), (0.5, 100.0), (0.75, 100.0), (0.95, 500.0)]
)
def test_jobs_alike_end_in_the_bin_as_often_as_is_asked_for(sure: float, seconds: float) -> None:
    bins = Bins(quanta="10/100", sure=sure)
    for taken in (5.0, 5.0, 5.0, 5.0, 50.0, 50.0, 50.0, 50.0, 500.0):
        bins.learn(job(), taken)
    assert believed(bins, job()) == seconds


def test_jobs_of_the_same_name_count_first_and_few_count_for_nothing() -> None:
    bins = Bins(quanta="10/100", default=7000.0)
    assert believed(bins, job()) == 7000.0
    for _ in range(3):
        bins.learn(job(2.0, "sweep"), 5.0)
        bins.learn(job(4.0), 50.0)
    bins.learn(job(8.0, "sweep-2"), 5.0)
    assert believed(bins, job(4.0, "sweep")) == 10.0
    assert believed(bins, job(2.0, "sweep-2")) == 10.0  # one alike; of its pool and width three
    assert believed(bins, job(4.0)) == 100.0


def test_bins_forget() -> None:
    """A hundred short jobs are outweighed by fewer long ones that ended after them."""
    bins = Bins(quanta="10/100")
    for _ in range(100):
        bins.learn(job(), 5.0)
    assert believed(bins, job()) == 10.0
    for _ in range(55):
        bins.learn(job(), 50.0)
    assert believed(bins, job()) == 100.0


def test_users_count_before_widths() -> None:
    bins = Bins(quanta="10/100")
    for _ in range(9):
        bins.learn(job(), 5.0)
        bins.learn(JobSpec(id="other", submit_time=0.0, gpus=1.0, pool="a", user="v"), 50.0)
    assert believed(bins, job()) == 10.0
    assert (
        believed(bins, JobSpec(id="next", submit_time=0.0, gpus=1.0, pool="a", user="v")) == 100.0
    )


def test_the_past_is_begun_with_and_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    seen, path = RunTimes(EDGES), tmp_path / "runs.json"
    for _ in range(3):
        seen.add(job(), 50.0)
    seen.save(path)
    assert believed(Bins(quanta="10/100", past=str(path)), job()) == 100.0
    for text, said in (("{}", "has no run times"), (path.read_text()[:-9], "has no run times")):
        path.write_text(text)
        with pytest.raises(Problem, match=said):
            RunTimes.load(path, EDGES)
    with pytest.raises(Problem, match="no run times at"):
        RunTimes.load(tmp_path / "none.json", EDGES)
