"""The effect of each event on a scheduler.

Nothing is decided here, except that what cannot be served is turned away and what has reached its aim ends.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from volvelle.core.decision import Decision
from volvelle.core.dependencies import block, take_in_dependents
from volvelle.core.entry import (
    admit,
    drop,
    enter,
    give_up_on,
    reject,
)
from volvelle.core.events import (
    UNRECORDED,
    ArrivalsAnnounced,
    BatchSizeChanged,
    Event,
    JobCancelled,
    JobChanged,
    JobFailed,
    JobFinished,
    JobHeld,
    JobReleased,
    JobRequeued,
    JobStarted,
    JobStopped,
    JobSubmitted,
    LossReported,
    NodeChanged,
    ProgressReported,
    Recomposed,
    TrainingReported,
    WakeUp,
)
from volvelle.core.facets import FollowsLoss, FollowsRegimes, ForeseesArrivals
from volvelle.core.forward.advance import note_checkpoint, release_changed
from volvelle.core.forward.expected import drop_stop
from volvelle.core.forward.gpus import hold_slot
from volvelle.core.forward.jobs import give_up, settle, settle_work, stop
from volvelle.core.forward.log import log_event
from volvelle.core.forward.ranking import order_again, queue_up
from volvelle.core.forward.serving import change
from volvelle.core.forward.waiting import wait_no_more
from volvelle.core.limits import end_overrun
from volvelle.core.parts import Belief, KnownJob
from volvelle.core.scheduler_state import SchedulerState
from volvelle.core.state import *
from volvelle.core.user_changes import changed, held, released, requeued


def fold(scheduler: SchedulerState, event: Event) -> None:
    """Let the state follow one event."""
    HANDLERS[type(event)](scheduler, event)


def current_row(scheduler: SchedulerState, number: int, attempt: int) -> int | None:
    """The row of a job whose present run is ``attempt`` (the fence against late news); else None."""
    row, jobs = scheduler.row_of(number), scheduler.state.jobs
    if row is None or jobs.attempt[row] != attempt or jobs.held[row] == 0.0:
        return None
    return row


def _learned_by_kernel(scheduler: SchedulerState, row: int, service: float) -> bool:
    """Whether the policy's kernel learned from the job in ``row`` that it has ended."""
    jobs = scheduler.state.jobs
    kernel = scheduler.composition.policy.kernel(named=scheduler.resources.named)
    if kernel is None or kernel.learn is None:
        return False
    own = np.array([column[row] for column in jobs.floats[COLUMNS:]])
    return kernel.learn(kernel.memory, service, jobs.gpus[row], own)


def complete(scheduler: SchedulerState, row: int, time: float) -> None:
    """Learn from a job that is done, and let it go."""
    jobs, number = scheduler.state.jobs, int(scheduler.state.jobs.number[row])
    spec, held = scheduler.spec(number), float(jobs.held[row])
    last_run = time - float(jobs.started[row]) if held > 0.0 else 0.0
    scheduler.composition.estimator.learn(spec, float(jobs.attained[row]) + last_run)
    service = float(jobs.attained_gpu[row]) + last_run * held
    if not _learned_by_kernel(scheduler, row, service):
        scheduler.composition.policy.learn(spec, service)
    left = float((jobs.total[row] - jobs.done[row]) * jobs.scale[row])
    if held > 0.0 and left > 0.0:
        passed = (time - float(jobs.progress_from[row])) * float(jobs.rate[row])
        scheduler.composition.admission.learn_pace(passed / left)
    scheduler.remember()
    scheduler.admissions.note_end(spec.id, ok=True)
    drop(scheduler, row)


def _submitted(scheduler: SchedulerState, event: JobSubmitted) -> None:
    if reason := scheduler.obstacle(event.spec):
        reject(scheduler, event, reason)
    elif event.spec.after:
        block(scheduler, event)
    else:
        scheduler.admissions.submit(event)


