"""The Gymnasium environment: its own checks, completion times as rewards, the agent of the example."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="the extra gym is not installed")

from gymnasium.utils.env_checker import check_env

from volvelle.core.composition import WrittenComposition
from volvelle.gym import COLUMNS, SchedulingEnv
from volvelle.model.cluster import parse_cluster
from volvelle.simulate.run import Setting, simulate
from volvelle.testing.scenario import linear_job
from volvelle.workload.workload import Workload

HOUR = 3600.0


def env(jobs: Workload) -> SchedulingEnv:
    return SchedulingEnv(jobs, "1x2", interval=600.0, slots=4)


def total(env: SchedulingEnv, action: list[float]) -> float:
    env.reset(seed=0)
    reward, over = 0.0, False
    while not over:
        _, more, over, *_ = env.step(np.array(action, dtype=np.float32))
        reward += more
    return reward


LONG_THEN_SHORT = Workload(
    [
        linear_job(0, 0.0, 2.0, HOUR),
        linear_job(1, 60.0, 2.0, 2 * HOUR),
        linear_job(2, 120.0, 2.0, HOUR / 2),
    ]
)


def test_it_passes_the_checks_of_gymnasium() -> None:
    check_env(SchedulingEnv("lognormal:jobs=8", "1x4", slots=5), skip_render_check=True)


def test_equal_scores_are_first_in_first_out_and_rewards_are_completion_times() -> None:
    setting = Setting(cluster=parse_cluster("1x2"), composition=WrittenComposition("fifo-skip"))
    hours = simulate(LONG_THEN_SHORT, setting).outcomes.jct.sum() / HOUR
    # The reward counts from the first step on, 600 s, when three jobs have been there since 0, 60 and 120 s.
    before = (600.0 + 540.0 + 480.0) / HOUR
    assert total(env(LONG_THEN_SHORT), [0.0] * 4) == pytest.approx(before - hours)


def test_a_score_lets_the_short_job_go_first() -> None:
    """Jobs that wait are seen first, by submission: the second row is the short one."""
    assert total(env(LONG_THEN_SHORT), [0.0, 1.0, 0.0, 0.0]) > total(
        env(LONG_THEN_SHORT), [0.0] * 4
    )


def test_rows_are_jobs_that_wait_then_those_that_run() -> None:
    rows, info = env(LONG_THEN_SHORT).reset(seed=0)
    assert info["jobs"].tolist() == [1, 2, 0]
    assert rows[:, COLUMNS.index("present")].tolist() == [1.0, 1.0, 1.0, 0.0]
    assert rows[:, COLUMNS.index("waiting")].tolist() == [1.0, 1.0, 0.0, 0.0]
    assert rows[:3, COLUMNS.index("held")].tolist() == [0.0, 0.0, 1.0]
    remaining = rows[:, COLUMNS.index("remaining")]
    assert remaining[0] > remaining[2] > remaining[1]  # 2 h, 50 min, 30 min


def test_the_agent_of_the_example_learns_to_beat_fifo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "examples"))
    monkeypatch.delitem(sys.modules, "learn_to_schedule", raising=False)
    agent = importlib.import_module("learn_to_schedule")
    weights, fresh = agent.learn(rounds=12), range(100, 104)
    learnt = sum(agent.episode(weights, seed) for seed in fresh)
    fifo = sum(agent.episode(np.zeros(len(COLUMNS)), seed) for seed in fresh)
    assert learnt > 0.95 * fifo  # rewards are negative
