"""Several runs on the same jobs, in parallel processes, each leaving a run directory.

At Ctrl-C the parent tells the workers through shared memory to stop, so that what is done so far is written;
a worker that takes longer than `_PATIENCE_SECONDS` for that is killed. Results do not depend on their number.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from volvelle.core.registry import path_of
from volvelle.metrics.catalogue import Metric, metrics
from volvelle.metrics.summary import Summary
from volvelle.model.problems import Problem
from volvelle.simulate import run_directory
from volvelle.simulate.experiment import PlannedRun, WorkloadKey
from volvelle.simulate.recorded import as_recorded
from volvelle.simulate.run import Progress, check, simulate
from volvelle.simulate.run_directory import RunRecord, RunStatus
from volvelle.simulate.sources import Source
from volvelle.simulate.workers import Workers, context, usable_cpus

COMPARISON = "compare.json"

_Made = tuple[RunStatus, Summary | None]
"""A worker's report of a run: how it ended, and its summary where it was made."""

_PATIENCE_SECONDS = 0.6  # after Ctrl-C


@dataclass(frozen=True)
class ComparedRun:
    """A run of a comparison.

    error: why it could not be made. reused: an earlier one was kept. summary: of one made now.
    """

    name: str
    directory: Path
    status: RunStatus
    error: BaseException | None = None
    reused: bool = False
    summary: Summary | None = None


@dataclass
class Stage:
    """State that parent and workers share: the workloads, jobs done in each run, and a stop sign.

    measured: the metrics of single files, which a worker reads with it.
    """

    runs: Sequence[PlannedRun]
    sources: Mapping[WorkloadKey, Source]
    directories: Sequence[Path]
    done: Any
    stop: Any
    measured: Sequence[Metric]

    def record(self, index: int) -> RunRecord:
        """The record with which run ``index`` begins."""
        run = self.runs[index]
        source = self.sources[run.workload]
        origin = source.origin | {"jobs": len(source.workload), "name": source.workload.name}
        return RunRecord.of(run.name, origin, run.setting)


def compare(
    runs: Sequence[PlannedRun],
    sources: Mapping[WorkloadKey, Source],
    directory: Path,
    *,
    workers: int | None = None,
    resume: bool = False,
    progress: Callable[[int, int], None] | None = None,
    made: Callable[[Sequence[ComparedRun]], None] | None = None,
) -> list[ComparedRun]:
    """Make ``runs`` on their workloads, each in a folder of ``directory``/runs.

    workers: processes (default: one for each CPU we may use).
    resume: keep finished runs of the same configuration that are there already.
    progress: called with jobs done and jobs in all, a few times a second. made: called with finished runs
    whenever these are more, while others go on.
    Ctrl-C stops early: finished runs are kept, the others are marked interrupted. Raises `Problem`
    before anything runs where the parts do not go together.
    """
    for run in runs:
        if run.is_recorded:
            continue
        check(sources[run.workload].workload, run.setting)
    run_directory.prepare(directory, COMPARISON)
    directories = _directories(runs, directory)
    shared = context()
    done, stop = shared.RawArray("d", len(runs)), shared.RawValue("i", 0)
    measured = tuple(one for one in metrics.all().values() if path_of(one))
    stage = Stage(runs, sources, directories, done, stop, measured)
    for name in ("report.html", "runs.csv", "*.png"):
        for path in directory.glob(name):  # they are of an earlier comparison
            path.unlink()
    _write_comparison(runs, directories, directory)
    kept = [index for index in range(len(runs)) if resume and _is_made(stage, index)]
    for index in kept:
        stage.done[index] = len(sources[runs[index].workload].workload)
    waiting = [index for index in range(len(runs)) if index not in kept]
    results = {
        index: ComparedRun(runs[index].name, directories[index], RunStatus.FINISHED, reused=True)
        for index in kept
    }

    def tell(now: dict[int, ComparedRun]) -> None:
        if made is not None:
            over = results | now
            made([over[index] for index in sorted(over)])

    results |= _make(stage, waiting, workers or usable_cpus(), progress, tell)
    return [results[index] for index in range(len(runs))]


def holds_only(
    runs: Sequence[PlannedRun], sources: Mapping[WorkloadKey, Source], directory: Path
) -> bool:
    """Whether all finished runs in ``directory`` are among ``runs``, with the same configuration."""
    stage = Stage(runs, sources, _directories(runs, directory), [], None, ())
    made = {stage.directories[index] for index in range(len(runs)) if _is_made(stage, index)}
    return {path.parent for path in directory.glob("runs/*/outcomes.*")} <= made


