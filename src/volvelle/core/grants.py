"""The last decision on jobs, as far as it is not in their columns."""

from dataclasses import dataclass, field

from volvelle.core.decision import IntArray


@dataclass
class Grants:
    """The last decision on jobs; each value is replaced as a whole, so that copies share them.

    served: rows in the order in which they were served; None: by submission. nodes: GPUs on each node by row,
    where it said so. neighbours: by number, the names of jobs beside which others run on the same GPUs.
    """

    served: list[int] | None = None
    nodes: dict[int, IntArray] = field(default_factory=dict)
    neighbours: dict[int, str] = field(default_factory=dict)
