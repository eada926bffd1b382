"""Recovery: rebuilds the controller state from the store: the latest snapshot and the entries after it.

Decisions hold; unconfirmed orders are sent again when their nodes join.

Whether an order was carried out meanwhile, nodes report when they join (`volvelle.live.control.reports`). No
running job is touched.
"""

from dataclasses import dataclass

import msgspec
from pydantic import ValidationError

from volvelle.core.composition import Composition, WrittenComposition
from volvelle.core.events import Event, JobSubmitted, NodeChanged, Recomposed
from volvelle.core.journal import Entry, Header
from volvelle.core.parts import admissions
from volvelle.core.policy import policies
from volvelle.core.scheduler import Scheduler
from volvelle.live.control.composition_checks import check_composition, check_partition
from volvelle.live.control.snapshots import ControllerSnapshot, read_snapshot
from volvelle.live.control.state import ControllerState
from volvelle.live.forecasts.calibration import ForecastCalibration, PastForecast
from volvelle.live.job_request import JobRequest
from volvelle.live.messages import attempt_identity
from volvelle.live.records import ProfileQueued
from volvelle.live.scheduler_queries import job_numbers
from volvelle.live.status.view import JobState
from volvelle.live.store import CycleBatch, JobRecord, Store, StoredEntry, StoreFailed
from volvelle.model.cluster import NodeState
from volvelle.model.node import Node
from volvelle.model.problems import Problem
from volvelle.model.validation import describe_validation

_CALIBRATION_JOBS = 1000
"""Finished jobs from which the calibration is restored."""


@dataclass
class Recovered:
    """The state, and sentences on what is not as usual.

    substituted: the policy or the admission that the journal names cannot be read, so that another decides.
    """

    state: ControllerState
    notices: list[str]
    substituted: bool = False


def recover_state(store: Store, header: Header, now: float) -> Recovered:
    """The state in ``store``, or a new one for ``header`` that begins ``now`` (since the Unix epoch).

    Raises `Problem` if the header's composition cannot schedule real jobs, or the store is damaged.
    """
    check_composition(header.cluster, header.composition)
    check_partition(header.whole)
    stored = store.header()
    if stored is None:
        store.begin(header, now)
        return Recovered(ControllerState(header, now), [])
    recovered = _Recovery(store, header.composition, *stored).run()
    for job in recovered.state.jobs.values():
        job.recall_forecast(now)
    return recovered


def restore_calibration(store: Store, state: ControllerState) -> ForecastCalibration:
    """The forecast calibration from the stored first forecasts and what became of them."""
    past, epoch = [], state.epoch
    finished = store.jobs.list_latest(states=[JobState.FINISHED.value], limit=_CALIBRATION_JOBS)
    for record in [*finished, *store.jobs.list_unfinished()]:
        if (finish := record.forecast_finish) is None:
            continue
        gpus, estimate = (record.request.get(name) for name in ("gpus", "estimate"))
        live = state.jobs.get(record.number)
        started = live.first_started if live else (record.status or {}).get("first_started")
        past.append(
            PastForecast(
                record.number,
                submitted=record.submitted - epoch,
                finish=finish - epoch,
                width=gpus or 1.0,
                service=estimate or finish - record.submitted,
                start=_since(epoch, record.forecast_start),
                started=_since(epoch, started),
                ended=_since(epoch, record.ended),
            )
        )
    calibration = ForecastCalibration()
    calibration.replay(past)
    return calibration


def _since(epoch: float, date: float | None) -> float | None:
    return None if date is None else date - epoch


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


