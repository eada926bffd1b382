"""How things are said: results on standard output, progress and remarks on standard error."""

import os
import re
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from textwrap import fill
from typing import TYPE_CHECKING

from volvelle.cli.options import Form
from volvelle.model.problems import Problem

if TYPE_CHECKING:
    from rich.console import Console

    from volvelle.core.composition import WrittenComposition
    from volvelle.metrics.outcomes import Outcomes
    from volvelle.report.table import Table
    from volvelle.simulate.run_directory import RunRecord

WIDE = 240
"""Columns of a line where the output is not a terminal's."""

_LOG_EVERY_SECONDS = 20.0
_LATE_SECONDS = 5.0
_LATE_SHARE = 1 / 3
"""The rate of so many of the latest seconds, or of this share of the time so far, tells the time left."""
_MINUTES_FROM = 120.0
_LONG = 20.0
"""CPU seconds of a policy of a file from which on it is said what they were for."""


def console(*, stderr: bool = False) -> "Console":
    """A console that never breaks the lines of files and pipes."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else WIDE, highlight=False)


def terminal() -> tuple[int, bool]:
    """How wide standard output is, and whether it shows colours."""
    if not sys.stdout.isatty():
        return WIDE, False
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return shutil.get_terminal_size().columns, not plain


def show(table: "Table", form: Form) -> None:
    """Print a table in the form asked for."""
    from volvelle.report.table import to_csv, to_json, to_text

    if form is Form.JSON:
        print(to_json(table))
    elif form is Form.CSV:
        print(to_csv(table), end="")
    else:
        width, colored = terminal()
        print(to_text(table, width=width, colored=colored))
        if table.note:
            print(table.note)


def show_all(tables: "Sequence[Table]", form: Form) -> None:
    """Print tables one under the other."""
    for index, table in enumerate(tables):
        if index and form is Form.TABLE:
            print()
        show(table, form)


def show_sentences(sentences: "Iterable[str]") -> None:
    """Print sentences, each as a point that is wrapped to the terminal, and a blank line after them."""
    width, _ = terminal()
    lines = [
        fill(sentence, width, initial_indent=" - ", subsequent_indent="   ")
        for sentence in sentences
    ]
    if lines:
        print("\n".join(lines), end="\n\n")


def remark(text: str) -> None:
    """Say something on standard error."""
    print(text, file=sys.stderr)


def remark_on_placements(compositions: "Iterable[WrittenComposition]") -> None:
    """Say where a placement is given to a policy that chooses nodes itself."""
    from volvelle.core.policy import policies

    named = {(each.policy, each.placement) for each in compositions if each.placement != "none"}
    for policy, placement in sorted(named):
        if policies.make(policy).chooses_nodes:
            remark(
                f"policy {policy} chooses nodes itself: "
                f"placement {placement} only picks GPUs on the nodes that it chose"
            )


def remark_on_idle_policies(runs: "Iterable[tuple[WrittenComposition, Outcomes]]") -> None:
    """Say where an order of a file was not asked, as all could be served: its mistakes would not show."""
    from volvelle.core.policy import policies
    from volvelle.core.written import WrittenPart
    from volvelle.metrics.per_job import queueing_delay

    for composition, outcomes in runs:
        written = composition.policy
        order = WrittenPart.read(written).in_a_file and policies.make(written).kind == "order"
        if order and (queueing_delay(outcomes) < 1.0).all():
            remark(
                f"note: no job waited under {written}, which may never have been asked: "
                "give it more jobs, or fewer GPUs, to see it decide"
            )


def remark_on_slow_policies(records: "Iterable[RunRecord]") -> None:
    """Say of a policy of a file how often it was asked, where that took long, and what would help."""
    from volvelle.core.policy import policies
    from volvelle.core.written import WrittenPart

    for record in records:
        written, seconds = record.composition.policy, record.asked_seconds
        if seconds < _LONG or not WrittenPart.read(written).in_a_file:
            continue
        share = seconds / (record.cpu_seconds or seconds)
        helps = "columns in place of loops over jobs, or a decision that is compiled"
        if policies.make(written).kind == "order":
            helps = "`round=60`, or an order by each job alone"
        remark(
            f"note: {written} was asked {record.asked:,} times, {share:.0%} of the time that the run took "
            f"({1e3 * seconds / record.asked:.2g} ms each): quicker by {helps}"
        )


def remark_on_passed_over(runs: "Iterable[tuple[RunRecord, Outcomes]]") -> None:
    """Say which policies a synthesizer may not choose while a job is there that they could never serve."""
    from volvelle.core.policy import policies
    from volvelle.core.scheduler import Scheduler

    for record, outcomes in runs:
        if record.synthesis is None:
            continue
        scheduler = Scheduler(record.cluster, record.composition.build())
        for written in dict.fromkeys(record.synthesis.policies):
            if why := scheduler.obstacle_to(policies.make(written), outcomes.specs):
                remark(
                    f"note: {written} is passed over while a job is there that it cannot serve: {why}."
                )


def rejections(outcomes: "Outcomes") -> tuple[tuple[int, str], ...]:
    """The jobs that were turned away, by row, and why."""
    rows = (outcomes.status == "rejected").nonzero()[0].tolist()
    return tuple((row, outcomes.reason[row]) for row in rows)


def refuse_all_rejected(workload: str, runs: "Sequence[Outcomes]") -> None:
    """Raise `Problem` where every job of every run was turned away: no figure is of any job."""
    if all(len(outcomes.specs) and (outcomes.status == "rejected").all() for outcomes in runs):
        specs, reasons = runs[0].specs, runs[0].reason
        raise Problem(
            f"the workload {workload!r} has no job that runs: all {len(specs):,} are rejected; "
            f"job {specs[0].id!r} {reasons[0]}",
            mend="give a --cluster, or an --admission, that takes them, or correct them in the trace",
        )


def remark_on_rejections(name: str, outcomes: "Outcomes") -> None:
    """Say how many jobs were turned away, and why, with an example of each reason."""
    left = len(outcomes) - len(rejections(outcomes))
    others = f"{left:,} {'other' if left == 1 else 'others'} simulated" if left else "none is left"
    prefix = f"{name}: " if name else ""
    for job, reason, more in _examples(outcomes, "rejected"):
        remark(f"note: {prefix}{job} {reason}{more}: rejected, {others}.")


def remark_on_failures(outcomes: "Outcomes") -> None:
    """Say how many jobs failed, as by their time limits, and why, with an example of each reason."""
    for job, reason, more in _examples(outcomes, "failed"):
        remark(f"note: {job} failed: {reason}{more}.")


def _examples(outcomes: "Outcomes", status: str) -> Iterator[tuple[str, str, str]]:
    """The first job of a status for each reason, the reason, and how many more are like it."""
    by_reason: dict[str, list[int]] = {}
    for row in (outcomes.status == status).nonzero()[0].tolist():
        by_reason.setdefault(_kind_of(outcomes.reason[row]), []).append(row)
    for rows in by_reason.values():
        more = f" ({len(rows) - 1:,} more like it)" if len(rows) > 1 else ""
        yield f"job {outcomes.specs[rows[0]].id!r}", outcomes.reason[rows[0]], more


def _kind_of(reason: str) -> str:
    """The reason without its numbers and durations: jobs turned away for the same kind of reason."""
    return re.sub(r"[\d.]+[smhd]?\b( \d+[smhd]\b)?", "0", reason)


@contextmanager
def progress(what: str, unit: str = "jobs") -> Iterator[Callable[[int, int | None], None]]:
    """Yields a function of (done, total) that shows a bar with rate and time left.

    On a terminal it is a bar that goes away; elsewhere a line now and then on standard error. It
    begins with the first call, so that processes can be forked before there is a thread for it.
    """
    if not sys.stderr.isatty():
        yield _Lines(what, unit).update
        return
    bar = _Bar(what, unit)
    try:
        yield bar.update
    finally:
        bar.stop()


class _TimeLeft:
    """The time left by the rate of late, as parts of a piece of work may be far slower than others."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self._progress: deque[tuple[float, int]] = deque()
        """When more was done, and how much in all; the time to the first counts as the start's."""

    def text(self, now: float, done: int, total: int | None) -> str:
        """``about 90 s left``; ``finishing`` when all is done; empty where it is not known."""
        progress = self._progress
        if done > (progress[-1][1] if progress else 0):
            progress.append((now, done))
        late = now - max(_LATE_SECONDS, _LATE_SHARE * (now - self.began))
        while len(progress) > 1 and progress[1][0] < late:
            progress.popleft()
        if total and done >= total:
            return "finishing"
        if not total or not progress or done == progress[0][1]:
            return ""
        since, before = progress[0]
        left = (now - since) * (total - done) / (done - before)
        return f"about {f'{left:,.0f} s' if left < _MINUTES_FROM else f'{left / 60:,.0f} min'} left"


