"""The toy schedules of Shockwave (NSDI'23): figure 1, table 1, and figure 15 of its appendix B.

Three jobs of 12, 8 and 6 seconds on one GPU ask for 3, 2 and 2 of 4 GPUs and run linearly slower on fewer;
a round is a second. The figures show who holds which GPU in each of seven rounds.
"""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, JobSpec, Regime, Truth
from volvelle.testing.scenario import Run, Scenario, happen, linear_job

ROUNDS = 7
SECONDS_ON_ONE = np.array([12.0, 8.0, 6.0])


class Example(NamedTuple):
    """A figure and the row of table 1 that belongs to it.

    ``gpus`` is what A, B and C hold by rounds, ``worst`` and ``mean_jct`` are as the table prints them.
    """

    policy: str
    gpus: tuple[str, str, str]
    worst: str
    mean_jct: str


FIGURE_1 = Example(
    "themis:lease=1,by=share,filter=0.67,ties=turns",
    ("2022033", "2202200", "0220200"),
    worst="1.1",
    mean_jct="5.7",
)
"""A static filter of 2/3."""

FIGURE_15A = Example(
    "themis:lease=1,by=share,filter=0.33,ties=later",
    ("1130322", "1202120", "2112000"),
    worst="1.0",
    mean_jct="5.7",
)
"""A static filter of 1/3."""

FIGURE_15B = Example(
    "themis:lease=1,by=share,filter=1,ties=turns",
    ("2112132", "1211210", "1121100"),
    worst="1.1",
    mean_jct="6.0",
)
"""No filter: 1.0."""

FIGURE_15C = Example(
    "themis:lease=1,by=rho,contention=time,filter=0.67,ties=later",
    ("0003333", "2221100", "2220000"),
    worst="0.83",
    mean_jct="5",
)
"""Shockwave's adaptive filter, 2/3 of the three jobs and then 1/3: here two jobs of three and one of the
two that are left, chosen by the finish-time fairness they are heading for instead of by their past."""

EXAMPLES = [FIGURE_1, FIGURE_15A, FIGURE_15B, FIGURE_15C]


def run(policy: str) -> Run:
    jobs = [
        linear_job(number, 0.0, gpus, seconds / gpus, min_gpus=1.0, max_gpus=gpus)
        for number, (gpus, seconds) in enumerate(
            zip([3.0, 2.0, 2.0], SECONDS_ON_ONE.tolist(), strict=True)
        )
    ]
    return happen(Scenario.of(parse_cluster("1x4"), jobs, policy=policy))


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_job_holds_in_every_round_the_gpus_of_the_figure(example: Example) -> None:
    segments = run(example.policy).outcomes.segments
    held = np.zeros((3, ROUNDS))
    for job, start, end, gpus in zip(
        segments.job, segments.start, segments.end, segments.gpus, strict=True
    ):
        assert start == int(start)
        assert end == int(end)
        held[job, int(start) : int(end)] += gpus
    assert_array_equal(held, [[int(each) for each in row] for row in example.gpus])


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_row_of_table_1_follows(example: Example) -> None:
    """rho is the completion time over that on a third of the cluster, N = 3 (section 2.1)."""
    outcomes = run(example.policy).outcomes
    rho = outcomes.jct / (SECONDS_ON_ONE / (4.0 / 3.0))
    digits = len(example.worst.partition(".")[2])
    assert f"{rho.max():.{digits}f}" == example.worst
    digits = len(example.mean_jct.partition(".")[2])
    assert f"{outcomes.jct.mean():.{digits}f}" == example.mean_jct
    assert outcomes.finish.max() == ROUNDS


def test_sharing_incentive_is_broken_where_table_1_has_a_cross() -> None:
    for example, broken in zip(EXAMPLES, [True, False, True, False], strict=True):
        outcomes = run(example.policy).outcomes
        rho = outcomes.jct / (SECONDS_ON_ONE / (4.0 / 3.0))
        assert bool(rho.max() > 1.0 + 1e-9) == broken


def test_the_rhos_of_figure_1() -> None:
    """The caption says (0.78, 0.83, 1.1)."""
    rho = run(FIGURE_1.policy).outcomes.jct / (SECONDS_ON_ONE / (4.0 / 3.0))
    assert rho.tolist() == pytest.approx([7 / 9, 5 / 6, 10 / 9])


def test_who_expects_jobs_to_speed_up_is_done_earlier() -> None:
    """Figure 4's case, whose numbers the paper does not give: two jobs that begin slow, one that lasts.

    Alone each of A and B takes 10,000 s for its first half and 1,000 s for its second, C 16,000 s. To whoever
    expects no change A and B have 20,000 s left and come first.
    """
    speeding = (Regime(0.0, 32), Regime(10000.0, 64, 10.0))
    jobs = [
        Job(JobSpec(id=name, submit_time=0.0), Truth(work=20000.0, regimes=speeding))
        for name in "AB"
    ]
    jobs.append(Job(JobSpec(id="C", submit_time=0.0), Truth(work=16000.0)))
    policy = "shockwave:power=0,makespan=1000,ending=0"
    makespan = {
        estimator: happen(
            Scenario.of(parse_cluster("1x2"), jobs, policy=policy, estimator=estimator)
        ).outcomes.finish.max()
        for estimator in ("oracle", "regimes:rule=greedy")
    }
    assert makespan["oracle"] < makespan["regimes:rule=greedy"]
