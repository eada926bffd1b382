"""The outcome of a task: from its exit, the stop that was ordered, and its control block."""

import signal

from volvelle.client.control_block import ATTACHED, PREEMPTED, ControlBlock
from volvelle.live.agent.folders import ExitRecord, StopRecord
from volvelle.live.messages import Launch, Outcome


def task_outcome(
    record: ExitRecord,
    stop: StopRecord | None,
    block: ControlBlock,
    launch: Launch,
    last_line: str,
) -> tuple[Outcome, str]:
    """The outcome of a task, and its reason for people.

    After an ordered stop every end counts as stopped, with one exception: exit code 0 of a script that reads
    its control block and has not marked itself preempted. That script had just finished.
    """
    if record.rebooted:
        return Outcome.LOST, "the machine was started anew"
    if record.lease_expired:
        return Outcome.STOPPED, "its node was cut off: killed as its lease ran out"
    if record.code == 0 and not block[PREEMPTED] and (stop is None or block[ATTACHED]):
        return Outcome.FINISHED, ""
    description = _description(record, last_line)
    if stop is None and not (record.code == 0 and block[PREEMPTED]):
        return Outcome.FAILED, description
    reason = _stop_reason(stop, block, launch)
    return Outcome.STOPPED, reason or ("" if record.code == 0 else description)


def _stop_reason(stop: StopRecord | None, block: ControlBlock, launch: Launch) -> str:
    if stop is None:
        return "exited by itself"
    if stop.forced:
        ignored = "its lease" if block[ATTACHED] else launch.stop_signal or "the order to stop"
        return f"ignored {ignored}: killed after {launch.grace_seconds:g} s"
    return stop.reason or ("killed by order" if stop.kill else "")


def _description(record: ExitRecord, last_line: str) -> str:
    suffix = f": {last_line}" if last_line else ""
    if record.code is None or record.error:
        return record.error
    if record.code >= 0:
        return f"exit code {record.code}{suffix}"
    try:
        name = signal.Signals(-record.code).name
    except ValueError:
        name = f"signal {-record.code}"
    return f"killed by {name}{suffix}"
