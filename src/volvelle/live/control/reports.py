"""Turns reports of executors into events for the scheduler, records, and orders."""

from collections.abc import Container
from typing import assert_never

from volvelle.core.events import JobStarted
from volvelle.live.control.attempt_ends import AttemptEnds
from volvelle.live.control.cycle_changes import CycleChanges
from volvelle.live.control.gpu_ledger import Attempt, AttemptPhase
from volvelle.live.control.node_reports import NodeReports
from volvelle.live.control.progress_reports import ProgressReports
from volvelle.live.control.settlement import Settlement
from volvelle.live.control.settling import FinishedPart
from volvelle.live.messages import (
    AttemptEnded,
    AttemptKey,
    AttemptProgress,
    AttemptStarted,
    EndsTold,
    Forget,
    NodeCondition,
    NodeJoined,
    NodeLost,
    Outcome,
    Report,
    UnknownEnded,
)


class ReportIngestion:
    """Ingests the reports of one cycle.

    uncertain: attempts that started either before or after their nodes were lost.
    """

    def __init__(self, changes: CycleChanges, uncertain: Container[AttemptKey]) -> None:
        self._changes, self._state = changes, changes.state
        self._ends = AttemptEnds(changes, uncertain)
        self._settlement = Settlement(changes, self._ends)
        self._nodes = NodeReports(changes, self._ends, self._settlement)
        self._progress = ProgressReports(changes)
        self.begin, self.settle = self._nodes.begin, self._settlement.settle
        self.steps_fitted = self._progress.steps_fitted

    def ingest(self, report: Report) -> None:
        """Ingest one report."""
        match report:
            case AttemptStarted():
                self._attempt_started(report)
            case AttemptProgress():
                self._attempt_progress(report)
            case AttemptEnded():
                self._attempt_ended(report)
            case UnknownEnded():
                self._unknown_ended(report)
            case EndsTold():
                self._state.settling.untold.pop(report.node, None)
            case NodeJoined():
                self._nodes.joined(report)
            case NodeCondition():
                self._nodes.condition(report)
            case NodeLost():
                self._nodes.lost(report)
            case _:
                assert_never(report)

    def _attempt_started(self, report: AttemptStarted) -> None:
        attempt = self._state.ledger.current(report.key)
        if attempt is not None and attempt.phase is AttemptPhase.STARTING:
            self._record_start(attempt)

    def _record_start(self, attempt: Attempt) -> None:
        changes = self._changes
        changes.record(AttemptStarted(*attempt.key))
        changes.touched.add(attempt.number)
        if not attempt.profiles:
            changes.job_events.append(
                JobStarted(changes.now, attempt.number, attempt.scheduler_attempt, attempt.since)
            )

    def _attempt_progress(self, report: AttemptProgress) -> None:
        attempt = self._state.ledger.current(report.key)
        job = self._state.jobs.get(report.number)
        if attempt is None or job is None:
            return
        if attempt.phase is AttemptPhase.STARTING:
            self._record_start(attempt)
        job.update_progress(report)
        self._changes.touched.add(report.number)
        self._progress.ingest(attempt, job, report)

    def _attempt_ended(self, report: AttemptEnded) -> None:
        self._changes.orders.append(Forget(*report.key))
        self._state.settling.ended(report.key)
        attempt = self._state.ledger.current(report.key)
        if attempt is not None:
            self._ends.end(attempt, report)

    def _unknown_ended(self, report: UnknownEnded) -> None:
        """An attempt that the store does not know of has ended on a node; its job may have finished by it."""
        state = self._state
        self._changes.orders.append(Forget(*report.key))
        state.settling.ended_on(report.node, report.key)
        ours = state.servers.settling and state.is_ours(report.key)
        if ours and report.outcome is Outcome.FINISHED:
            ended = self._changes.now - max(report.ago or 0.0, 0.0)
            part = FinishedPart(report.key, report.nodes, ended)
            state.settling.finished.setdefault(report.number, {})[report.node] = part
