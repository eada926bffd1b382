"""Slurm's scheduler as a policy: it decides as slurmctld would, with the site's own configuration."""

from collections.abc import Iterable, Mapping
from typing import ClassVar, NamedTuple

import numpy as np
from pydantic import Field, PrivateAttr

from volvelle.core.policy import Allocation, Policy, policies
from volvelle.core.state import INFINITY, Reason
from volvelle.core.view import View
from volvelle.incumbents.slurm.controller import FOREVER, Controller, Rules
from volvelle.incumbents.slurm.files import site_of_files
from volvelle.incumbents.slurm.passes import backfill_pass, main_pass
from volvelle.incumbents.slurm.reasons import explained
from volvelle.incumbents.slurm.records import dependencies, entry_of, job_of_spec, on_nodes
from volvelle.incumbents.slurm.site import Job, Site


class Past(NamedTuple):
    """What is known of the time before a policy's first pass.

    until: when the first pass may happen. calculated: when priorities were worked out last. usage: of
    associations at that time, by (account, user).
    """

    until: float
    calculated: float
    usage: Mapping[tuple[str, str], float]


NO_GPUS = "(no GPUs)"
"""A node that is not there: jobs without GPUs hold one slot of it each, since the core counts GPUs."""


@policies.register
class Slurm(Policy):
    """Slurm's main and backfill scheduler with a site's partitions, QOS, limits and priorities."""

    name: ClassVar[str] = "slurm"
    source: ClassVar[str] = "Slurm's documentation; measured against Slurm 26.05"
    time_varying: ClassVar[bool] = True
    work_conserving: ClassVar[bool] = False
    needs_durations: ClassVar[bool] = False

    config: str = Field("", description="the site's slurm.conf, or what scontrol show config says")
    accounts: str = Field("", description="what sacctmgr dump wrote: accounts, shares, limits, QOS")
    jobs: str = Field("", description="sacct --parsable2: partition, QOS and nodes of each job")

    _rules: Rules | None = PrivateAttr(None)
    _records: Mapping[str, Job] = PrivateAttr(default_factory=dict)
    _controller: Controller | None = PrivateAttr(None)
    _past: Past | None = PrivateAttr(None)
    _quiet_until: float = PrivateAttr(-INFINITY)
    _next_main: float = PrivateAttr(-INFINITY)
    _next_backfill: float = PrivateAttr(-INFINITY)

    @classmethod
    def of(cls, site: Site, jobs: Iterable[Job] = (), past: Past | None = None) -> "Slurm":
        """The scheduler of a site. Raises `Problem` for what is not modelled.

        jobs: what Slurm says of jobs, by whose keys the core knows them; those that run are on their nodes
        already. past: what is known of the time before the first pass.
        """
        policy = cls()
        rules = policy._rules = Rules(site)
        policy._records = {job.key: job for job in jobs}
        if past is not None:
            policy._past, policy._quiet_until = past, past.until
            policy._next_main = past.until
            policy._next_backfill = past.until + rules.backfill_interval / 2.0
        return policy

    @property
    def chooses_nodes(self) -> bool:
        """Always."""
        return True

    def fork(self) -> "Slurm":
        """A copy of the controller's state; the site is shared."""
        copy = self.model_copy()
        if self._controller is not None:
            copy._controller = self._controller.fork()
        return copy

    # ------------------------------------------------------------------ decisions

    def allocate(self, view: View) -> Allocation:
        """Run the passes that are due, and say who runs where."""
        controller = self._controller
        if controller is None:
            if self._rules is None:
                self._rules = self._read(view)
            controller = self._controller = Controller(self._rules, view.now)
        controller.now = view.now
        self._follow(view, controller)
        if view.now >= self._quiet_until:
            if self._past is not None:
                controller.begin(self._past.calculated, self._past.usage)
                self._past = None
            controller.recalculate()
            self._schedule(controller)
        return self._allocation(view, controller)

    def _follow(self, view: View, controller: Controller) -> None:
        """Let jobs enter and leave the controller as they did the core."""
        numbers = view.jobs.number.astype(np.int64).tolist()
        for number in controller.entries.keys() - set(numbers):
            controller.leave(number)
        for number in numbers:
            if number in controller.entries or number in controller.cancelled:
                continue
            spec = view.spec(number)
            job = self._records.get(spec.id) or job_of_spec(spec, controller.rules.site)
            after = dependencies(job, self._records)
            entry = entry_of(number, job, controller.rules, view.now, after)
            controller.enter(entry)
            if job.running and view.now < self._quiet_until:
                partition = job.partitions[0]
                controller.hold(entry, partition, on_nodes(entry, controller), view.now)

    def _schedule(self, controller: Controller) -> None:
        rules, now = controller.rules, controller.now
        running = set(controller.running)
        if controller.changed or now >= self._next_main:
            full = now >= self._next_main
            main_pass(controller, len(controller.entries) * 9 if full else rules.main_depth)
            if full:
                self._next_main = now + rules.main_interval
        if rules.backfills and now >= self._next_backfill:
            backfill_pass(controller)
            self._next_backfill = now + rules.backfill_interval
            controller.changed = False
        if set(controller.running) != running:
            controller.changed = True

    def _ask_at(self, controller: Controller) -> float:
        """When the next pass may change something."""
        if controller.now < self._quiet_until:
            return self._quiet_until
        if len(controller.running) == len(controller.entries):
            return INFINITY
        due = min(controller.moments(), default=FOREVER)
        if controller.changed and (controller.running or due < FOREVER):
            due = min(due, self._next_backfill, self._next_main)
        elif controller.running and not controller.rules.weights.basic:
            due = min(due, controller.calculated + controller.rules.weights.period)
        return due if due > controller.now else controller.now + 1.0

    def _allocation(self, view: View, controller: Controller) -> Allocation:
        resources = view.resources
        nodes = np.zeros((len(view.jobs), len(resources.nodes)), dtype=np.int64)
        names = [node.name for node in controller.rules.hardware.nodes]
        place = [resources.index[name] for name in names]
        for number, entry in controller.running.items():
            row = view.jobs.row_of[number]
            for share in entry.shares or ():
                nodes[row, place[share.node]] = round(share.gpus)
            if not nodes[row].any():
                nodes[row, resources.index[NO_GPUS]] = 1
        gpus = nodes.sum(axis=1).astype(np.float64)
        types = np.where(gpus > 0, resources.node_type[np.argmax(nodes > 0, axis=1)], -1)
        reasons = np.where(gpus > 0, 0.0, float(Reason.POLICY))
        return Allocation(
            gpus, types.astype(np.float64), reasons, nodes=nodes, ask_at=self._ask_at(controller)
        )

    def next_wake(self, view: View) -> float | None:
        """As `allocate` says."""
        return None

    def why(self, number: int) -> str:
        """Slurm's reason, and who or what is behind it."""
        if self._controller is None or number not in self._controller.entries:
            return ""
        return explained(self._controller, self._controller.entries[number])

    def _read(self, view: View) -> Rules:
        """The site by its files, or one partition of the cluster where there are none."""

        return Rules(site_of_files(self.config, self.accounts, view.resources.nodes))
