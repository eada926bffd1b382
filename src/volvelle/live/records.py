"""Records: what the controller learns in a cycle and the scheduler is not told.

They are stored beside the events and the decision of the cycle. From all three together follows which attempt
occupies which GPU.
"""

import msgspec

from volvelle.live.messages import AttemptEnded, AttemptStarted


class NodeDrained(msgspec.Struct, frozen=True, tag="node-drained"):
    """An operator has drained a node, or (``drained`` False) resumed it."""

    name: str
    drained: bool


class AttemptLostNode(msgspec.Struct, frozen=True, tag="attempt-lost-node"):
    """An attempt has lost one of its nodes; on its other nodes it may still run for a while."""

    number: int
    attempt: int
    node: str


ControlRecord = AttemptStarted | AttemptEnded | AttemptLostNode | NodeDrained
