"""Jobs with a GPU on a draining node are pinned: they stay until they end."""

import numpy as np

from volvelle.core.resources import Resources
from volvelle.core.state import PINNED, SHARED, State
from volvelle.core.view import rows_by_submission
from volvelle.model.arrays import FloatColumn


def pin(s: State, resources: Resources, capacity: FloatColumn) -> None:
    """Pin jobs to draining nodes; GPUs that they hold there are added to ``capacity``, by type, in place."""
    pinned: set[int] = set()
    up, owner = resources.schedulable, resources.owner
    for slot in np.flatnonzero(~up[resources.slot_node] & (owner >= 0)).tolist():
        capacity[resources.node_type[resources.slot_node[slot]]] += 1
        pinned.add(int(owner[slot]))
    for row in rows_by_submission(s):
        number, slot = int(s.jobs.number[row]), int(s.jobs.slot[row])
        if slot >= 0 and owner[slot] == SHARED and not up[resources.slot_node[slot]]:
            capacity[int(s.jobs.type[row])] += s.jobs.held[row]
            pinned.add(number)
        s.jobs.pinned[row] = float(number in pinned)
    s.count[PINNED] = len(pinned)
