"""Reports about nodes: they join with what runs there, can start nothing, or are lost."""

import math

from volvelle.core.events import JobFailed, NodeChanged
from volvelle.live.control.attempt_ends import AttemptEnds
from volvelle.live.control.cycle_changes import CycleChanges
from volvelle.live.control.gpu_ledger import AttemptPhase
from volvelle.live.control.inputs import ControllerStarted
from volvelle.live.control.settlement import Settlement, let_in
from volvelle.live.messages import NodeCondition, NodeJoined, NodeLost, Stop
from volvelle.live.records import ServerBegan, StoreBehind
from volvelle.model.cluster import NodeState


class NodeReports:
    """Ingests the reports about nodes of one cycle."""

    def __init__(self, changes: CycleChanges, ends: AttemptEnds, settlement: Settlement) -> None:
        self._changes, self._state = changes, changes.state
        self._ends, self._settlement = ends, settlement

    def begin(self, started: ControllerStarted) -> None:
        """Let nodes take no new jobs before they join; what runs there runs on."""
        changes, resources = self._changes, self._state.scheduler.resources
        changes.record(ServerBegan(started.identity))
        if started.restored:
            changes.record(StoreBehind(None, self._state.servers.first_number))
        self._state.settling.awaited |= started.nodes
        for node, state in zip(resources.nodes, resources.node_states, strict=True):
            if state is NodeState.UP:
                name = node.name
                problem = (
                    f"node {name!r} has not come back yet since the server started: its jobs run on, and "
                    "no others start there"
                )
                changes.node_problems[name] = problem
                changes.node_events.append(NodeChanged(changes.now, name, NodeState.DRAINING))

    def joined(self, report: NodeJoined) -> None:
        """Let a node take jobs, if it can, and compare what runs there with what should."""
        node, changes = report.node, self._changes
        if self._joins_partition(report):
            return
        resources = self._state.scheduler.resources
        index = resources.index.get(node.name)
        if index is not None and resources.nodes[index].gpus != node.gpus:
            changes.node_problems[node.name] = (
                f"node {node.name!r} has {node.gpus} GPUs, and had {resources.nodes[index].gpus}: "
                "give it another name"
            )
            self._state.settling.forget_node(node.name)
            return
        changes.node_problems[node.name] = self._set_trouble(node.name, report.problem)
        self._reconcile(report)
        drains = report.leaving or node.name in self._state.drained | self._state.troubled
        held = not drains and self._settlement.hold(node.name)
        state = NodeState.DRAINING if drains or held else NodeState.UP
        if changes.node_state(node.name) is not state:
            changes.node_events.append(NodeChanged(changes.now, node.name, state, node))

    def _set_trouble(self, name: str, problem: str) -> str:
        """Note whether a node can start jobs. Returns the problem as it is shown."""
        (self._state.troubled.add if problem else self._state.troubled.discard)(name)
        return problem and f"node {name!r} takes no new jobs: {problem}"

    def condition(self, report: NodeCondition) -> None:
        """Set a node aside while it can start nothing, and let it in again."""
        changes, partition = self._changes, self._state.partition
        mine = None if partition is None else partition.node(report.name)
        before = changes.node_state(report.name)
        if mine is None and before in (None, NodeState.DOWN):
            return
        changes.node_problems[report.name] = self._set_trouble(report.name, report.problem)
        if not report.problem:
            if report.name not in self._state.settling.held:
                let_in(changes, report.name)
        elif mine is not None:
            mine.since = math.inf
        elif before is NodeState.UP:
            changes.node_events.append(NodeChanged(changes.now, report.name, NodeState.DRAINING))

    def _joins_partition(self, report: NodeJoined) -> bool:
        """Whether a node that joined is one on which jobs are profiled, which the scheduler does not know."""
        partition, node = self._state.partition, report.node
        mine = None if partition is None else partition.node(node.name)
        if partition is None or mine is None:
            return False
        problem = ""
        if node.gpus != mine.gpus:
            problem = f"node {node.name!r} has {node.gpus} GPUs, and {mine.gpus:g} are profiled on"
        problem = problem or self._set_trouble(node.name, report.problem)
        self._changes.node_problems[node.name] = problem
        self._reconcile(report)
        closed = problem or report.leaving or self._settlement.hold(node.name)
        mine.since = math.inf if closed else 0.0
        return True

    def _reconcile(self, report: NodeJoined) -> None:
        """Compare the attempts on a node with those that should be there, and order what differs."""
        ledger, orders = self._state.ledger, self._changes.orders
        self._state.settling.forget_node(report.node.name)
        self._settlement.compare_journals(report)
        for key in report.attempts:
            attempt = ledger.current(key)
            if attempt is None:
                self._settlement.reconcile_unknown(key, report.node.name)
            elif not attempt.wanted:
                orders.append(attempt.stop)
            elif attempt.phase is AttemptPhase.STARTING:  # it runs, and that was not stored
                self._state.settling.there.add(key)
                if not self._state.servers.settling:
                    orders.append(self._state.start_order(attempt))
        for attempt in ledger.attempts_on(report.node.name):
            if attempt.key in report.attempts:
                continue
            if self._state.servers.settling:  # it may have ended in what the store has lost
                self._state.settling.missing.setdefault(attempt.key, set()).add(report.node.name)
            else:
                again = self._state.unconfirmed_order(attempt)
                orders.append(again or Stop(*attempt.key, kill=True))
        if report.keeps_ends:
            self._state.settling.untold[report.node.name] = False

    def lost(self, report: NodeLost) -> None:
        """End the attempts on a node that is lost, and the grants of its GPUs."""
        changes, ledger = self._changes, self._state.ledger
        partition = self._state.partition
        mine = None if partition is None else partition.node(report.name)
        self._state.settling.forget_node(report.name)
        if mine is not None:
            mine.since = math.inf
        elif changes.node_state(report.name) is None:
            return
        changes.node_problems[report.name] = self._set_trouble(report.name, "")
        lost_slots = ledger.slots_of(report.name)
        reason = f"node {report.name} was lost: {report.reason}"
        for attempt in ledger.attempts_on(report.name):
            self._ends.lose(attempt, report.name, lost_slots, reason, report.ago)
        for grant in list(ledger.pending.values()):
            if not lost_slots.isdisjoint(grant.slots):
                failure = JobFailed(
                    changes.now, grant.number, grant.scheduler_attempt, grant.work, 0.0, reason
                )
                changes.job_events.append(failure)
        if mine is None and changes.node_state(report.name) is not NodeState.DOWN:
            changes.node_events.append(NodeChanged(changes.now, report.name, NodeState.DOWN))
