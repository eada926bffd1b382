"""A script in one process: it resumes from its checkpoint, and exits when its lease is revoked."""

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attempts import Attempts
from counting_job import EPOCHS, NUMBERS
from waiting import until

from volvelle.client.control_block import (
    ATTACHED,
    ITERATION_NS,
    ITERATIONS,
    PREEMPTED,
    REVOKED,
    SAVED_ITERATIONS,
    TOTAL_ITERATIONS,
)

ITERATIONS_IN_ALL = EPOCHS * NUMBERS


@pytest.fixture
def attempts(tmp_path: Path) -> Iterator[Attempts]:
    """A job in a folder of its own."""
    job = Attempts(tmp_path)
    yield job
    job.kill_all()


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[str, ...]]:
    """What every iteration does when nothing happens."""
    job = Attempts(tmp_path_factory.mktemp("uninterrupted"))
    assert job.count().wait() == 0
    return job.lines()


def state_of(attempts: Attempts) -> dict[str, object]:
    numbered = (path for path in attempts.checkpoint.iterdir() if path.name.isdecimal())
    latest = max(numbered, key=lambda path: int(path.name))
    return dict(json.loads((latest / "state").read_bytes()))


def test_every_epoch_has_its_own_order(uninterrupted: dict[int, tuple[str, ...]]) -> None:
    order = [int(number) for number, _ in uninterrupted.values()]
    first, second = order[:NUMBERS], order[NUMBERS : 2 * NUMBERS]
    assert sorted(first) == sorted(second) == list(range(NUMBERS))
    assert first != second


def test_a_revoked_job_exits_within_an_iteration_with_a_checkpoint(
    attempts: Attempts,
) -> None:
    process = attempts.count(seconds=0.05, every="1h")
    block = attempts.block()
    until(lambda: block[ITERATIONS] >= 3)
    block[REVOKED] = 1
    at_hand = block[ITERATIONS] + 1
    assert process.wait() == 0
    assert block[PREEMPTED] == 1
    assert block[SAVED_ITERATIONS] == block[ITERATIONS] <= at_hand
    assert block[TOTAL_ITERATIONS] == ITERATIONS_IN_ALL
    assert block[ATTACHED] == 1
    assert 0.05e9 < block[ITERATION_NS] < 1e9


def test_a_job_revoked_repeatedly_computes_the_same_as_uninterrupted(
    attempts: Attempts, uninterrupted: dict[int, tuple[str, ...]]
) -> None:
    rng = random.Random(3)
    for _ in range(4):
        process = attempts.count(seconds=0.002, every="1h")
        block = attempts.block()
        target = block[SAVED_ITERATIONS] + rng.randrange(1, 30)
        until(lambda: block[ITERATIONS] >= target or process.poll() is not None)  # noqa: B023
        block[REVOKED] = 1
        assert process.wait() == 0
    while attempts.block()[PREEMPTED]:
        assert attempts.count().wait() == 0
    written = attempts.done.read_text().splitlines()
    assert len(written) == ITERATIONS_IN_ALL  # nothing was repeated
    assert attempts.lines() == uninterrupted


def test_killed_at_any_moment_every_iteration_is_once_in_the_surviving_history(
    attempts: Attempts, uninterrupted: dict[int, tuple[str, ...]]
) -> None:
    rng = random.Random(5)
    for _ in range(8):
        process = attempts.count(seconds=0.002)
        block = attempts.block()
        until(lambda: block[ATTACHED] == 1 or process.poll() is not None)  # noqa: B023
        saved = block[SAVED_ITERATIONS]
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(rng.uniform(0.0, 0.08))
            raise subprocess.TimeoutExpired("ended by itself", 0)
        process.kill()
        process.wait()
        assert block[SAVED_ITERATIONS] >= saved
    assert attempts.count().wait() == 0
    assert attempts.lines() == uninterrupted
    state = state_of(attempts)
    assert state["seen"] == [int(number) for number, _ in uninterrupted.values()]
    weights = {number: float(weight) for number, (_, weight) in uninterrupted.items()}
    assert state["weight"] == weights[ITERATIONS_IN_ALL]
    assert attempts.reported("weight") == weights


