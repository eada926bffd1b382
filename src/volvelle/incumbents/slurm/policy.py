"""Slurm's scheduler as a policy: it decides as slurmctld would, with the site's own configuration."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from pydantic import Field, PrivateAttr

from volvelle.core.columns import NUMBER, TYPES
from volvelle.core.policy import Allocation, Kernel, Policy, policies
from volvelle.core.view import View
from volvelle.incumbents.slurm import plain, plain_memory
from volvelle.incumbents.slurm.controller import CANCELLED, RUNS, UNKNOWN, WAITS, Controller
from volvelle.incumbents.slurm.entries import Entry
from volvelle.incumbents.slurm.files import requests_at, site_of
from volvelle.incumbents.slurm.passes import next_due, run_due
from volvelle.incumbents.slurm.priorities import Past
from volvelle.incumbents.slurm.reasons import explained
from volvelle.incumbents.slurm.records import dependencies, entry_of, job_of_spec, on_nodes
from volvelle.incumbents.slurm.rules import Rules
from volvelle.incumbents.slurm.shapes import GPUS, Share
from volvelle.incumbents.slurm.site import Site
from volvelle.incumbents.slurm.snapshot import Job
from volvelle.model.arrays import Floats, Ints

NO_GPUS = "(no GPUs)"
"""A node that is not there: jobs without GPUs hold one slot of it each, since the core counts GPUs."""

_COMPILED_FROM = 18_000
"""Jobs of which asking Python costs as much as compiling the kernel, 17 s of CPU time."""


@dataclass(eq=False)
class _Memory:
    """The controller, and what it is made of.

    given: whether the site was given as such. dated: whether reservations of the trace's time are in the
    controller. place: how many nodes the core knows, and its numbers for those of the site.
    """

    rules: Rules | None = None
    given: bool = False
    records: Mapping[str, Job] = field(default_factory=dict)
    past: Past | None = None
    controller: Controller | None = None
    dated: bool = False
    place: tuple[int, Ints] = (-1, np.zeros(0, dtype=np.int64))

    def places(self, view: View, controller: Controller) -> Ints:
        """The numbers that the core has for the nodes of the site."""
        known = len(view.resources.nodes)
        if self.place[0] != known:
            index = view.resources.index
            found = [index[node.name] for node in controller.rules.hardware.nodes]
            self.place = known, np.array(found, dtype=np.int64)
        return self.place[1]


@policies.register
class Slurm(Policy):
    """Slurm's main and backfill scheduler with a site's partitions, QOS, limits and priorities."""

    name: ClassVar[str] = "slurm"
    source: ClassVar[str] = "Slurm's documentation; measured against Slurm 26.05"
    time_varying: ClassVar[bool] = True
    work_conserving: ClassVar[bool] = False
    needs_durations: ClassVar[bool] = False
    incumbent: ClassVar[bool] = True
    whole_gpus: ClassVar[bool] = True
    gangs: ClassVar[bool] = True
    columns: ClassVar[int] = 2

    site: str = Field(
        "",
        description="the site: site.toml, slurm.conf or a folder of what Slurm's commands say;"
        " empty: one partition, first come",
    )

    jobs: str = Field(
        "",
        description="a table of sacct with JobIDRaw, JobID, Submit, Eligible, Reservation, ReqTRES and"
        " SubmitLine: throttles of arrays, licences and reservations of a trace's jobs",
    )

    reservations: str = Field(
        "",
        description="a table of sacctmgr show reservation with Name, TimeStart, TimeEnd and NodeName:"
        " the reservations of a trace's time, by the clock of jobs=",
    )

    _memory: _Memory = PrivateAttr(default_factory=_Memory)
    _plain: Floats = PrivateAttr(default_factory=plain_memory.begin)
    """See `volvelle.incumbents.slurm.plain_memory`."""

    @classmethod
    def of(cls, site: Site, jobs: Iterable[Job] = (), past: Past | None = None) -> "Slurm":
        """The scheduler of a site. Raises `Problem` for what is not modelled.

        jobs: what Slurm says of jobs, by whose keys the core knows them; those that run are on their nodes
        already. past: what is known of the time before the first pass.
        """
        policy = cls()
        records = {job.key: job for job in jobs}
        policy._memory = _Memory(Rules(site), given=True, records=records, past=past)
        return policy

    @property
    def chooses_nodes(self) -> bool:
        """Always."""
        return True

    def fork(self) -> "Slurm":
        """A copy with a controller of its own; the site is shared."""
        other, memory = self.model_copy(), self._memory
        controller = memory.controller and memory.controller.fork()
        other._memory = replace(memory, controller=controller)
        other._plain = self._plain.copy()
        return other

    # ------------------------------------------------------------------ decisions

    def kernel(self, *, named: bool) -> Kernel | None:
        """Decisions for a site that is not described; `allocate` makes all others, and all that follow."""
        asked = self._plain[plain_memory.STATE] == plain_memory.PYTHONS
        if self.site or self.jobs or self._memory.given or asked:
            return None
        return Kernel(
            plain.decide,
            self._plain,
            rates=False,
            yields=True,
            names_nodes=True,
            compiled_from=_COMPILED_FROM,
        )

    def refresh(self, view: View) -> tuple[str, ...] | None:
        """Describe the cluster to the kernel before its first decision; all later ones are `allocate`'s."""
        if self._plain[plain_memory.STATE] != plain_memory.CLOSED or np.count_nonzero(
            view.jobs.held
        ):
            return None
        self._plain = plain_memory.opened(self._rules(view), view)
        return ()

    def allocate(self, view: View) -> Allocation:
        """Run the passes that are due, and say who runs where."""
        memory = self._memory
        controller, past = self._current(view, memory), memory.past
        if self._plain[plain_memory.STATE] == plain_memory.KERNELS:
            self._take_over(view, memory, controller)
        self._plain[plain_memory.STATE] = plain_memory.PYTHONS
        controller.now = view.now
        place = memory.places(view, controller)
        numbers, held = view.jobs.number.astype(np.int64), view.jobs.held
        self._follow(view, memory, controller, numbers, held)
        if past is not None and view.now >= past.until:
            controller.begin(past)
            memory.past = past = None
        if past is None:
            controller.recalculate()
            run_due(controller)
        ask_at = next_due(controller) if past is None else past.until
        return _allocation(view, controller, place, numbers, held)._replace(ask_at=ask_at)

    def _rules(self, view: View) -> Rules:
        """The rules of the site that is described, or of the simulated cluster."""
        resources, quotas = view.resources, dict(zip(view.pools, view.quota.tolist(), strict=True))
        site = site_of(self.site, resources.nodes, quotas)
        kinds = [int(resources.node_type[resources.index[node.name]]) for node in site.nodes]
        return Rules(site, kinds)

    def _take_over(self, view: View, memory: _Memory, controller: Controller) -> None:
        """Go on where the kernel has decided, unless nodes have joined since."""
        site = plain_memory.parts_of(self._plain)
        if len(site.up) != len(view.resources.nodes):
            return
        jobs = view.jobs.matrix
        plain_memory.follow(jobs, view.resources.schedulable.astype(np.float64), site)
        for row in np.argsort(jobs[plain_memory.TURN], kind="stable").tolist():
            number, types = jobs[[NUMBER, TYPES], row].astype(np.int64).tolist()
            self._enter(view, memory, controller, number, types)
        for number, (start, shares) in plain_memory.holdings(site).items():
            entry = controller.entries[number]
            controller.hold(entry, entry.partitions[0].name, shares, start)
        controller.free, controller.up = site.free.copy(), site.up > 0.0
        controller.next_main, controller.next_backfill, changed = site.head[
            plain_memory.PASSES
        ].tolist()
        controller.changed = changed == 1.0

    def _current(self, view: View, memory: _Memory) -> Controller:
        """The controller; a new one where the site is the simulated cluster, and nodes have joined it."""
        nodes, rules = view.resources.nodes, memory.rules
        if rules is None or (not memory.given and len(nodes) > len(rules.hardware.nodes)):
            memory.rules = rules = self._rules(view)
            memory.given, memory.dated, memory.controller = bool(self.site), False, None
        if memory.controller is None:
            memory.controller = Controller.of(rules, view.now)
            if memory.past is not None:
                memory.controller.next_main = memory.past.until
                half = rules.backfill_interval / 2.0
                memory.controller.next_backfill = memory.past.until + half
        return memory.controller

    def _follow(
        self, view: View, memory: _Memory, controller: Controller, numbers: Ints, held: Floats
    ) -> None:
        """Let jobs enter and leave, start and stop as they did in the core, where they hold so many GPUs."""
        resources, rules = view.resources, controller.rules
        place = memory.places(view, controller)
        up = rules.up & resources.schedulable[place]
        if np.count_nonzero(up != controller.up):
            controller.changed, controller.up = True, up
        states = controller.states(numbers)
        rows = (states != np.where(held > 0.0, RUNS, WAITS)).nonzero()[0].tolist()
        strange = sum(int(states[row]) in (UNKNOWN, CANCELLED) for row in rows)
        if len(numbers) - strange < len(controller.entries):
            for number in sorted(controller.entries.keys() - set(numbers.tolist())):
                controller.leave(number)
        rows = [row for row in rows if states[row] != CANCELLED]
        if not rows:
            return
        types = view.jobs.column("types")
        for row in rows:
            number = int(numbers[row])
            entry = controller.entries.get(number)
            if entry is None:
                entry = self._enter(view, memory, controller, number, int(types[row]))
                job = entry.job
                if job.running and memory.past is not None:
                    start = min(job.start or view.now, view.now)
                    controller.hold(entry, job.partitions[0], on_nodes(entry, controller), start)
                    continue
            if entry.shares is None and held[row] > 0.0:
                shares = _held(view, controller, row, number)
                controller.hold(entry, entry.partitions[0].name, shares, view.now)
            elif entry.shares is not None and held[row] == 0.0:
                controller.release(entry)
                controller.changed = True

    def _enter(
        self, view: View, memory: _Memory, controller: Controller, number: int, types: int
    ) -> Entry:
        """Let a job be known to the controller that may run on these GPU types, as bits."""
        rules, requests = controller.rules, requests_at(self.jobs, self.reservations)
        spec = view.spec(number)
        recorded, said = memory.records.get(spec.id), requests.jobs.get(spec.id)
        if said is not None and requests.reservations and not memory.dated:
            controller.reserve(requests.reservations, said.submit - spec.submit_time)
            memory.dated = True
        job = recorded or job_of_spec(spec, rules, said)
        entry = entry_of(number, job, rules, view.now, dependencies(job, memory.records))
        node_types = view.resources.node_type[memory.places(view, controller)]
        entry.allowed = (types >> node_types) & 1 == 1
        controller.enter(entry, accepted=recorded is None)
        return entry

    def why(self, number: int) -> str:
        """Slurm's reason, and who or what is behind it."""
        controller = self._memory.controller
        if controller is None or number not in controller.entries:
            return ""
        return explained(controller, controller.entries[number])


