"""QSSF: expected service by hand, and what the past says of jobs with similar names."""

import pytest

from volvelle.core.events import JobSubmitted
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import JobSpec
from volvelle.systems.helios.estimator import SimilarNames
from volvelle.testing.scenario import Scenario, happen, linear_job

RAN = (
    ("ann", "train-bert-1", 4.0, 400.0),
    ("ann", "train-bert-1", 8.0, 800.0),
    ("ann", "evaluate", 1.0, 10.0),
    ("bob", "preprocess", 1.0, 60.0),
)


@pytest.mark.parametrize(
    ("user", "name", "gpus", "seconds"),
    [
        ("ann", "train-bert-1", 8.0, 800.0),  # as many GPUs
        ("ann", "train-bert-1", 2.0, 600.0),  # the mean of that name
        ("ann", "train-bert-2", 4.0, 400.0),  # a similar name
        ("cem", "preprocess", 1.0, 60.0),  # the name, of anybody
        ("bob", "zzz", 1.0, 60.0),  # the user
        ("cem", "zzz", 1.0, 317.5),  # all
    ],
)
def test_the_past_is_asked_from_the_likest_to_all(
    user: str, name: str, gpus: float, seconds: float
) -> None:
    estimator = SimilarNames()
    for whose, what, on, took in RAN:
        estimator.learn(JobSpec(id="x", submit_time=0.0, user=whose, name=what, gpus=on), took)
    spec = JobSpec(id="y", submit_time=0.0, user=user, name=name, gpus=gpus)
    belief = estimator.believe(JobSubmitted(0.0, 0, spec), seed=0)
    assert belief.truth.work == pytest.approx(seconds * gpus)


def test_the_least_service_starts_first_and_is_not_overtaken() -> None:
    """After job 0 the narrow job 2 would fit at once, but job 3, of less service, is before it and waits."""
    jobs = [
        linear_job(0, 0.0, 3.0, 100.0),
        linear_job(1, 1.0, 4.0, 1000.0),
        linear_job(2, 2.0, 1.0, 1000.0),
        linear_job(3, 3.0, 2.0, 10.0),
    ]
    cluster = parse_cluster("1x4")
    strict = happen(Scenario.of(cluster, jobs[:2] + jobs[3:], policy="qssf")).outcomes
    assert strict.first_start.tolist() == [0.0, 110.0, 100.0]
    waits = happen(Scenario.of(cluster, [jobs[0], jobs[3], jobs[2]], policy="qssf")).outcomes
    assert waits.first_start.tolist()[2] == 100.0
