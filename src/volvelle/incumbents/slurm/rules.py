"""The rules of a controller: what its configuration says of passes, preemption and limits."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from volvelle.incumbents.slurm.choosing import Demands
from volvelle.incumbents.slurm.fair_share import Weights
from volvelle.incumbents.slurm.shapes import Hardware
from volvelle.incumbents.slurm.site import Qos, Site
from volvelle.incumbents.slurm.text import duration
from volvelle.model.problems import Problem


@dataclass(eq=False)
class Rules:
    """Constants of a controller: the site, its nodes by number, and how its scheduler was told to work.

    kinds: of each node, where a job has to keep to nodes of one kind.
    """

    site: Site
    kinds: Sequence[int] | None = None

    def __post_init__(self) -> None:
        site = self.site
        self.hardware = Hardware(site.nodes, self.kinds)
        self.demands = Demands(self.hardware)
        self.weights = Weights(site)
        self.partitions = {one.name: one for one in site.partitions}
        self.partition_number = {name: at for at, name in enumerate(self.partitions)}
        masks = [self.hardware.mask(one.nodes) for one in self.partitions.values()]
        self.partition_nodes = np.array(masks, dtype=np.bool_).reshape(len(masks), -1)
        self.tiers = np.array([one.tier for one in self.partitions.values()], dtype=np.int64)
        self.qos: Mapping[str, Qos] = {one.name: one for one in site.qos}
        self.usual_qos = {(one.account, one.user): one.default_qos for one in site.associations}
        config = site.config
        self.preempts_by = config.text("PreemptType", "preempt/none").rpartition("/")[2]
        self.preempt_modes = config.words("PreemptMode")
        for mode in sorted(self.preempt_modes & {"GANG", "SUSPEND"}):
            if self.preempts_by != "none":
                raise Problem(
                    f"PreemptMode {mode} is not modelled: two jobs would share nodes in turn",
                    mend="look at a site with REQUEUE or CANCEL",
                )
        self.exempt = duration(config.text("PreemptExemptTime")) or 0.0
        number = config.scheduler_number
        self.backfills = "backfill" in config.text("SchedulerType", "sched/backfill")
        self.backfill_interval = max(number("bf_interval", 30.0), 1.0)
        self.resolution = max(number("bf_resolution", 60.0), 1.0)
        self.backfill = (
            self.resolution,
            number("bf_window", 1440.0) * 60.0,
            number("bf_max_job_test", 500),
            number("bf_max_job_user", 0),
            number("bf_max_job_part", 0),
            number("bf_max_job_array_resv", 20),
        )
        """The numbers of a `slots.Plan`, without the time."""
        self.main_interval = max(number("sched_interval", 60.0), 1.0)
        self.main_depth = int(number("default_queue_depth", 100))
        self.reorders = int(number("preempt_reorder_count", 1))
        flags = config.scheduler_parameters
        self.strict_order = "preempt_strict_order" in flags
        self.youngest_first = "preempt_youngest_first" in flags
        self.limit_stops = "assoc_limit_stop" in flags
        self.up = np.array([node.usable for node in site.nodes], dtype=np.bool_)
        self.numbers: dict[Hashable, int] = {}
        """Numbers of users and arrays, in the order in which they were met."""
        self.associations: dict[tuple[str, str], int] = {}
        """Numbers of accounts' users, likewise."""
        self.classes: list[tuple[str, str]] = []
        self.stops = np.zeros((0, 0), dtype=np.bool_)
        """Which classes of jobs may stop which."""
        self.may_stop = np.zeros(0, dtype=np.bool_)
        """Which classes may stop any."""

    def number(self, of: Hashable) -> int:
        """The number of what passes count by."""
        return self.numbers.setdefault(of, len(self.numbers))

    def association(self, account: str, user: str) -> int:
        """The number of an account's user."""
        return self.associations.setdefault((account, user), len(self.associations))

    def class_of(self, qos: str, partition: str) -> int:
        """The number of a QOS in a partition, by which preemption goes."""
        if (qos, partition) not in self.classes:
            self.classes.append((qos, partition))
        return self.classes.index((qos, partition))

    def exempt_seconds(self, qos: str) -> float:
        """Seconds for which a job of a QOS runs before it is stopped for others."""
        own = self.qos.get(qos)
        return self.exempt if own is None or own.exempt_seconds is None else own.exempt_seconds
