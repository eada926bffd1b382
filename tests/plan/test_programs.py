"""Programs solved by HiGHS."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from systems_here import needs

from volvelle.core.solver_clock import on_the_clock
from volvelle.model.arrays import FloatColumn
from volvelle.model.cluster import parse_cluster
from volvelle.plan.programs import Answer, Program, Rows, maximise
from volvelle.testing.scenario import Scenario, happen, linear_job

pytest.importorskip("highspy", reason="the extra 'solvers' is not installed")

SOLVED = """
import numpy as np
from volvelle.plan.programs import Program, Rows, maximise

gain, rows = np.random.default_rng(1).random(40), Rows()
for _ in range(12):
    rows.add(np.arange(40), np.random.default_rng(2).random(40), upper=5.0)
for whole in (None, np.ones(40, dtype=bool)):
    for seconds in (10.0, 0.0):
        maximise(Program(gain, np.ones(40), rows, whole), np.zeros(40), np.inf, seconds)
"""


def test_the_solver_writes_nothing_to_the_terminal() -> None:
    # In a process of its own: what C has buffered is written at its end.
    ran = subprocess.run([sys.executable, "-c", SOLVED], capture_output=True, check=True)
    assert (ran.stdout, ran.stderr) == (b"", b"")


@contextmanager
def busy() -> Iterator[None]:
    """Beside processes that do nothing but count."""
    count = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(count) for _ in range(4)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _knapsacks(count: int, seed: int = 1) -> tuple[FloatColumn, Rows]:
    """Gains of ``count`` variables, and twelve rows that bind."""
    rng, rows = np.random.default_rng(seed), Rows()
    for _ in range(12):
        rows.add(np.arange(count), rng.random(count), upper=count / 8)
    return rng.random(count), rows


def _answers(seconds: float) -> list[Answer]:
    """Of a linear program, and of one in whole numbers."""
    gain, rows = _knapsacks(400)
    answers = []
    for whole in (None, np.ones(len(gain), dtype=np.bool_)):
        program = Program(gain, np.ones(len(gain)), rows, whole)
        answers.append(maximise(program, np.zeros(len(gain)), np.inf, seconds))
    return answers


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.2])
def test_the_work_and_the_answer_are_the_same_beside_any_load(seconds: float) -> None:
    quiet = _answers(seconds)
    with busy():
        loaded = _answers(seconds)
    for one, other in zip(quiet, loaded, strict=True):
        assert (one.value, one.bound, one.seconds) == (other.value, other.bound, other.seconds)
        np.testing.assert_array_equal(one.x, other.x)


def test_the_search_for_whole_numbers_ends_when_its_work_is_done() -> None:
    short, long = (_answers(seconds)[1] for seconds in (0.2, 1.0))
    assert short.seconds <= 0.3 < long.seconds
    assert short.bound > long.bound > long.value >= short.value > 0.0


def test_a_program_that_cannot_be_read_in_time_is_not_begun() -> None:
    # The solver would presolve it before it asks for the first time whether to go on.
    linear, whole = _answers(0.0)
    assert linear.seconds > whole.seconds == 0.0
    assert (whole.value, whole.bound) == (0.0, np.inf)
    assert _answers(0.02)[1].seconds > 0.0


@needs("shockwave")
def test_decisions_are_the_same_beside_any_load() -> None:
    """Under a limit of work that ends most of the programs."""
    jobs = tuple(linear_job(n, n % 7, 1.0 + n % 3, 200.0 + 37 * (n % 5)) for n in range(40))
    cluster = parse_cluster("2x4")
    policy = "shockwave:round=30,window=4,time_limit=0.002s,gap=0"
    scenario = Scenario.of(cluster, jobs, policy=policy)
    quiet = happen(scenario)
    gaps = quiet.scheduler.composition.policy.solver_gaps
    assert gaps is not None
    assert gaps.worst > 0.0
    with busy():
        assert happen(scenario).journal_bytes == quiet.journal_bytes


def test_the_clock_ends_programs_where_it_is_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("volvelle.plan.programs.LATEST", 0.0)
    with on_the_clock() as clock:
        late = _answers(10.0)
    assert clock.ended == 2
    assert [answer.value for answer in late] == [0.0, 0.0]
    with on_the_clock() as clock:
        pass
    assert clock.ended == 0
    assert all(answer.value > 0.0 for answer in _answers(0.2))
