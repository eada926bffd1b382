"""What the controller took note of in a cycle and the scheduler is not told: it stands beside the events.

Together with the events and the decision of an entry, from these follows who really occupies which GPU.
"""

import msgspec

from volvelle.live.messages import AttemptEnded, AttemptStarted


class Drained(msgspec.Struct, frozen=True, tag="drained"):
    """An operator wants a node to take no new jobs, or (``drained`` False) to take jobs again."""

    name: str
    drained: bool


class Vacated(msgspec.Struct, frozen=True, tag="vacated"):
    """An attempt has lost one of its nodes; on its others it may run on for a while."""

    number: int
    attempt: int
    node: str


Fact = AttemptStarted | AttemptEnded | Vacated | Drained
