"""Eq. 6 of Chronus: gangs counted as 1, 2, 4, ... GPUs or whole nodes find their places when they are due."""

import pytest
from chronus_cases import ROUNDING, due, lasts, promises
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job
from volvelle.testing.scenario import Run, Scenario, happen, linear_job


def run(jobs: list[Job], policy: str, cluster: str = "2x8", placement: str = "round-up") -> Run:
    return happen(
        Scenario.of(parse_cluster(cluster), jobs, policy=f"chronus:{policy}", placement=placement)
    )


@pytest.mark.parametrize(("rounded", "promised", "broken"), [("false", 3, 1), ("true", 2, 0)])
def test_three_gangs_that_fit_by_their_gpus_alone(rounded: str, promised: int, broken: int) -> None:
    """5 + 5 + 6 GPUs are 16, on two nodes of 8 of which no gang of three finds a third."""
    jobs = [
        due(linear_job(at, 0.0, gpus, 300.0), (330.0, 1.0)) for at, gpus in enumerate((5, 5, 6))
    ]
    found = run(jobs, f"lease=40,rounded={rounded}")
    made = {one.number for _, one in promises(found) if one.finish_by is not None}
    assert len(made) == promised
    assert sum(lasts(found)[number].finish_by is None for number in made) == broken


def test_a_wide_job_of_best_effort_takes_no_place_of_a_promised_gang() -> None:
    """By GPUs alone 3 + 3 + 3 and 7 fit; a node for the 7 would leave two places of 4 for three gangs."""
    jobs = [due(linear_job(at, 0.0, 3, 300.0), (305.0, 1.0)) for at in range(3)]
    jobs.append(linear_job(3, 0.0, 7, 30.0))
    found = run(jobs, "lease=40,rounded=true")
    assert found.outcomes.first_start.tolist() == [0.0, 0.0, 0.0, 300.0]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([(2, 4), (3, 4), (2, 8), (4, 2)]),
    st.lists(
        st.tuples(
            st.floats(0.0, 200.0), st.integers(1, 8), st.floats(1.0, 300.0), st.floats(0.0, 4.0)
        ),
        min_size=1,
        max_size=14,
    ),
)
def test_with_true_estimates_every_promise_is_kept_where_gangs_stand_together(
    nodes: tuple[int, int], drawn: list[tuple[float, int, float, float]]
) -> None:
    """A job in five has no deadline; those that run may be moved, at no cost."""
    jobs = []
    for at, (submit, gpus, seconds, slack) in enumerate(sorted(drawn)):
        job = linear_job(at, submit, min(gpus, nodes[0] * nodes[1]), seconds)
        jobs.append(due(job, (seconds * (1.0 + slack), 1.0)) if at % 5 else job)
    cluster = f"{nodes[0]}x{nodes[1]}"
    found = run(jobs, "lease=40,rounded=true", cluster, "round-up:move=true")
    for _, one in promises(found):
        if one.finish_by is not None:
            assert lasts(found)[one.number].finish_by == one.finish_by
            assert found.outcomes.finish[one.number] <= one.finish_by + ROUNDING
