"""The last decision on jobs, as far as it is not in their columns."""

from dataclasses import dataclass, field


@dataclass
class Grants:
    """The last decision on jobs; each value is replaced as a whole, so that copies share them.

    served: rows in the order in which they were served; None: by submission.
    neighbours: by number, the names of jobs beside which others run on the same GPUs.
    """

    served: list[int] | None = None
    neighbours: dict[int, str] = field(default_factory=dict)