def _started(scheduler: SchedulerState, event: JobStarted) -> None:
    row, jobs = current_row(scheduler, event.number, event.attempt), scheduler.state.jobs
    if row is not None:
        gap = jobs.progress_from[row] - jobs.started[row]
        if jobs.first_start[row] == jobs.started[row]:
            jobs.first_start[row] = event.start
        jobs.started[row] = event.start
        jobs.progress_from[row] = event.start + gap


def _finished(scheduler: SchedulerState, event: JobFinished) -> None:
    """Also of a job that was to stop, or to be held, and was done before it did."""
    number, attempt = event.number, event.attempt
    held = scheduler.admissions.held.get(number)
    if held is not None and not isinstance(held, JobSubmitted) and held.attempt == attempt:
        scheduler.admissions.take(number)
        enter(scheduler, held.values, held.known)
    row = scheduler.row_of(number)
    if row is not None and scheduler.state.jobs.attempt[row] == attempt:
        drop_stop(scheduler.state, number, attempt)
        complete(scheduler, row, event.time)
    elif attempt == UNRECORDED:
        _leave(scheduler, number, ok=True)


def _stopped(scheduler: SchedulerState, event: JobStopped) -> None:
    number = event.number
    drop_stop(scheduler.state, number, event.attempt)
    row, held = scheduler.row_of(number), scheduler.admissions.held.get(number)
    if row is not None:
        note_checkpoint(scheduler.state, row, number, event.work_done)
    elif held is not None and not isinstance(held, JobSubmitted):
        done = held.value("true_done") if scheduler.rules.simulated else event.work_done
        scheduler.admissions.held[number] = held.having({"done": done})


def _failed(scheduler: SchedulerState, event: JobFailed) -> None:
    row = current_row(scheduler, event.number, event.attempt)
    if row is None:
        return
    s, jobs = scheduler.state, scheduler.state.jobs
    jobs.failures[row] += not event.requeued
    failures = int(jobs.failures[row])
    if event.permanent or failures > scheduler.spec(event.number).max_retries:
        spec = scheduler.spec(event.number)
        times = "failed" if failures == 1 else f"failed {failures} times"
        again = "; not tried again" if event.permanent else ""
        give_up_on(scheduler, event.number, spec, f"{times}: {event.reason}{again}")
        drop(scheduler, row)
        return
    settle(s, row, event.time)
    give_up(s, scheduler.rules, row)
    jobs.done[row] = event.work_done
    jobs.curve[row] = -1.0  # it may be back at an earlier batch size
    if _adapt(scheduler, row, event.work_done, None):
        _go_on(scheduler, row, event.work_done)
    jobs.started[row] = scheduler.now
    jobs.reason[row] = float(Reason.ROUND)
    queue_up(s, scheduler.rules, row, scheduler.now)
    s.count[DIRTY] = 1
    if jobs.pinned[row] == 1.0:
        scheduler.count_capacity()


def _cancelled(scheduler: SchedulerState, event: JobCancelled) -> None:
    _leave(scheduler, event.number, ok=False)


def _leave(scheduler: SchedulerState, number: int, *, ok: bool) -> None:
    """A job leaves, wherever it is; nothing is learnt from it. ok: it did all that it was to do."""
    row = scheduler.row_of(number)
    if row is not None:
        spec = scheduler.spec(number)
        drop(scheduler, row)
    elif (dependent := scheduler.admissions.dependents.blocked.pop(number, None)) is not None:
        spec = dependent.event.spec
    elif (held := scheduler.admissions.take(number)) is not None:
        spec = held.spec if isinstance(held, JobSubmitted) else held.known.spec
    elif (submission := scheduler.admissions.withdraw(number)) is not None:
        spec = submission.spec
    else:
        return
    scheduler.admissions.note_end(spec.id, ok=ok)


def _batch_size_changed(scheduler: SchedulerState, event: BatchSizeChanged) -> None:
    row = scheduler.row_of(event.number)
    if row is None:
        return
    jobs = scheduler.state.jobs
    jobs.done[row] = event.work_done
    jobs.progress_from[row] = max(event.time, jobs.progress_from[row])
    _adapt(scheduler, row, event.work_done, event.batch_size)
    _go_on(scheduler, row, event.work_done)
    if jobs.held[row] > 0.0:
        scheduler.beliefs.believe_rate(row)
    _order_again(scheduler, row)


