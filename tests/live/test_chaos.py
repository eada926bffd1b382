"""Nothing is lost by real processes that are killed; and what would show it shows what it should.

The long form, and what it does: ``experiments/chaos/chaos.py``.
"""

import csv
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from evidence import Traced, broken_histories, gpus_held_twice, jobs_run_twice, read_traces

FOLDER = Path(__file__).parents[2] / "experiments" / "chaos"


def run(attempt: int, began: float, last: float, done: range, *, job: int = 0) -> Traced:
    """Rank 0 of an attempt on one GPU, which saves after every iteration."""
    name = f"{job}-{attempt}-0"
    gpus = (f"node-0.{job}",)
    restored = done.start - 1
    return Traced(job, attempt, 0, name, began, last, gpus, restored, 5, 1, list(done))


def ended(attempt: Traced, *before: Traced) -> Traced:
    """The last attempt, with the history in its checkpoint."""
    attempts = (*before, attempt)
    attempt.history = [(done, each.attempt) for each in attempts for done in each.iterations]
    return attempt


def violations(*traces: Traced) -> Iterator[str]:
    yield from gpus_held_twice(traces)
    yield from jobs_run_twice(traces)
    yield from broken_histories(traces, {0: 5})


def test_resuming_from_the_checkpoint_is_no_violation() -> None:
    first = run(1, 0.0, 4.0, range(1, 4))
    assert not list(violations(first, ended(run(3, 4.5, 9.0, range(4, 6)), first)))


def test_an_iteration_after_the_last_checkpoint_may_be_repeated() -> None:
    first = run(1, 0.0, 4.0, range(1, 4))
    second = run(2, 5.0, 9.0, range(3, 6))
    second.history = [(1, 1), (2, 1), (3, 2), (4, 2), (5, 2)]
    assert not list(violations(first, second))


@pytest.mark.parametrize(("back_to", "allowed"), [(2, True), (1, False), (None, False)])
def test_a_damaged_checkpoint_costs_the_way_from_the_one_before(
    back_to: int | None, allowed: bool
) -> None:
    first = run(1, 0.0, 4.0, range(1, 5))  # 3 were saved
    second = run(2, 5.0, 9.0, range(3, 6))
    second.history = [(1, 1), (2, 1), (3, 2), (4, 2), (5, 2)]
    damaged = {} if back_to is None else {0: back_to}
    assert allowed is not any(broken_histories([first, second], {0: 5}, damaged))


@pytest.mark.parametrize(
    ("what", "first", "second"),
    [
        ("ran twice at once", run(1, 0.0, 4.0, range(1, 4)), run(2, 3.0, 9.0, range(4, 6))),
        ("held by two", run(1, 0.0, 4.0, range(1, 4)), run(2, 3.0, 9.0, range(4, 6))),
        ("started twice", run(1, 0.0, 4.0, range(1, 4)), run(1, 5.0, 9.0, range(4, 6))),
        ("in a checkpoint", run(1, 0.0, 4.0, range(1, 4)), run(2, 5.0, 9.0, range(1, 6))),
        ("were ever done", run(1, 0.0, 4.0, range(1, 3)), run(2, 5.0, 9.0, range(4, 6))),
        ("should have done", run(1, 0.0, 4.0, range(1, 4)), run(2, 5.0, 9.0, range(4, 5))),
    ],
)
def test_evidence_of_a_violation_is_found(what: str, first: Traced, second: Traced) -> None:
    assert any(what in violation for violation in violations(first, ended(second, first)))


def test_a_process_whose_gpu_is_in_use_is_a_violation(tmp_path: Path) -> None:
    lines = (
        '{"collision": "gpu-node-0.1", "at": 1.0}',
        '{"began": 0.5, "run": "", "gpus": ["node-0.1"], "restored": 0, "total": 5, "every": 1, "at": 1.0}',
        '{"iteration": 1, "a',
    )
    (tmp_path / "0-1-0-77.jsonl").write_text("\n".join(lines), encoding="utf-8")
    traces = read_traces(tmp_path)
    assert [one.iterations for one in traces] == [[]]
    assert list(gpus_held_twice(traces)) == [
        "0-1-0-77 found another process alive that has gpu-node-0.1"
    ]


@pytest.mark.parametrize(
    ("executor", "page"),
    [
        ("dial-in", "chaos"),
        ("local", "chaos-local"),
        pytest.param("kubernetes", "chaos-kubernetes", marks=pytest.mark.slow),
    ],
)
def test_nothing_is_lost_while_real_processes_are_killed(
    tmp_path: Path, executor: str, page: str
) -> None:
    ran = subprocess.run(
        [
            sys.executable, str(FOLDER / "chaos.py"), "--executor", executor,
            "--kills", "3", "--runs", "1", "--clients", "1", "--out", str(tmp_path),
        ],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    with (tmp_path / f"{page}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    kills = sum(int(row["count"]) for row in rows if row["kind"] == "kill")
    facts = {row["what"]: int(row["count"]) for row in rows if row["kind"] == "fact"}
    assert kills == 3
    assert facts["jobs"] >= 1
    assert facts["iterations run"] >= facts["iterations that survive"] > 0