def test_without_a_scheduler_a_script_runs_and_resumes(
    attempts: Attempts, uninterrupted: dict[int, tuple[str, ...]]
) -> None:
    command = [sys.executable, str(attempts.script), str(attempts.checkpoint), str(attempts.done)]
    process = subprocess.Popen([*command, "0.002", "5"])
    until(lambda: attempts.done.exists() and len(attempts.lines()) > 20)
    process.kill()
    process.wait()
    assert subprocess.run([*command, "0", "5"], check=False).returncode == 0
    assert attempts.lines() == uninterrupted


def test_a_finished_job_does_nothing_when_started_again(attempts: Attempts) -> None:
    assert attempts.count().wait() == 0
    before = attempts.done.read_bytes()
    assert attempts.count().wait() == 0
    assert attempts.done.read_bytes() == before
    assert attempts.block()[SAVED_ITERATIONS] == ITERATIONS_IN_ALL


def test_reports_name_their_iteration(
    attempts: Attempts, uninterrupted: dict[int, tuple[str, ...]]
) -> None:
    assert attempts.count().wait() == 0
    weights = {number: float(weight) for number, (_, weight) in uninterrupted.items()}
    assert attempts.reported("weight") == weights


def test_importing_the_client_imports_nothing_else_of_volvelle_and_no_package() -> None:
    program = (
        "import sys; before = set(sys.modules); import volvelle.client; "
        "print(*sorted({name for name in sys.modules if name not in before}))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    imported = ran.stdout.split()
    ours = {name for name in imported if name.split(".")[0] == "volvelle"}
    assert {name for name in ours if not name.startswith("volvelle.client")} == {
        "volvelle",
        "volvelle.durations",
    }
    assert {name.split(".")[0] for name in imported} - {"volvelle"} <= sys.stdlib_module_names


def test_an_unwritable_checkpoint_folder_is_an_error_at_once(attempts: Attempts) -> None:
    attempts.checkpoint.write_text("a file")
    assert attempts.count().wait() != 0
    assert str(attempts.checkpoint) in attempts.output()


def test_the_folder_holds_the_latest_checkpoint_and_the_one_before(attempts: Attempts) -> None:
    assert attempts.count().wait() == 0
    folders = sorted(attempts.checkpoint.iterdir(), key=lambda path: int(path.name))
    assert int(folders[0].name) + 1 == int(folders[1].name)
    for folder in folders:
        assert {path.name for path in folder.iterdir()} == {
            "state",
            "position.json",
            "rank-0.json",
            "sums.json",
        }


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("state", lambda content: content[: len(content) // 2]),
        ("state", lambda content: content[:9] + bytes([content[9] ^ 1]) + content[10:]),
        ("position.json", lambda content: content.replace(b"1", b"2")),
        ("sums.json", lambda content: content[:-5]),
    ],
    ids=["truncated", "flipped", "position", "sums"],
)
def test_a_damaged_checkpoint_costs_the_way_from_the_one_before(
    attempts: Attempts,
    uninterrupted: dict[int, tuple[str, ...]],
    file: str,
    damage: Callable[[bytes], bytes],
) -> None:
    process = attempts.count(seconds=0.002)
    block = attempts.block()
    until(lambda: block[SAVED_ITERATIONS] >= 21)
    block[REVOKED] = 1
    assert process.wait() == 0
    latest = max(attempts.checkpoint.iterdir(), key=lambda path: int(path.name))
    before = (latest / file).read_bytes()
    (latest / file).write_bytes(damage(before))
    assert (latest / file).read_bytes() != before
    assert attempts.count().wait() == 0
    assert f"the checkpoint {latest} is damaged" in attempts.output()
    assert attempts.lines() == uninterrupted


def test_where_no_checkpoint_is_intact_nothing_starts_over_by_itself(attempts: Attempts) -> None:
    assert attempts.count().wait() == 0
    for folder in attempts.checkpoint.iterdir():
        (folder / "state").write_bytes(b"")
    assert attempts.count().wait() != 0
    assert "to start over, remove them" in attempts.output()
    assert len(list(attempts.checkpoint.iterdir())) == 2