def comparison_runs(directory: Path) -> list[Path]:
    """The run directories of a comparison, in its order. Raises `Problem`."""
    path = directory / COMPARISON
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return [directory / run["directory"] for run in document["runs"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Problem(f"{path} cannot be read: {error}") from None


def _make(
    stage: Stage,
    waiting: Sequence[int],
    workers: int,
    progress: Callable[[int, int], None] | None,
    tell: Callable[[dict[int, ComparedRun]], None],
) -> dict[int, ComparedRun]:
    if not waiting:
        return {}
    for index in waiting:
        run_directory.clear(stage.directories[index])
    jobs = sum(len(stage.sources[run.workload].workload) for run in stage.runs)
    with Workers(min(workers, len(waiting)), _enter, stage) as pool:
        futures = {pool.submit(_run, index): index for index in waiting}
        try:
            pending = set(futures)
            while pending:
                done, pending = wait(pending, timeout=0.1)
                if progress is not None:
                    progress(int(sum(stage.done)), jobs)
                if done and pending:
                    over = [each for each in futures if each.done()]
                    tell({futures[each]: _result(stage, futures[each], each) for each in over})
        except KeyboardInterrupt:
            stage.stop.value = 1
            pool.end(futures, _PATIENCE_SECONDS)
    return {index: _result(stage, index, future) for future, index in futures.items()}


def _result(stage: Stage, index: int, future: "Future[_Made]") -> ComparedRun:
    name, directory = stage.runs[index].name, stage.directories[index]
    if future.cancelled():
        return ComparedRun(name, directory, RunStatus.INTERRUPTED)
    error = future.exception()
    if stage.stop.value and isinstance(error, BrokenProcessPool):
        run_directory.mark(directory, stage.record(index), RunStatus.INTERRUPTED)
        return ComparedRun(name, directory, RunStatus.INTERRUPTED)
    if isinstance(error, BrokenProcessPool):
        error = Problem(
            f"the process of run {name!r} died, perhaps for want of memory",
            mend="try fewer at a time with --workers 1",
        )
    if error is not None:
        if directory.is_dir():
            run_directory.mark(directory, stage.record(index), RunStatus.FAILED)
        return ComparedRun(name, directory, RunStatus.FAILED, error)
    status, summary = future.result()
    return ComparedRun(name, directory, status, summary=summary)


_stage: Stage | None = None  # of a worker process: what it was started with


def _enter(stage: Stage) -> None:
    global _stage  # noqa: PLW0603 - a worker process has one task in life
    _stage = stage


def _run(index: int) -> _Made:
    """Make run ``index``, in a worker."""
    assert _stage is not None
    stage = _stage
    if stage.stop.value:
        return RunStatus.INTERRUPTED, None

    def note(progress: Progress) -> None:
        stage.done[index] = progress.submitted - progress.in_system
        if stage.stop.value:
            raise KeyboardInterrupt

    run, directory = stage.runs[index], stage.directories[index]
    record = stage.record(index)
    directory.mkdir(parents=True, exist_ok=True)
    run_directory.begin(directory, record)
    workload = stage.sources[run.workload].workload
    if run.is_recorded:
        simulation = as_recorded(workload, run.setting.cluster)
    else:
        simulation = simulate(workload, run.setting, progress=note)
    summary = run_directory.finish(directory, record, simulation)
    stage.done[index] = len(workload)
    return record.ended(simulation).status, summary


def _is_made(stage: Stage, index: int) -> bool:
    try:
        found = run_directory.read_record(stage.directories[index])
    except Problem:
        return False
    return found.status is RunStatus.FINISHED and found.describes_same(stage.record(index))


def _directories(runs: Sequence[PlannedRun], directory: Path) -> list[Path]:
    """A folder for each run, called as the run as far as file names can be."""
    names: list[str] = []
    for run in runs:
        plain = re.sub(r"[^\w.=+-]+", "-", run.name).strip("-.")[:100] or "run"
        taken = sum(name == plain or name.startswith(f"{plain}~") for name in names)
        names.append(f"{plain}~{taken + 1}" if taken else plain)
    return [directory / "runs" / name for name in names]


def _write_comparison(
    runs: Sequence[PlannedRun], directories: Sequence[Path], directory: Path
) -> None:
    document = {
        "format": run_directory.FORMAT,
        "runs": [
            {"name": run.name, "directory": path.relative_to(directory).as_posix()}
            for run, path in zip(runs, directories, strict=True)
        ],
    }
    with run_directory.written(directory / COMPARISON) as path:
        path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
