"""The controller's record of a live job: submitted and not ended."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, get_type_hints

import msgspec

from volvelle.core.policy import Policy
from volvelle.live.control.gpu_ledger import Attempt, AttemptPhase
from volvelle.live.job_change import KEYS, Value
from volvelle.live.job_request import JobRequest, shown
from volvelle.live.messages import AttemptEnded, AttemptProgress, TrainingMeasure, merge_metrics
from volvelle.live.status.reasons import WaitingReason
from volvelle.live.status.view import Guarantee, ProfileView
from volvelle.live.store.rows import FirstForecast, JobRecord
from volvelle.model.goodput import Goodput, StepParameters
from volvelle.model.units import format_duration

_MIN_CHANGE_SECONDS = 0.5
"""Predictions that changed by less are not published."""


_MANY_RUNS = 3
"""So many short runs in a row say that a job gets nowhere."""
_WORTH_NAMING = 0.1
"""The share of a wait from which on its second reason is named."""
_NAMED = 5
"""Jobs that a problem names."""


@dataclass(slots=True)
class LiveJob:
    """One job. ``request_json``: its request as it is shown. Times are seconds since the Unix epoch."""

    number: int
    identity: str
    user: str
    request: JobRequest
    request_json: dict[str, Any]
    position: int
    submitted: float
    held: bool = False
    failures: int = 0
    first_started: float | None = None
    waited_for: str = ""
    """Why it waited up to its first start: what lasted longest."""
    waits: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Until then: reasons by their kind, each in its latest words, and the seconds that it lasted."""
    waiting_since: float | None = None
    """From when on the present reason holds."""
    ran_on: dict[str, int] = field(default_factory=dict)
    """Its latest attempt by node. Status views share it: it is replaced, never changed."""
    failure_reason: str = ""
    """Why its last attempt failed."""
    immediate_crash: str = ""
    """How its last attempt crashed within seconds; empty: it did not."""
    waiting_reason: str = ""
    waiting_free: int | None = None
    """The GPUs that this reason counts as free."""
    short_runs: int = 0
    """Runs in a row that were stopped by order within a minute, before an iteration was reported."""
    short_run_seconds: float = 0.0
    """The longest of them."""
    lost_run: float | None = None
    """Seconds of its last run, if that was stopped by order and had saved nothing."""
    iterations: int = 0
    saved_iterations: int = 0
    total_iterations: int = 0
    iteration_seconds: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)
    batch_size: int = 0
    """The latest that its present attempt reported; 0: none."""
    training: TrainingMeasure | None = None
    """The latest measurement of training by its present attempt."""
    steps_seen: tuple[tuple[tuple[float, float, float], float], ...] = ()
    """Seconds of its steps by (nodes, GPUs, local batch), as measured in all attempts."""
    steps_fitted: tuple[tuple[tuple[float, float, float], float], ...] = ()
    steps: StepParameters | None = None
    """A model of its steps, and the measured ones that it was fitted to."""
    goodput: Goodput | None = None
    """The values that the policy has."""
    measured_from: tuple[int, float] | None = None
    """Iterations and epochs at its present attempt's first report."""
    next_progress_event: float = 0.0
    """The time of the next report of its progress to the scheduler, on the journal's clock."""
    next_measured: float = 0.0
    next_batch_size_event: float = 0.0
    """The time from which these may be reported again."""
    predicted_start: float | None = None
    predicted_p50: float | None = None
    predicted_p90: float | None = None
    guessed: bool = False
    guarantee: Guarantee | None = None
    profile: ProfileView | None = None
    """The result of its profile; None until that is over."""
    first_p50: float | None = None
    first_p90: float | None = None
    forecast_start: float | None = None
    forecast_finish: float | None = None
    """Its first forecast."""
    changed: dict[str, tuple[Value, Value]] = field(default_factory=dict)
    """Changes by its user while it waited: values as submitted and now, by their keys in a request."""

    @classmethod
    def of(cls, record: JobRecord, request: JobRequest) -> "LiveJob":
        """A job as it was accepted."""
        return cls(
            number=record.number,
            identity=record.identity,
            user=record.user,
            request=request,
            request_json=shown(record.request),
            position=record.position,
            submitted=record.submitted,
            first_p50=record.first_p50,
            first_p90=record.first_p90,
            forecast_start=record.forecast_start,
            forecast_finish=record.forecast_finish,
        )

    @property
    def due(self) -> float | None:
        """The last moment at which its finish is worth anything; None without a deadline."""
        deadline = self.request.deadline
        return None if deadline is None else self.submitted + deadline.rewards[-1].deadline_seconds

    @property
    def memory(self) -> "msgspec.Struct":
        """The job beside its submission, as `JobMemory`."""
        return JobMemory(*[getattr(self, each.name) for each in _REMEMBERED])

    def remember(self, memory: "msgspec.Struct") -> None:
        """Take over what `memory` was; a first forecast stored since then stays."""
        for each in _REMEMBERED:
            value = getattr(memory, each.name)
            if value is not None or each.name not in _FIRST_FORECAST:
                setattr(self, each.name, value)
        self._change({key: now for key, (_, now) in self.changed.items()})

    def change(self, changes: Mapping[str, Value]) -> None:
        """Take over what its user declares anew, by the names of `JobSpec`'s fields."""
        self._change({KEYS[name]: value for name, value in changes.items() if name in KEYS})

    def _change(self, values: Mapping[str, Value]) -> None:
        """Take over these values by their keys. Status views share what is changed: it is replaced."""
        if not values:
            return
        before = self.changed
        self.changed = before | {
            key: (before[key][0] if key in before else getattr(self.request, key), value)
            for key, value in values.items()
        }
        self.request = self.request.model_copy(update=values)
        self.request_json = shown(self.request.as_json())

    def start(self, at: float) -> None:
        """Note its first start, and what it waited for: one reason, or the two longest with their shares."""
        if self.first_started is not None:
            return
        self._count_wait(at)
        longest = sorted(self.waits.values(), key=lambda each: -each[1])[:2]
        whole = sum(seconds for _, seconds in self.waits.values())
        self.first_started, self.waits = at, {}
        if len(longest) > 1 and longest[1][1] > _WORTH_NAMING * whole:
            self.waited_for = "; ".join(f"{part / whole:.0%} of it: {why}" for why, part in longest)
        elif longest:
            self.waited_for = longest[0][0]

    def _count_wait(self, now: float) -> None:
        """Count how long the present reason has lasted; another may hold from ``now`` on."""
        if self.first_started is None and self.waiting_reason and self.waiting_since is not None:
            kind = self.waiting_reason.partition(":")[0]
            before = self.waits.get(kind, ("", 0.0))[1]
            self.waits[kind] = self.waiting_reason, before + max(now - self.waiting_since, 0.0)
        self.waiting_since = now

    def update_progress(self, report: AttemptProgress) -> None:
        """Take over the progress of its attempt."""
        self.iterations = report.iterations
        self.saved_iterations = max(report.saved_iterations, self.saved_iterations)
        self.total_iterations = report.total_iterations or self.total_iterations
        self.iteration_seconds = report.iteration_seconds or self.iteration_seconds
        self.metrics = merge_metrics(self.metrics, report.metrics)
        self.training = report.training or self.training

    def run_ended(self, attempt: Attempt, end: AttemptEnded, seconds: float, most: float) -> None:
        """Count a run of at ``most`` so many seconds that was stopped before an iteration.

        Other ends clear the count. Any run that was stopped and had saved nothing is noted.
        """
        ordered = attempt.phase is AttemptPhase.STOPPING and not attempt.killed
        if attempt.profiles:
            return
        lost = end.saved_nothing(seconds) if ordered else False
        if lost is not None:
            self.lost_run = seconds if lost else None
        if not ordered or end.iterations > attempt.iterations or seconds > most:
            self.short_runs, self.short_run_seconds = 0, 0.0
            return
        self.short_runs += 1
        self.short_run_seconds = max(self.short_run_seconds, seconds)

    @property
    def begins_again(self) -> str:
        """That its last run was stopped, and lost; empty: it was not."""
        if self.lost_run is None:
            return ""
        ran = format_duration(round(self.lost_run))
        return f"stopped after {ran}, which it had not saved: it begins again (--no-preempt prevents it)"

    @property
    def no_progress(self) -> str:
        """That it gets nowhere, as it is stopped again and again as soon as it has started; empty: it may."""
        if self.short_runs < _MANY_RUNS:
            return ""
        longest = format_duration(self.short_run_seconds)
        return (
            f"its last {self.short_runs} runs, of {longest} at most, were stopped before it reported an "
            "iteration"
        )

    def set_first_forecast(self, forecast: FirstForecast) -> None:
        """Take over its first forecast."""
        self.forecast_start, self.forecast_finish = forecast.start, forecast.finish
        self.first_p50, self.first_p90 = forecast.p50, forecast.p90

    def recall_forecast(self, now: float) -> None:
        """Show the first forecast until the next one, where no later one is remembered and it lies ahead."""
        if self.predicted_p50 is None and self.first_p50 is not None and self.first_p50 > now:
            self.predicted_p50, self.predicted_p90 = self.first_p50, self.first_p90
            if self.forecast_start is not None:
                self.predicted_start = min(max(self.forecast_start, now), self.first_p50)

    def update_forecast(
        self,
        start: float | None,
        p50: float | None,
        p90: float | None,
        reason: WaitingReason,
        *,
        guessed: bool,
        now: float,
    ) -> bool:
        """Take over a forecast and why it waits; whether they changed enough to be published."""
        before = (self.predicted_start, self.predicted_p50, self.predicted_p90)
        after = (start, p50, p90)
        guessed = guessed and not (self.total_iterations or self.profile)
        why = WaitingReason(self.waiting_reason, self.waiting_free)
        changed = (reason, guessed) != (why, self.guessed) or any(
            (old is None) is not (new is None)
            or (old and new and abs(old - new) > _MIN_CHANGE_SECONDS)
            for old, new in zip(before, after, strict=True)
        )
        if changed:
            self.predicted_start, self.predicted_p50, self.predicted_p90 = after
            if reason.text != self.waiting_reason:
                self._count_wait(now)
            self.waiting_reason, self.waiting_free = reason
            self.guessed = guessed
        return changed


