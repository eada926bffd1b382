"""How ends are judged."""

from pathlib import Path

import pytest

from volvelle.client.control_block import ATTACHED, PREEMPTED, ControlBlock
from volvelle.live.agent.folders import Exit, StopAsked
from volvelle.live.agent.task_outcome import verdict
from volvelle.live.messages import Launch, Outcome

STOP = StopAsked(at=0.0)
KILL = StopAsked(at=0.0, kill=True)
FORCED = StopAsked(at=0.0, forced=True)
CUT_OFF = StopAsked(at=0.0, because="its node was cut off from the controller")


@pytest.mark.parametrize(
    ("end", "stop", "fields", "outcome", "reason"),
    [
        (Exit(0), None, [], Outcome.FINISHED, ""),
        (Exit(0), None, [ATTACHED], Outcome.FINISHED, ""),
        (Exit(0), None, [ATTACHED, PREEMPTED], Outcome.STOPPED, "left by itself"),
        (Exit(0), STOP, [ATTACHED, PREEMPTED], Outcome.STOPPED, ""),
        (Exit(0), STOP, [ATTACHED], Outcome.FINISHED, ""),  # it was just done
        (Exit(0), STOP, [], Outcome.STOPPED, ""),  # whether it was done nobody can know
        (Exit(1), STOP, [ATTACHED], Outcome.STOPPED, "exit code 1: the last line"),
        (Exit(-15), STOP, [], Outcome.STOPPED, "killed by SIGTERM: the last line"),
        (Exit(-9), KILL, [], Outcome.STOPPED, "killed by order"),
        (Exit(-9), FORCED, [ATTACHED], Outcome.STOPPED, "ignored its lease: killed after 30 s"),
        (Exit(-9), FORCED, [], Outcome.STOPPED, "ignored SIGTERM: killed after 30 s"),
        (Exit(0), CUT_OFF, [ATTACHED, PREEMPTED], Outcome.STOPPED, CUT_OFF.because),
        (Exit(3), None, [], Outcome.FAILED, "exit code 3: the last line"),
        (Exit(-11), None, [], Outcome.FAILED, "killed by SIGSEGV: the last line"),
        (Exit(error="its keeper was killed"), None, [], Outcome.FAILED, "its keeper was killed"),
        (
            Exit(-9, lease_expired=True),
            None,
            [],
            Outcome.STOPPED,
            "its node was cut off: killed as its lease ran out",
        ),
        (
            Exit(error="its keeper was killed", rebooted=True),
            None,
            [],
            Outcome.LOST,
            "the machine was started anew",
        ),
    ],
)
def test_an_end_is_what_exit_order_and_control_block_make_of_it(
    tmp_path: Path,
    end: Exit,
    stop: StopAsked | None,
    fields: list[int],
    outcome: Outcome,
    reason: str,
) -> None:
    block = ControlBlock.create(tmp_path / ControlBlock.FILE_NAME, attempt=1)
    for field in fields:
        block[field] = 1
    launch = Launch(command=("python", "train.py"))
    assert verdict(end, stop, block, launch, "the last line") == (outcome, reason)