def _adapt(scheduler: SchedulerState, row: int, work_done: float, batch_size: int | None) -> bool:
    """Let the estimator say what it believes of regimes ahead; whether that is news."""
    known = scheduler.known[int(scheduler.state.jobs.number[row])]
    estimator = scheduler.composition.estimator
    if not isinstance(estimator, FollowsRegimes):
        return False
    belief = estimator.adapt(known, work_done, batch_size)
    if belief is None:
        return False
    _believe(scheduler, row, known, belief)
    return True


def _go_on(scheduler: SchedulerState, row: int, work_done: float) -> None:
    """Believe of the job in ``row`` the rates that follow from its regimes from ``work_done`` on."""
    jobs = scheduler.state.jobs
    spec, believed = scheduler.known[int(jobs.number[row])]
    jobs.curve[row] = -1.0
    types = int(jobs.types[row])
    first_type = scheduler.resources.types[(types & -types).bit_length() - 1]
    for column, gpus in ((jobs.full_rate, spec.most_gpus), (jobs.request_rate, spec.gpus)):
        column[row] = scheduler.beliefs.eligibility.best_mean_rate(
            believed, gpus, first_type, work_done
        )


def _training_reported(scheduler: SchedulerState, event: TrainingReported) -> None:
    row, jobs = current_row(scheduler, event.number, event.attempt), scheduler.state.jobs
    if row is not None:
        jobs.done[row] = event.work_done
        jobs.progress_from[row] = max(event.time, jobs.progress_from[row])
        scheduler.composition.policy.hear(event)
        if _adapt(scheduler, row, event.work_done, None):
            _go_on(scheduler, row, event.work_done)
        _order_again(scheduler, row)


def _progress_reported(scheduler: SchedulerState, event: ProgressReported) -> None:
    row, jobs = current_row(scheduler, event.number, event.attempt), scheduler.state.jobs
    if row is None or not (rate := float(jobs.rate[row])):
        return
    settle_work(scheduler.state, row, scheduler.now)
    left = scheduler.beliefs.measured_seconds_left(
        event, scheduler.now, scheduler.composition.estimator
    )
    if left is not None:
        known = scheduler.known[event.number]
        truth = msgspec.structs.replace(known.believed, work=float(jobs.done[row]) + left * rate)
        _believe(scheduler, row, known, Belief(truth))


def _loss_reported(scheduler: SchedulerState, event: LossReported) -> None:
    row, number = current_row(scheduler, event.number, event.attempt), event.number
    if row is None:
        return
    s, jobs, known = scheduler.state, scheduler.state.jobs, scheduler.known[number]
    composition, done = scheduler.composition, event.work_done
    if reason := composition.termination.judge(known.spec, done, event.loss):
        scheduler.notes.reasons[number] = reason
        log_event(s, scheduler.rules, CONCLUDED, number, 0.0, 0.0)
        stop(s, scheduler.rules, row, scheduler.now)
        complete(scheduler, row, event.time)
    elif isinstance(composition.estimator, FollowsLoss) and (
        belief := composition.estimator.observe(known.spec, done, event.loss)
    ):
        jobs.done[row] = done
        jobs.progress_from[row] = max(event.time, jobs.progress_from[row])
        _believe(scheduler, row, known, belief)


def _believe(scheduler: SchedulerState, row: int, known: KnownJob, belief: Belief) -> None:
    """Go on with another belief about what is left of the job in ``row``."""
    jobs = scheduler.state.jobs
    scheduler.known[int(jobs.number[row])] = known._replace(believed=belief.truth)
    jobs.total[row], jobs.scale[row] = belief.truth.work, belief.scale
    _order_again(scheduler, row)


def _order_again(scheduler: SchedulerState, row: int) -> None:
    order_again(scheduler.state, scheduler.rules, row, scheduler.now)
    scheduler.state.count[DIRTY] = 1