_SUBMITTED = ("number", "user", "request", "request_json", "position", "submitted")
_FIRST_FORECAST = ("first_p50", "first_p90", "forecast_start", "forecast_finish")
_HINTS = get_type_hints(LiveJob)
_REMEMBERED = tuple(each for each in fields(LiveJob) if each.name not in _SUBMITTED)

JobMemory = msgspec.defstruct(
    "JobMemory",
    [
        (each.name, _HINTS[each.name], msgspec.field(default=each.default))
        if each.default_factory is MISSING
        else (each.name, _HINTS[each.name], msgspec.field(default_factory=each.default_factory))
        for each in _REMEMBERED
    ],
    frozen=True,
    omit_defaults=True,
)
"""A job in a snapshot, without the columns of the store's table of jobs."""


def getting_nowhere(jobs: Mapping[int, LiveJob], policy: Policy) -> str:
    """That some of the ``jobs`` are stopped before they get anywhere, again and again; empty: none is."""
    numbers = [job.number for job in list(jobs.values()) if job.no_progress]
    if not numbers:
        return ""
    named = f"job{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers[:_NAMED]))}"
    more = f" and {len(numbers) - _NAMED:,} more" if len(numbers) > _NAMED else ""
    rounds = "rounds" if policy.round is None else f"rounds of {policy.round:g} s"
    return (
        f"{named}{more}: stopped again and again before an iteration is reported: {rounds} of policy "
        f"{policy.label} may be shorter than their starts take"
    )
