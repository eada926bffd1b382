"""Parts of a cluster: pools with quotas, and the partition on which jobs run first."""

import msgspec


class Pool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A share of the cluster with an owner: ``quota`` GPUs.

    lends: what its jobs do not use may be lent to others, and its own jobs may borrow. Otherwise they hold at
    most ``quota`` GPUs at once. weight: its budget under policies that share by budgets, which its jobs
    divide by their own weights; None: each of its jobs has its own, as jobs of no pool.
    """

    name: str
    quota: float
    lends: bool = False
    weight: float | None = None


class Profiling(msgspec.Struct, frozen=True):
    """A partition on which jobs run first, to be measured (Chronus, SoCC'21, section 3.2).

    It is the last ``nodes`` of a cluster. With ``most_nodes`` it takes more from the scheduler's nodes where
    that many jobs come, up to these, and gives them back: looked at every ``resize_every`` seconds. Each job
    runs for ``seconds`` at most. ``user_gpus``: what one user's jobs may request together in each interval of
    so many seconds (None: anything).
    """

    nodes: int
    most_nodes: int | None = None
    seconds: float = 300.0
    resize_every: float = 3600.0
    user_gpus: float | None = None

    @property
    def most(self) -> int:
        """The most nodes it ever has."""
        return self.nodes if self.most_nodes is None else self.most_nodes
