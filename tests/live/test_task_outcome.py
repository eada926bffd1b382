"""The outcome of a task."""

from pathlib import Path

import pytest

from volvelle.client.control_block import (
    ATTACHED,
    ITERATIONS,
    PREEMPTED,
    TOTAL_ITERATIONS,
    ControlBlock,
)
from volvelle.live.agent.folders import ExitRecord, StopRecord
from volvelle.live.agent.task_outcome import task_outcome
from volvelle.live.messages import Launch, Outcome
from volvelle.model.extras import CLIENT

STOP = StopRecord(at=0.0)
DONE = 30
"""Stands for the file by which a script says that it is done."""
SHUT_DOWN = "its machine was shut down"
KILL = StopRecord(at=0.0, kill=True)
FORCED = StopRecord(at=0.0, forced=True)
CUT_OFF = StopRecord(at=0.0, reason="its node was cut off from the controller")


@pytest.mark.parametrize(
    ("end", "stop", "fields", "outcome", "reason"),
    [
        (ExitRecord(0), None, [], Outcome.FINISHED, ""),
        (ExitRecord(0), None, [ATTACHED], Outcome.FINISHED, ""),
        (ExitRecord(0), None, [ATTACHED, PREEMPTED], Outcome.STOPPED, "exited by itself"),
        (ExitRecord(0), STOP, [ATTACHED, PREEMPTED], Outcome.STOPPED, ""),
        (ExitRecord(0), STOP, [ATTACHED], Outcome.FINISHED, ""),  # it was complete
        (ExitRecord(0), STOP, [], Outcome.STOPPED, ""),  # it may or may not be complete
        (ExitRecord(1), STOP, [ATTACHED], Outcome.STOPPED, "exit code 1: the last line"),
        (ExitRecord(-15), STOP, [], Outcome.STOPPED, "killed by SIGTERM: the last line"),
        (ExitRecord(-9), KILL, [], Outcome.STOPPED, "killed by order"),
        (
            ExitRecord(-9),
            FORCED,
            [ATTACHED],
            Outcome.STOPPED,
            "ignored its lease: killed after 30 s",
        ),
        (ExitRecord(-9), FORCED, [], Outcome.STOPPED, "ignored SIGTERM: killed after 30 s"),
        (ExitRecord(0), CUT_OFF, [ATTACHED, PREEMPTED], Outcome.STOPPED, CUT_OFF.reason),
        (ExitRecord(75), None, [], Outcome.STOPPED, "exited by itself: it is not done"),
        (ExitRecord(75), STOP, [], Outcome.STOPPED, ""),
        (ExitRecord(75), STOP, [ATTACHED], Outcome.STOPPED, ""),
        (ExitRecord(0), STOP, [DONE], Outcome.FINISHED, ""),  # it says so
        (ExitRecord(1), STOP, [DONE], Outcome.STOPPED, "exit code 1: the last line"),
        (ExitRecord(0, interrupted=True), None, [], Outcome.STOPPED, SHUT_DOWN),
        (ExitRecord(-15, interrupted=True), None, [], Outcome.STOPPED, SHUT_DOWN),
        (ExitRecord(0, interrupted=True), None, [ATTACHED], Outcome.STOPPED, SHUT_DOWN),
        (ExitRecord(0, interrupted=True), None, [DONE], Outcome.FINISHED, ""),
        (
            ExitRecord(0, interrupted=True),
            None,
            [ATTACHED, ITERATIONS, TOTAL_ITERATIONS],
            Outcome.FINISHED,
            "",
        ),
        (ExitRecord(3), None, [], Outcome.FAILED, "exit code 3: the last line"),
        (ExitRecord(-11), None, [], Outcome.FAILED, "killed by SIGSEGV: the last line"),
        (
            ExitRecord(error="its supervisor was killed"),
            None,
            [],
            Outcome.FAILED,
            "its supervisor was killed",
        ),
        (
            ExitRecord(-9, lease_expired=True),
            None,
            [],
            Outcome.STOPPED,
            "its node was cut off: killed as its lease ran out",
        ),
        (
            ExitRecord(-9, output_full=True),
            None,
            [],
            Outcome.FAILED,
            "its output is too large, or nearly fills the disk: killed",
        ),
        (
            ExitRecord(error="its supervisor was killed", rebooted=True),
            None,
            [],
            Outcome.LOST,
            "the machine was started anew",
        ),
    ],
)
def test_the_outcome_follows_from_exit_order_and_control_block(
    tmp_path: Path,
    end: ExitRecord,
    stop: StopRecord | None,
    fields: list[int],
    outcome: Outcome,
    reason: str,
) -> None:
    block = ControlBlock.create(tmp_path / ControlBlock.FILE_NAME, attempt=1)
    for field in fields:
        block[field] = 1
    launch, done = Launch(command=("python", "train.py")), DONE in fields
    found = task_outcome(end, stop, block, launch, "the last line", done=done)
    assert found == (outcome, reason)


def test_a_script_whose_python_lacks_the_client_is_told_how_to_get_it(tmp_path: Path) -> None:
    block = ControlBlock.create(tmp_path / ControlBlock.FILE_NAME, attempt=1)
    launch = Launch(command=("python3", "train.py"))
    for module in ("volvelle", "volvelle.client"):
        line = f"ModuleNotFoundError: No module named '{module}'"
        _, reason = task_outcome(ExitRecord(1), None, block, launch, line)
        assert reason.startswith(f"exit code 1: {line}. ")
        assert f"{CLIENT} into it" in reason
    _, reason = task_outcome(
        ExitRecord(1), None, block, launch, "ModuleNotFoundError: No module named 'torch'"
    )
    assert CLIENT not in reason