class _Recovery:
    """Rebuilds the state of ``store``, whose journal has ``header`` and ``epoch``.

    configured: parts that take the place of a policy or an admission that cannot be read.
    """

    def __init__(
        self, store: Store, configured: WrittenComposition, header: Header, epoch: float
    ) -> None:
        self._store = store
        self._configured = configured
        self._header = header
        self._epoch = epoch
        self._notices: list[str] = []
        self._substituted: set[str] = set()
        self._unfinished = {record.number: record for record in store.jobs.list_unfinished()}
        self._requests: dict[bytes, JobRequest] = {}

    def run(self) -> Recovered:
        """The state."""
        try:
            state = self._from_snapshots() or self._from_the_start()
        except Problem as problem:
            said = "; ".join([_message(problem), *self._notices])
            raise Problem(said, mend=problem.mend) from problem
        self._check(state)
        return Recovered(state, self._notices, bool(self._substituted))

    def _from_snapshots(self) -> ControllerState | None:
        """The state from the latest snapshot that can be used; None if there is none."""
        for seq in self._store.snapshots.seqs():
            try:
                stored = self._store.snapshots.read(seq)
                state = self._read(read_snapshot(stored))
            except (Problem, StoreFailed) as problem:
                self._notices.append(
                    f"the snapshot of entry {seq:,} is not used: {_message(problem)}"
                )
                continue
            if not self._replay(state, follow=bool(self._substituted)):
                # A state shares attempts with the snapshot it was made from: read it again.
                state = self._read(read_snapshot(stored), remember=False)
                self._replay(state, follow=True)
            return state
        return None

    def _read(self, snapshot: ControllerSnapshot, *, remember: bool = True) -> ControllerState:
        """The state in a snapshot, with those of its jobs that are not over by now."""
        composition = self._composition(snapshot.policy, snapshot.admission)
        state, forgetful = snapshot.state(self._header, self._epoch, composition, remember=remember)
        if remember and forgetful and not self._substituted:
            self._notices.append(f"{' and '.join(forgetful)} cannot remember what was before")
        for number, memory in snapshot.jobs.items():
            if (record := self._unfinished.get(number)) is not None:
                state.add_job(record, self._request(record))
                job = state.jobs[number]
                job.remember(memory)
                job.submitted = snapshot.submitted.get(number, job.submitted)
        return state

    def _from_the_start(self) -> ControllerState:
        follow = self._header.pruned is not None
        if follow:
            self._notices.append(
                "the journal is pruned: what it says was decided holds, and the policy cannot remember "
                "what was before"
            )
        while True:
            written = self._header.composition
            composition = self._composition(written.policy, written.admission)
            scheduler = self._header.scheduler(composition)
            state = ControllerState(self._header, self._epoch, scheduler)
            follow = follow or bool(self._substituted)
            if self._replay(state, follow=follow):
                return state
            follow = True

    def _composition(self, policy: str, admission: str) -> Composition:
        """The parts that the journal names, and those of the configuration where they cannot be read."""
        written = msgspec.structs.replace(
            self._header.composition, policy=policy, admission=admission
        )
        for part, registry in (("policy", policies), ("admission", admissions)):
            try:
                registry.make(getattr(written, part))
            except Problem as problem:
                named, instead = getattr(written, part), getattr(self._configured, part)
                written = msgspec.structs.replace(written, **{part: instead})
                self._substitute(part, named, instead, problem)
        return written.build()

    def _substitute(self, part: str, named: str, instead: str, problem: Problem) -> None:
        if named not in self._substituted:
            self._notices.append(
                f"{part} {named!r} of the journal cannot be read ({_message(problem)}); "
                f"what it decided holds, and {instead!r} decides from now on"
            )
        self._substituted.add(named)

    def _check(self, state: ControllerState) -> None:
        """Raise `Problem` where the journal and the table of jobs are not of each other."""
        known = set(job_numbers(state.scheduler))
        if state.partition is not None:
            known |= state.partition.jobs.keys()
        odd = known ^ self._unfinished.keys()
        if odd:
            number = min(odd)
            where, not_where = "the journal", "the table of jobs"
            if number in self._unfinished:
                where, not_where = not_where, where
            raise Problem(
                f"the store {self._store.where} is damaged: job {number} is in {where} and not in "
                f"{not_where}",
                mend="put a backup in its place, or begin a new store",
            )

    def _request(self, record: JobRecord) -> JobRequest:
        """The submission; jobs of an array share it."""
        written = msgspec.msgpack.encode(record.request)
        if (request := self._requests.get(written)) is None:
            try:
                request = JobRequest.model_validate(record.request)
            except ValidationError as error:
                described = describe_validation(error, JobRequest)
                raise Problem(
                    f"job {record.number} of the store {self._store.where} cannot be read: {described}",
                    mend="start the Volvelle that wrote it, or a newer one",
                ) from None
            self._requests[written] = request
        return request

    def _restore(self, state: ControllerState, number: int) -> None:
        """Add an accepted job again, unless it is there already or is over by now."""
        state.next_number = max(state.next_number, number + 1)
        if number not in state.jobs and (record := self._unfinished.get(number)) is not None:
            state.add_job(record, self._request(record))

    def _replay(self, state: ControllerState, *, follow: bool) -> bool:
        """Fold the entries after ``state`` into it. Returns whether the scheduler still decides as it did.

        With ``follow`` it does not decide but follows the journal: its code, or a plugged-in part, has
        changed. All decisions hold; only the policy's own state is lost.
        """
        scheduler = state.scheduler
        for stored in self._store.entries(state.next_seq - 1):
            entry, state.next_seq = stored.entry, stored.seq
            for event in entry.events:
                if isinstance(event, JobSubmitted):
                    self._restore(state, event.number)
            for record_of_cycle in stored.records:
                if isinstance(record_of_cycle, ProfileQueued):
                    self._restore(state, record_of_cycle.number)
                state.apply_record(record_of_cycle, entry.time)
            if follow:
                events = tuple(map(self._readable, entry.events))
                scheduler.follow(entry.time, events, entry.decision)
            elif not _decides_again(scheduler, entry):
                self._notices.append(
                    f"what was decided from entry {stored.seq:,} on would be decided otherwise now: "
                    f"it holds, and {scheduler.composition.policy.name} cannot remember what was before"
                )
                return False
            state.apply_decision(entry.time, entry.events, entry.decision)
        _name_attempts(self._store, state)
        return True

    def _readable(self, event: Event) -> Event:
        """The event; a change to parts that cannot be read as one to those of the configuration."""
        if not isinstance(event, Recomposed):
            return event
        written = self._composition(event.policy, event.admission).written
        return msgspec.structs.replace(event, policy=written.policy, admission=written.admission)


def _name_attempts(store: Store, state: ControllerState) -> None:
    """Give attempts of jobs that are over the identities of these, which a replay does not know."""
    for attempt in state.ledger.attempts.values():
        if attempt.number not in state.jobs and (record := store.jobs.find(attempt.number)):
            attempt.identity = attempt_identity(record.identity, attempt.key.server)


def _decides_again(scheduler: Scheduler, entry: Entry) -> bool:
    """Whether a scheduler decides as an entry says, in whatever words. A part that fails now did not then."""
    try:
        decision = scheduler.handle(entry.time, entry.events)
    except Exception:
        return False
    return decision.without_words() == entry.decision.without_words()


def _message(error: Exception) -> str:
    return str(error.args[0])
