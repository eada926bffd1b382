"""What goes on in a simulated world: the executions of all jobs in the system.

Every job runs at a constant rate until something happens to it, so when its next milestone comes (its end,
a change of batch size, a crash, a report) is computed once, when its rate changes, and kept on a clock.
"""

import heapq
import math
from collections.abc import Iterator, Sequence

from volvelle.core.decision import Decision, IntArray, Sharing
from volvelle.core.demand import Amounts
from volvelle.core.events import (
    BatchSizeChanged,
    Event,
    JobFailed,
    JobFinished,
    JobStarted,
    JobStopped,
    LossReported,
    TrainingReported,
)
from volvelle.core.scheduler import next_multiple
from volvelle.core.state import Resources
from volvelle.model.job import Job, rate_of
from volvelle.model.overheads import Overheads
from volvelle.simulate.execution import Execution
from volvelle.simulate.releases import Releases
from volvelle.simulate.trainer import Trainer

_MILESTONE, _STOPPED, _STARTED, _REPORT, _TUNING = 0, 1, 2, 3, 4


class Executions:
    """The jobs in the system as they really are, and what happens to them next.

    tick: ends of jobs are noticed at multiples of it (None: at once). tracked: the jobs that are waited
    for (None: all). loss_every: seconds between two reports of losses (None: nobody asked).
    """

    def __init__(
        self,
        resources: Resources,
        overheads: Overheads,
        *,
        tick: float | None,
        tracked: Sequence[int] | None,
        loss_every: float | None,
        now: float,
    ) -> None:
        self.now = now
        self.overheads = overheads
        self._tick = tick
        self._waited_for = set(tracked) if tracked is not None else None
        self._resources = resources
        self._loss_every = loss_every
        self._in_system: dict[int, Execution] = {}
        self._clock: list[tuple[float, int, int, int]] = []
        self._stopping: dict[tuple[int, int], float] = {}
        self._releases = Releases(resources)

    @property
    def in_system(self) -> int:
        """Jobs submitted and not yet through."""
        return len(self._in_system)

    def place_running(
        self,
        number: int,
        job: Job,
        *,
        done: float,
        gpus: float,
        gpu_type: int,
        slots: IntArray,
        attempt: int,
        since: float,
        beside: str = "",
        amounts: Amounts | None = None,
    ) -> None:
        """Put a job that is already in the scheduler's state into this world: a forecast's start."""
        execution = Execution(number, job, done)
        self._in_system[number] = execution
        execution.attempt = attempt
        if gpus > 0:
            execution.gpus, execution.gpu_type, execution.slots = gpus, gpu_type, slots
            execution.beside = beside
            execution.amounts = amounts
            execution.saved_at = execution.cadence_from = since
            self._releases.hold(gpus, gpu_type)
            self._set_rate(execution, since)

    def place_waiting(self, number: int, job: Job) -> None:
        """Put a job that has not been admitted yet into this world."""
        self._in_system[number] = Execution(number, job)

    def place_stopping(
        self,
        number: int,
        attempt: int,
        *,
        free_at: float,
        gpus: float,
        gpu_type: int,
        slots: IntArray,
    ) -> None:
        """Let a checkpoint be written until ``free_at`` on GPUs that a job has just given up."""
        self._releases.free_later(free_at, gpus, gpu_type, slots)
        execution = self._in_system.get(number)
        done = 0.0
        if execution is not None:
            execution.written_at, done = free_at, execution.done
        self._stopping[number, attempt] = done
        heapq.heappush(self._clock, (free_at, _STOPPED, number, attempt))

    def claim(self, number: int, now: float) -> None:
        """Let a job placed as running wait for GPUs that come free later than ``now``."""
        execution = self._in_system[number]
        self._releases.wait_for(now, execution.gpu_type, execution.slots, number, execution.gpus)

    # ------------------------------------------------------------------ news

    def _next_news(self) -> float:
        """When something happens to a job next."""
        clock = self._clock
        while clock and not self._valid(clock[0]):
            heapq.heappop(clock)
        return clock[0][0] if clock else math.inf

    def _all_news(self, now: float) -> Iterator[Event]:
        """What happens to jobs at ``now``."""
        clock = self._clock
        while clock and clock[0][0] <= now:
            entry = heapq.heappop(clock)
            if self._valid(entry):
                is_report = entry[1] == _REPORT
                yield self._report(now, entry) if is_report else self._news(now, entry)

    def _valid(self, entry: tuple[float, int, int, int]) -> bool:
        _, kind, number, token = entry
        if kind == _STOPPED:
            return True
        execution = self._in_system.get(number)
        return execution is not None and execution.token == token

    def _news(self, now: float, entry: tuple[float, int, int, int]) -> Event:
        _, kind, number, token = entry
        if kind == _STOPPED:
            return JobStopped(now, number, token, self._stopping.pop((number, token)))
        execution = self._in_system[number]
        if kind == _STARTED:
            return JobStarted(now, number, execution.attempt, execution.starts_at)
        if (trainer := execution.trainer) is not None and (
            kind == _TUNING or execution.milestone < trainer.training.work
        ):
            return self._train_on(now, execution, trainer, epoch_over=kind == _MILESTONE)
        truth = execution.job.truth
        if execution.trainer is not None or execution.milestone >= truth.work:
            self._leave(execution)
            return JobFinished(now, number, execution.attempt)
        failures = truth.failures
        if (
            execution.failures < len(failures)
            and failures[execution.failures] <= execution.milestone
        ):
            execution.failures += 1
            return self._fail(now, execution, "the job crashed")
        self._save_passed(execution, now)
        execution.done = execution.milestone
        regime = truth.regime_at(execution.done)
        self._set_rate(execution, now)
        batch_size = regime.batch_size if regime else 0
        return BatchSizeChanged(now, number, batch_size, execution.done)

    def _train_on(
        self, now: float, execution: Execution, trainer: Trainer, *, epoch_over: bool
    ) -> TrainingReported:
        """Let the job go on with its next epoch, or with another batch size; it tells how it is."""
        self._save_passed(execution, now)
        trainer.tune(execution.done, epoch_over=epoch_over)
        execution.done = execution.milestone if epoch_over else execution.work_at(now)
        began = round(now) if trainer.training.whole_seconds else now
        self._set_rate(execution, began)
        told = trainer.training.told(execution.done)
        return TrainingReported(now, execution.number, execution.attempt, told, trainer.goodput)

    def _report(self, now: float, entry: tuple[float, int, int, int]) -> LossReported:
        """What the training script says of its loss; the next report follows a period later."""
        execution = self._in_system[entry[2]]
        self._report_after(now, execution)
        truth = execution.job.truth
        work = min(execution.work_at(now), truth.work)
        return LossReported(now, execution.number, execution.attempt, work, truth.loss_at(work))

    def _report_after(self, time: float, execution: Execution) -> None:
        """Set the clock for the next report of a job's loss: the first multiple after ``time``."""
        assert self._loss_every is not None
        following = next_multiple(time, self._loss_every)
        heapq.heappush(self._clock, (following, _REPORT, execution.number, execution.token))

    def _leave(self, execution: Execution) -> None:
        del self._in_system[execution.number]
        self._releases.give_back(execution.gpus, execution.gpu_type, execution.number)
        if self._waited_for is not None:
            self._waited_for.discard(execution.number)

    def _fail(self, now: float, execution: Execution, reason: str) -> JobFailed:
        """Throw a running job back to its last checkpoint."""
        self._save_passed(execution, now)
        lost = max(now - execution.saved_at, 0.0) * execution.gpus
        attempt = execution.attempt
        self._releases.give_back(execution.gpus, execution.gpu_type, execution.number)
        execution.done = execution.saved
        execution.gpus = execution.rate = 0.0
        execution.token += 1
        return JobFailed(
            now, execution.number, attempt, execution.told(execution.saved), lost, reason
        )

    def _lose_node(self, now: float, name: str) -> Iterator[JobFailed]:
        node = self._resources.index[name]
        for execution in list(self._in_system.values()):
            if execution.gpus and node in self._resources.nodes_of(execution.slots):
                yield self._fail(now, execution, f"node {name} went down")

    def _save_passed(self, execution: Execution, now: float) -> None:
        """Note the last checkpoint the job wrote of its own accord before ``now``."""
        every = self.overheads.checkpoint_every
        if every is None or now <= execution.since:
            return
        written = math.floor((now - execution.cadence_from) / every)
        if written > 0:
            execution.cadence_from += written * every
            execution.saved_at = execution.cadence_from
            execution.saved = execution.work_at(execution.saved_at)

    def _set_rate(self, execution: Execution, since: float) -> None:
        """Let a job make progress from ``since`` on, and set the clock for its next milestone."""
        work = execution.job.truth.work
        if (trainer := execution.trainer) is not None:
            work = trainer.training.work
            rate, milestone = trainer.rate(execution.done), trainer.next_boundary(execution.done)
        elif execution.unit_rate > 0.0:
            rate, milestone = execution.unit_rate * execution.gpus, work
        else:
            rate, milestone = self._true_rate(execution), execution.next_milestone()
        execution.since, execution.rate, execution.milestone = since, rate, milestone
        execution.token += 1
        if rate > 0.0:
            time = since + (milestone - execution.done) / rate
            if self._tick is not None and milestone >= work:
                time = math.ceil(time / self._tick) * self._tick
            heapq.heappush(self._clock, (time, _MILESTONE, execution.number, execution.token))
            if self._loss_every is not None and execution.job.truth.loss_curve:
                self._report_after(max(since, self.now), execution)
        if trainer is not None and (tuning := trainer.next_tuning(since)) < math.inf:
            heapq.heappush(self._clock, (tuning, _TUNING, execution.number, execution.token))

    def _true_rate(self, execution: Execution) -> float:
        truth, resources = execution.job.truth, self._resources
        nodes = len(resources.nodes_of(execution.slots)) if len(execution.slots) else 1
        gpu_type = resources.types[execution.gpu_type]
        spec = execution.job.spec
        gpus, beside = execution.gpus, execution.beside
        rate = rate_of(spec, truth, gpus, gpu_type, nodes, execution.done, beside)
        rate *= resources.spread_factor(truth.spread_slowdown, int(execution.gpus), nodes)
        if truth.sensitivity is None:
            return rate
        amounts = execution.amounts or resources.share_of(execution.slots, execution.gpu_type)
        return rate * truth.sensitivity.share(*amounts)

    # ------------------------------------------------------------------ carrying out decisions

    def _carry_out(self, now: float, decision: Decision) -> None:
        for rejection in decision.rejected:
            self._in_system.pop(rejection.number, None)
            if self._waited_for is not None:
                self._waited_for.discard(rejection.number)
        for conclusion in decision.concluded:
            execution = self._in_system.pop(conclusion.number)
            self._stop(now, execution)
            if self._waited_for is not None:
                self._waited_for.discard(conclusion.number)
        if decision.sharing is not None:
            self._share(now, decision, decision.sharing)
        if not len(decision.job):
            return
        numbers, gpus = decision.job.tolist(), decision.gpus.tolist()
        types, attempts = decision.gpu_type.tolist(), decision.attempt.tolist()
        in_system = self._in_system
        beside = self._names(decision.partner) if len(decision.partner) else None
        for number, given in zip(numbers, gpus, strict=True):
            if given == 0.0:
                self._stop(now, in_system[number])
        for row, given in enumerate(gpus):
            if given > 0.0:
                execution = in_system[numbers[row]]
                resized = self._pause(now, execution)
                execution.attempt, execution.gpus = attempts[row], given
                execution.gpu_type, execution.slots = types[row], decision.slots_of(row)
                execution.beside = beside[row] if beside else ""
                self._start(now, execution, resized=resized)

    def _names(self, partners: IntArray) -> list[str]:
        """The names of the jobs beside which others run, "" for nobody."""
        numbers = partners.tolist()
        return ["" if n < 0 else self._in_system[n].job.spec.name for n in numbers]

    def _share(self, now: float, decision: Decision, sharing: Sharing) -> None:
        """Let jobs have the CPUs and memory they are given; those that go on, without a pause."""
        starting = dict(zip(decision.job.tolist(), decision.gpus.tolist(), strict=True))
        rows = zip(
            sharing.job.tolist(),
            sharing.cpus.tolist(),
            sharing.memory_gb.tolist(),
            strict=True,
        )
        for number, cpus, memory_gb in rows:
            execution = self._in_system[number]
            gpus = starting.get(number, execution.gpus)
            execution.amounts = cpus / gpus, memory_gb / gpus
            if number not in starting and execution.job.truth.sensitivity is not None:
                self._save_passed(execution, now)
                execution.done = execution.work_at(now)
                self._set_rate(execution, max(now, execution.since))

    def _stop(self, now: float, execution: Execution) -> None:
        """Stop at a checkpoint; the GPUs are free when it is written."""
        work = execution.done = execution.saved = execution.work_at(now)
        began = now >= execution.since
        cost = self.overheads.checkpoint_seconds(execution.job.spec) if began else 0.0
        self._releases.give_back(execution.gpus, execution.gpu_type, execution.number)
        if cost > 0.0:
            free_at = execution.written_at = now + cost
            self._releases.free_later(free_at, execution.gpus, execution.gpu_type, execution.slots)
            self._stopping[execution.number, execution.attempt] = execution.told(work)
            entry = (free_at, _STOPPED, execution.number, execution.attempt)
            heapq.heappush(self._clock, entry)
        execution.gpus = execution.rate = 0.0
        execution.token += 1

    def _pause(self, now: float, execution: Execution) -> bool:
        """Settle what a job did on the GPUs it is about to exchange; whether it had any."""
        if execution.gpus == 0.0:
            return False
        execution.done = execution.saved = execution.work_at(now)
        self._releases.give_back(execution.gpus, execution.gpu_type, execution.number)
        return True

    def _start(self, now: float, execution: Execution, *, resized: bool) -> None:
        """Let a job run on the GPUs it was just given, as soon as they are free."""
        self._releases.hold(execution.gpus, execution.gpu_type)
        free_at = self._releases.wait_for(
            now, execution.gpu_type, execution.slots, execution.number, execution.gpus
        )
        start = max(free_at, execution.written_at)
        gap = self.overheads.gap_seconds(
            execution.job.spec, resumed=execution.attempt > 1, resized=resized
        )
        execution.saved_at = start
        execution.cadence_from = start + gap
        if execution.trainer is not None:
            execution.trainer.place(int(execution.gpus), execution.slots, self._resources)
        self._set_rate(execution, start + gap)
        if start > now:
            execution.starts_at = start
            heapq.heappush(self._clock, (now, _STARTED, execution.number, execution.token))
