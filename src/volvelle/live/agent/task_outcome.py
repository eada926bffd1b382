"""The outcome of a task: from its exit, the stop that was ordered, and its control block."""

import re
import signal

from volvelle.client.control_block import (
    ATTACHED,
    ITERATIONS,
    PREEMPTED,
    TOTAL_ITERATIONS,
    ControlBlock,
)
from volvelle.live.agent.folders import ExitRecord, StopRecord
from volvelle.live.messages import NOT_DONE, Launch, Outcome
from volvelle.model.extras import CLIENT

_NO_CLIENT = re.compile(r"No module named 'volvelle(\.client)?'")


def task_outcome(
    record: ExitRecord,
    stop: StopRecord | None,
    block: ControlBlock,
    launch: Launch,
    last_line: str,
    *,
    done: bool = False,
) -> tuple[Outcome, str]:
    """The outcome of a task, and its reason for people. done: the script says that all its work is done.

    An end with code `NOT_DONE` is never that of the job, nor is that of a set-up command. After an ordered
    stop, and while the machine is shut down, every end counts as stopped, with two exceptions, both with exit
    code 0: the script has said that it is done, or it reads its control block and has not marked itself
    preempted. That script had just finished; while the machine is shut down that is believed only if it has
    done all its iterations.
    """
    if record.rebooted:
        return Outcome.LOST, "the machine was started anew"
    if record.lease_expired:
        return Outcome.STOPPED, "its node was cut off: killed as its lease ran out"
    if record.output_full and stop is None:
        return Outcome.FAILED, "its output is too large, or nearly fills the disk: killed"
    complete = 0 < block[TOTAL_ITERATIONS] <= block[ITERATIONS]
    finished = complete if record.interrupted else stop is None or bool(block[ATTACHED])
    description = _description(record, last_line)
    by_itself = record.interrupted or record.code in (0, NOT_DONE)
    if record.setup:
        by_itself = record.interrupted
    elif record.code == 0 and (done or (finished and not block[PREEMPTED])):
        return Outcome.FINISHED, ""
    if stop is None and not by_itself:
        return Outcome.FAILED, description
    reason = _stop_reason(stop, block, launch, record)
    return Outcome.STOPPED, reason or ("" if record.code in (0, NOT_DONE) else description)


def _stop_reason(
    stop: StopRecord | None, block: ControlBlock, launch: Launch, record: ExitRecord
) -> str:
    if stop is None and record.interrupted:
        return "its machine was shut down"
    if stop is None:
        return "exited by itself" + (": it is not done" if record.code == NOT_DONE else "")
    if stop.forced:
        ignored = "its lease" if block[ATTACHED] else launch.stop_signal or "the order to stop"
        return f"ignored {ignored}: killed after {launch.grace_seconds:g} s"
    return stop.reason or ("killed by order" if stop.kill else "")


def _description(record: ExitRecord, last_line: str) -> str:
    suffix = f": {last_line}" if last_line and not last_line.startswith("==>") else ""
    if _NO_CLIENT.search(last_line):
        suffix += f". The job's Python lacks volvelle.client: {CLIENT} into it, or name a Python that has it"
    if record.setup:
        suffix = f" of the set-up command {record.setup!r}{suffix}"
    if record.code is None or record.error:
        return record.error
    if record.code >= 0:
        return f"exit code {record.code}{suffix}"
    try:
        name = signal.Signals(-record.code).name
    except ValueError:
        name = f"signal {-record.code}"
    return f"killed by {name}{suffix}"
