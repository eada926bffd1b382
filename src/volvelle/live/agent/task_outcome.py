"""How an attempt ended on a node, in the words of reports."""

import signal

from volvelle.client.control_block import ATTACHED, PREEMPTED, ControlBlock
from volvelle.live.agent.folders import Exit, StopAsked
from volvelle.live.messages import Launch, Outcome


def verdict(
    end: Exit, stop: StopAsked | None, block: ControlBlock, launch: Launch, last_line: str
) -> tuple[Outcome, str]:
    """The outcome of an attempt, and its reason for people.

    After an order to stop every end is a stop, save the plain end of a script that reads its page and does
    not say there that it left: it had just finished.
    """
    if end.rebooted:
        return Outcome.LOST, "the machine was started anew"
    if end.lease_expired:
        return Outcome.STOPPED, "its node was cut off: killed as its lease ran out"
    if end.code == 0 and not block[PREEMPTED] and (stop is None or block[ATTACHED]):
        return Outcome.FINISHED, ""
    how = _how(end, last_line)
    if stop is None and not (end.code == 0 and block[PREEMPTED]):
        return Outcome.FAILED, how
    return Outcome.STOPPED, _why_stopped(stop, block, launch) or ("" if end.code == 0 else how)


def _why_stopped(stop: StopAsked | None, block: ControlBlock, launch: Launch) -> str:
    if stop is None:
        return "left by itself"
    if stop.forced:
        ignored = "its lease" if block[ATTACHED] else launch.stop_signal or "that it was to stop"
        return f"ignored {ignored}: killed after {launch.grace_seconds:g} s"
    return stop.because or ("killed by order" if stop.kill else "")


def _how(end: Exit, last_line: str) -> str:
    said = f": {last_line}" if last_line else ""
    if end.code is None:
        return end.error
    if end.code >= 0:
        return f"exit code {end.code}{said}"
    try:
        name = signal.Signals(-end.code).name
    except ValueError:
        name = f"signal {-end.code}"
    return f"killed by {name}{said}"