def _recomposed(scheduler: SchedulerState, event: Recomposed) -> None:
    """A new policy knows nothing of the past but the state; jobs that are in stay in."""
    before = scheduler.composition
    scheduler.composition = composition = before.changed(event)
    if composition.placement is not before.placement:
        scheduler.judge_nodes()
    if composition.policy is not before.policy:
        scheduler.state.jobs.set_more(composition.policy.columns)
        scheduler.count_pools()
        scheduler.judge_nodes()
        scheduler.state.clock[NAMED_WAKE] = INFINITY
        scheduler.state.count[DIRTY] = 1
    if composition.admission is not before.admission:
        scheduler.count_capacity()
    scheduler.apply_rules()


def _arrivals_announced(scheduler: SchedulerState, event: ArrivalsAnnounced) -> None:
    if isinstance(scheduler.composition.policy, ForeseesArrivals):
        scheduler.composition.policy.expect(event)
    scheduler.state.count[DIRTY] = 1


def _node_changed(scheduler: SchedulerState, event: NodeChanged) -> None:
    scheduler.resources.change(event.name, event.state, event.node)
    scheduler.state.machine = None
    scheduler.judge_nodes()
    scheduler.count_capacity()
    scheduler.state.count[DIRTY] = 1


def _woken(scheduler: SchedulerState, event: WakeUp) -> None:
    """Whether there is anything to do is for the forward loop to say."""


def follow(scheduler: SchedulerState, decision: Decision) -> None:
    """Let the forward loop carry out a decision that was taken elsewhere."""
    s = scheduler.state
    if s.clock[TIMED] <= s.clock[NOW]:
        end_overrun(scheduler)
    if s.clock[ELIGIBLE] <= s.clock[NOW]:
        take_in_dependents(scheduler)
    for given in decision.promises:
        scheduler.promises.give(given, scheduler.notes)
    for number in sorted(
        {one.number for one in decision.rejected} | {one.number for one in decision.concluded}
    ):
        fold(scheduler, JobCancelled(scheduler.now, number))
    numbers = decision.job.tolist()
    promised = [given.number for given in decision.promises if given.finish_by is not None]
    for event in scheduler.admissions.waiting:
        if event.number in numbers or event.number in promised:
            scheduler.admissions.withdraw(event.number)
            admit(scheduler, event)
    rows = [scheduler.row_of(number) for number in numbers]
    for i, row in enumerate(rows):
        if row is None:
            continue
        s.jobs.target[row], s.jobs.target_type[row] = decision.gpus[i], decision.gpu_type[i]
        if len(decision.partner):
            s.jobs.partner[row] = partner = int(decision.partner[i])
            if partner in scheduler.known:
                name = scheduler.spec(partner).name
                scheduler.grants.neighbours = {**scheduler.grants.neighbours, partner: name}
        if decision.gpus[i] > 0.0 and s.jobs.held[row] == 0.0 and scheduler.rules.decides == ORDER:
            wait_no_more(s, row)
        change(s, row)
    if scheduler.rules.places != COUNTED:
        release_changed(s)
        for i, row in enumerate(rows):
            last = -1
            if row is None:
                continue
            for slot in decision.slots_of(i).tolist():
                last = hold_slot(s, row, last, slot)
    s.count[PHASE] = COMMIT


HANDLERS: dict[type, Callable[[SchedulerState, Any], None]] = {
    JobSubmitted: _submitted,
    JobStarted: _started,
    JobFinished: _finished,
    JobStopped: _stopped,
    JobFailed: _failed,
    JobCancelled: _cancelled,
    JobHeld: held,
    JobReleased: released,
    JobChanged: changed,
    JobRequeued: requeued,
    BatchSizeChanged: _batch_size_changed,
    TrainingReported: _training_reported,
    ProgressReported: _progress_reported,
    LossReported: _loss_reported,
    Recomposed: _recomposed,
    ArrivalsAnnounced: _arrivals_announced,
    NodeChanged: _node_changed,
    WakeUp: _woken,
}
