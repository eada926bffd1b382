"""Recovery: rebuilds the controller state from the store. Decisions hold; unconfirmed orders are sent again.

Whether an order was carried out meanwhile, nodes report when they join (`volvelle.live.control.reports`). No
running job is touched.
"""

from collections.abc import Mapping

from volvelle.core.events import JobSubmitted, NodeChanged
from volvelle.core.journal import Entry, Header
from volvelle.live.control.composition_checks import check_composition, check_partition
from volvelle.live.control.state import ControllerState
from volvelle.live.forecasts.calibration import ForecastCalibration
from volvelle.live.job_request import JobRequest
from volvelle.live.messages import attempt_identity
from volvelle.live.records import ProfileQueued
from volvelle.live.status.view import JobState
from volvelle.live.store import CycleBatch, JobRecord, Store, StoredEntry
from volvelle.model.cluster import NodeState
from volvelle.model.node import Node

_CALIBRATION_JOBS = 1000
"""Finished jobs from which the calibration is restored."""


def recover_state(store: Store, header: Header, now: float) -> ControllerState:
    """The state in ``store``, or a new one for ``header`` that begins ``now`` (since the Unix epoch).

    Raises `Problem` if the header's composition cannot schedule real jobs.
    """
    check_composition(header.cluster, header.composition)
    check_partition(header.whole)
    stored = store.header()
    if stored is None:
        store.begin(header, now)
        return ControllerState(header, now)
    state = ControllerState(*stored)
    if not _replay(store, state, follow=False):
        state = ControllerState(*stored)
        _replay(store, state, follow=True)
    _name_attempts(store, state)
    return state


def _name_attempts(store: Store, state: ControllerState) -> None:
    """Give attempts of jobs that are over the identities of these, which a replay does not know."""
    for attempt in state.ledger.attempts.values():
        if attempt.number not in state.jobs and (record := store.jobs.find(attempt.number)):
            attempt.identity = attempt_identity(record.identity, attempt.key.server)


def restore_calibration(store: Store, state: ControllerState) -> ForecastCalibration:
    """The forecast calibration from the stored first forecasts and their errors."""
    calibration = ForecastCalibration()
    finished = store.jobs.list_latest(states=[JobState.FINISHED.value], limit=_CALIBRATION_JOBS)
    for record in reversed(finished):
        if record.forecast_finish is not None and record.ended is not None:
            submitted = record.submitted
            calibration.learn(record.forecast_finish - submitted, record.ended - submitted)
            calibration.judge((record.promised_p50, record.promised_p90), record.ended)
    for job in state.jobs.values():
        if job.forecast_finish is not None:
            submitted, finish = job.submitted - state.epoch, job.forecast_finish - state.epoch
            told = [
                None if each is None else each - state.epoch
                for each in (job.promised, job.promised_p90)
            ]
            calibration.add_first_forecast(job.number, submitted, finish, told)
    return calibration


def first_batch(state: ControllerState) -> CycleBatch:
    """The first journal entry: no node is up until it joins."""
    events = tuple(
        NodeChanged(0.0, node.name, NodeState.DOWN) for node in state.header.cluster.nodes
    )
    decision = state.scheduler.handle(0.0, events)
    entry = StoredEntry(state.next_seq, Entry(0.0, events, decision))
    state.apply_decision(0.0, events, decision)
    return CycleBatch(entry)


def expected_nodes(state: ControllerState) -> tuple[Node, ...]:
    """The nodes that were up, or on which an attempt may run whose end was not reported."""
    resources, ledger = state.scheduler.resources, state.ledger
    up = zip(resources.nodes, resources.node_states, strict=True)
    states = [*up, *((node, NodeState.DOWN) for node in ledger.partition)]
    return tuple(
        node
        for node, node_state in states
        if state.next_seq and (node_state is not NodeState.DOWN or ledger.attempts_on(node.name))
    )


def _restore(state: ControllerState, number: int, unfinished: Mapping[int, JobRecord]) -> None:
    """Add an accepted job again, unless it is there already or is over by now."""
    state.next_number = max(state.next_number, number + 1)
    if number not in state.jobs and (record := unfinished.get(number)) is not None:
        state.add_job(record, JobRequest.model_validate(record.request))


def _replay(store: Store, state: ControllerState, *, follow: bool) -> bool:
    """Fold the journal into ``state``. Returns whether the scheduler still decides as it did then.

    With ``follow`` the scheduler does not decide but follows the journal: its code, or a plugged-in part, has
    changed. All decisions hold; only the policy's own state is lost.
    """
    scheduler = state.scheduler
    unfinished = {record.number: record for record in store.jobs.list_unfinished()}
    for stored in store.entries():
        entry = stored.entry
        for event in entry.events:
            if isinstance(event, JobSubmitted):
                _restore(state, event.number, unfinished)
        for record_of_cycle in stored.records:
            if isinstance(record_of_cycle, ProfileQueued):
                _restore(state, record_of_cycle.number, unfinished)
            state.apply_record(record_of_cycle, entry.time)
        if follow:
            scheduler.follow(entry.time, entry.events, entry.decision)
        elif scheduler.handle(entry.time, entry.events) != entry.decision:
            return False
        state.apply_decision(entry.time, entry.events, entry.decision)
    return True