def _allocation(
    view: View, controller: Controller, place: Ints, numbers: Ints, gpus: Floats
) -> Allocation:
    """All jobs as they run in the core (``gpus``), but for those that start or are stopped."""
    resources, runs = view.resources, controller.states(numbers) == RUNS
    held = gpus > 0.0
    changed = (runs != held).nonzero()[0].tolist()
    types = np.where(held, view.jobs.column("type"), -1.0)
    places: list[tuple[int, int, int]] = []
    for row in changed:
        if held[row]:
            gpus[row], types[row] = 0.0, -1.0
            continue
        shares = controller.running[int(numbers[row])].shares or ()
        there = sorted(
            (int(place[share.node]), round(share.gpus)) for share in shares if round(share.gpus)
        )
        there = there or [(resources.index[NO_GPUS], 1)]
        gpus[row] = sum(amount for _, amount in there)
        types[row] = resources.node_type[there[0][0]]
        places += [(row, node, amount) for node, amount in there]
    named = np.array(places, dtype=np.int64).reshape(-1, 3).T if resources.named else None
    return Allocation(gpus, types, nodes=named)


def _held(view: View, controller: Controller, row: int, number: int) -> list[Share]:
    """The resources of a job by the core's account: on its nodes, or somewhere on those of its kind."""
    resources, hardware = view.resources, controller.rules.hardware
    if resources.named:
        nodes = resources.slot_node[resources.owner == number]
        there = np.bincount(nodes, minlength=len(resources.nodes)).tolist()
    else:
        kind, left = int(view.jobs.column("type")[row]), float(view.jobs.held[row])
        there = [0.0] * len(resources.nodes)
        for at, node in enumerate(hardware.nodes):
            place = resources.index[node.name]
            if resources.node_type[place] == kind and left > 0.0:
                there[place] = max(min(float(controller.free[GPUS, at]), left), 0.0)
                left -= there[place]
    found = [
        Share(at, 0.0, 0.0, float(there[resources.index[node.name]]))
        for at, node in enumerate(hardware.nodes)
    ]
    return [share for share in found if share.gpus > 0.0]
