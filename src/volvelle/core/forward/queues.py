"""Jobs in queues, first in, first out, where the policy keeps them so: those that run and those that wait."""

from volvelle.core.compiled import kernel
from volvelle.core.state import *


@kernel
def empty_queues(s: State) -> None:
    """Let nobody be in any queue."""
    queues = s.queues
    for queue in range(len(queues.demand)):
        queues.first[queue] = queues.last[queue] = -1
        queues.demand[queue] = 0.0


@kernel
def join_queue(s: State, row: int) -> None:
    """Let the job in ``row`` be in the queue that the policy names, behind those submitted before it."""
    jobs, queues = s.jobs, s.queues
    queue = s.queue_of(jobs, row, s.rates, s.memory)
    jobs.kind[row] = queue
    before = queues.last[queue]
    while before >= 0 and jobs.number[before] > jobs.number[row]:
        before = jobs.previous[before]
    after = queues.first[queue] if before < 0 else jobs.next[before]
    _link(s, queue, before, row)
    _link(s, queue, row, after)
    queues.demand[queue] += jobs.most[row]


@kernel
def leave_queue(s: State, row: int) -> None:
    """Take the job in ``row`` out of its queue."""
    jobs, queues = s.jobs, s.queues
    queue = jobs.kind[row]
    _link(s, queue, jobs.previous[row], jobs.next[row])
    queues.demand[queue] -= jobs.most[row]
    if queues.first[queue] < 0:  # no rounding of fractions is left
        queues.demand[queue] = 0.0


@kernel
def _link(s: State, queue: int, row: int, after: int) -> None:
    """Let one job come after another; -1: the ends of the queue."""
    if row < 0:
        s.queues.first[queue] = after
    else:
        s.jobs.next[row] = after
    if after < 0:
        s.queues.last[queue] = row
    else:
        s.jobs.previous[after] = row