class _Bar:
    """Progress for terminals."""

    def __init__(self, what: str, unit: str) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        self._unit = unit
        self._left = _TimeLeft()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(20),
            TextColumn("{task.fields[count]}"),
            TextColumn("{task.fields[left]}"),
            console=console(stderr=True),
            transient=True,
            refresh_per_second=5,
        )
        self._task = self._progress.add_task(what, total=None, count="", left="")

    def update(self, done: int, total: int | None) -> None:
        now = time.monotonic()
        count = _count(done, total, self._unit, now - self._left.began)
        left = self._left.text(now, done, total)
        self._progress.update(self._task, completed=done, total=total, count=count, left=left)
        self._progress.start()

    def stop(self) -> None:
        self._progress.stop()


def _count(done: int, total: int | None, unit: str, seconds: float) -> str:
    of = f"{done:,}/{total:,}" if total else f"{done:,}"
    return f"{of} {unit}  {done / max(seconds, 1e-3):,.0f}/s"


class _Lines:
    """Progress for logs: a line at most every twenty seconds."""

    def __init__(self, what: str, unit: str) -> None:
        self._what = what
        self._unit = unit
        self._left = _TimeLeft()
        self._said = self._left.began

    def update(self, done: int, total: int | None) -> None:
        now = time.monotonic()
        left = self._left.text(now, done, total)
        if now - self._said < _LOG_EVERY_SECONDS:
            return
        self._said = now
        count = _count(done, total, self._unit, now - self._left.began)
        remark("  ".join(filter(None, [self._what, count, left])))
