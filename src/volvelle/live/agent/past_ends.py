"""The archived ends of jobs, for a server whose store was set back and has lost them."""

from collections.abc import Iterable

import msgspec

from volvelle.live.agent.folders import AgentFolder
from volvelle.live.agent.processes import seconds_ago, since_boot
from volvelle.live.agent.wire import TaskEnded
from volvelle.live.messages import Outcome


def past_ends(folder: AgentFolder, numbers: Iterable[int]) -> tuple[TaskEnded, ...]:
    """Of each of these jobs the last end that ``folder`` has, and all ends with which one finished."""
    finished: list[TaskEnded] = []
    last: dict[tuple[int, str], TaskEnded] = {}
    for archived, exit_record in folder.archived_ends(set(numbers)):
        key, ago = archived.task.key, seconds_ago(exit_record)
        end = msgspec.structs.replace(archived, ago=ago, sent=since_boot())
        if end.outcome is Outcome.FINISHED:
            finished.append(end)
        else:
            last[key.number, key.job] = end
    return (*finished, *last.values())
