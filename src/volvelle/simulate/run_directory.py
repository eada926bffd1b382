"""A run directory: everything about one run, in files that outlive the version that wrote them.

    run.json       the complete configuration, versions, the seed, how the run ended
    jobs.csv       one line for each job
    metrics.json   the aggregates, whole and by class, width, pool and user
    outcomes.npz   the columns of `Outcomes`, from which reports are made again
    journal.jsonl  every event and decision (not in comparisons)
    predictions.csv  what was predicted at every event (with ``refresh`` only)

A file that is being written has ``.partial`` at the end of its name. A ``run.json`` whose status is
still "running" is of a run that is going on, or was killed.
"""

import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import msgspec
import numpy as np

import volvelle
from volvelle.core.composition import WrittenComposition
from volvelle.core.journal import read_journal
from volvelle.metrics.jobs_table import write_jobs
from volvelle.metrics.outcomes import Choice, Outcomes, ProfiledJobs, Promised, Segments, Steps
from volvelle.metrics.recorder import outcomes_of
from volvelle.metrics.summary import Summary, summarise
from volvelle.model.cluster import Cluster
from volvelle.model.job import JobSpec
from volvelle.model.power import Power
from volvelle.model.problems import Problem, cannot_write
from volvelle.simulate.predict import write_predictions
from volvelle.simulate.run import Setting, Simulation
from volvelle.simulate.synthesis import SYNTHESIZER, Synthesis

FORMAT = 1


RECORD, JOBS, METRICS, OUTCOMES, JOURNAL, PREDICTIONS = (
    "run.json",
    "jobs.csv",
    "metrics.json",
    "outcomes.npz",
    "journal.jsonl",
    "predictions.csv",
)


class RunStatus(StrEnum):
    """How a run ended, if it did."""

    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of run.json. ``workload`` says where the jobs come from and how many there are."""

    format: int = FORMAT
    name: str
    status: RunStatus = RunStatus.RUNNING
    workload: dict[str, Any]
    cluster: Cluster
    composition: WrittenComposition
    overheads: dict[str, float | None]
    seed: int
    tick: float | None = None
    until: float | None = None
    tracked: tuple[int, int] | None = None
    predict: bool = False
    refresh: bool = False
    synthesis: Synthesis | None = None
    users: dict[str, Any] | None = None
    power: Power | None = None
    started: str = ""
    versions: dict[str, str] = {}
    cpu_seconds: float | None = None
    events: int | None = None
    moments: int | None = None
    asked: int = 0
    asked_seconds: float = 0.0

    @classmethod
    def of(cls, name: str, workload: dict[str, Any], setting: Setting) -> "RunRecord":
        """The record of a run that is about to begin."""
        return cls(
            name=name,
            workload=workload,
            **vars(setting)
            | {
                "overheads": setting.overheads.model_dump(),
                "users": None if setting.users is None else setting.users.model_dump(mode="json"),
            },
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            versions=_versions(),
        )

    @property
    def composition_parts(self) -> dict[str, str]:
        """The parts of the composition by kind, as they are written."""
        parts: dict[str, str] = msgspec.structs.asdict(self.composition)
        if self.synthesis is not None:
            parts |= {"policy": SYNTHESIZER, "admission": SYNTHESIZER}
        return parts

    def ended(self, simulation: Simulation) -> "RunRecord":
        """The record of the run that gave ``simulation``."""
        return msgspec.structs.replace(
            self,
            status=RunStatus.INTERRUPTED if simulation.interrupted else RunStatus.FINISHED,
            cpu_seconds=simulation.cpu_seconds,
            events=simulation.events,
            moments=simulation.moments,
            asked=simulation.asked,
            asked_seconds=simulation.asked_seconds,
        )

    def describes_same(self, other: "RunRecord") -> bool:
        """Whether both have the same configuration and versions, so the same results."""
        unalike = {"name": "", "status": RunStatus.RUNNING, "started": ""}
        measured: dict[str, Any] = {"cpu_seconds": None, "events": None, "moments": None}
        measured |= {"asked": 0, "asked_seconds": 0.0}
        alike = [msgspec.structs.replace(r, **unalike, **measured) for r in (self, other)]
        return msgspec.json.encode(alike[0]) == msgspec.json.encode(alike[1])


@cache
def _versions() -> dict[str, str]:
    packages = ("numpy", "numba", "msgspec")
    return {
        "volvelle": volvelle.__version__,
        "python": platform.python_version(),
        **{package: version(package) for package in packages},
    }


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """Yields where to write; the file is at ``path`` only once it is complete.

    Unfinished files are removed. Raises `Problem` naming the file where writing fails.
    """
    partial = path.with_name(f"{path.name}.partial")
    try:
        yield partial
        partial.replace(path)
    except BaseException as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise cannot_write(path, error) from error
        raise


def prepare(directory: Path, marker: str = RECORD) -> None:
    """Make ``directory`` for results; an earlier one of ours is reused.

    Raises `Problem` where something else is in it.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        strange = [path.name for path in directory.iterdir() if not path.name.endswith(".partial")]
    except OSError as error:
        why = error.strerror
        if isinstance(error, FileNotFoundError):  # as below /proc
            why = f"{directory.parent} takes no new folders"
        raise Problem(f"cannot make {directory}: {why}", mend="choose another") from None
    if strange and marker not in strange:
        raise Problem(
            f"{directory} has other files in it ({min(strange)})",
            mend="name a new folder with --out",
        )


def begin(directory: Path, record: RunRecord) -> None:
    """Write run.json of a run that begins; what an earlier run left is removed."""
    clear(directory)
    write_record(directory, record)


def clear(directory: Path) -> None:
    """Remove what a run left in ``directory``, so that it is not taken for the next one's."""
    files = (RECORD, JOBS, METRICS, OUTCOMES, JOURNAL, PREDICTIONS, "report.html")
    for path in (*(directory / name for name in files), *directory.glob("*.png")):
        path.unlink(missing_ok=True)


def write_record(directory: Path, record: RunRecord) -> None:
    """Write run.json."""
    with written(directory / RECORD) as path:
        path.write_bytes(_indented(record))


def mark(directory: Path, record: RunRecord, status: RunStatus) -> None:
    """Say in run.json how a run ended that gave nothing, if the disk still lets us."""
    with suppress(Problem):
        write_record(directory, msgspec.structs.replace(record, status=status))


def finish(directory: Path, record: RunRecord, simulation: Simulation) -> Summary:
    """Write what a run gave, run.json last."""
    outcomes = simulation.outcomes
    summary = summarise(outcomes)
    with written(directory / JOBS) as path:
        write_jobs(outcomes, path)
    with written(directory / METRICS) as path:
        path.write_bytes(_indented(summary.as_json()))
    with written(directory / OUTCOMES) as path:
        write_outcomes(outcomes, path)
    if record.refresh:
        with written(directory / PREDICTIONS) as path:
            write_predictions(simulation.refreshed, [spec.id for spec in outcomes.specs], path)
    write_record(directory, record.ended(simulation))
    return summary


def read_record(directory: Path) -> RunRecord:
    """The record in run.json. Raises `Problem` naming the file."""
    path = directory / RECORD
    try:
        record = msgspec.json.decode(path.read_bytes(), type=RunRecord)
    except (FileNotFoundError, NotADirectoryError):
        raise Problem(
            f"{directory} is not a run directory: it has no {RECORD}",
            mend="name one that volvelle simulate or compare wrote",
        ) from None
    except msgspec.DecodeError as error:
        raise Problem(f"{path} cannot be read: {error}") from None
    except OSError as error:
        raise Problem(f"cannot read {path}: {error.strerror}") from None
    if record.format > FORMAT:
        raise Problem(
            f"{path} is of format {record.format}, this Volvelle reads up to {FORMAT}",
            mend="install a newer Volvelle",
        )
    return record


def read_outcomes(
    directory: Path, record: RunRecord, specs: Sequence[JobSpec] | None = None
) -> Outcomes:
    """Outcomes of the jobs: from outcomes.npz, or folded from the journal. Raises `Problem`.

    specs: of the workload, where they are at hand and need not be read.
    """
    path = directory / OUTCOMES
    if path.is_file():
        return load_outcomes(path, specs)
    journal = directory / JOURNAL
    if not journal.is_file():
        raise Problem(
            f"{directory} has neither {OUTCOMES} nor {JOURNAL}: its run is {record.status.value}",
            mend="run it again",
        )
    outcomes = outcomes_of(*read_journal(journal))
    if record.tracked is None:
        return outcomes
    rows = np.arange(len(outcomes))
    return outcomes.tracking((rows >= record.tracked[0]) & (rows <= record.tracked[1]))


_QUICK = 1
"""The level at which columns are packed: a third of the time of the default, a quarter more bytes."""

_WRITTEN: dict[str, Any] = {
    "reason": list[str],
    "choices": tuple[Choice, ...],
    "promises": tuple[Promised, ...],
}
"""Parts of the archive that are JSON."""

_NESTED: dict[str, type[Segments] | type[Steps] | type[ProfiledJobs]] = {
    "segments": Segments,
    "capacity": Steps,
    "profiled": ProfiledJobs,
}


def write_outcomes(outcomes: Outcomes, path: Path) -> None:
    """Write the columns as a NumPy archive; specs and what is `_WRITTEN` are JSON inside it."""
    columns: dict[str, Any] = {
        "specs": _bytes(msgspec.json.encode(list(outcomes.specs))),
        **{name: _bytes(msgspec.json.encode(getattr(outcomes, name))) for name in _WRITTEN},
    }
    for field in fields(Outcomes):
        value = getattr(outcomes, field.name)
        if value is None:
            continue
        if field.name in _NESTED:
            for inner in fields(_NESTED[field.name]):
                columns[f"{field.name}.{inner.name}"] = getattr(value, inner.name)
        elif field.name not in columns:
            columns[field.name] = value
    with ZipFile(path, "w", ZIP_DEFLATED, compresslevel=_QUICK) as archive:
        for name, column in columns.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asarray(column), allow_pickle=False)


def load_outcomes(path: Path, specs: Sequence[JobSpec] | None = None) -> Outcomes:
    """Read what `write_outcomes` wrote, all but ``specs`` that are given. Raises `Problem`."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            wanted = [name for name in archive.files if name != "specs" or specs is None]
            columns: dict[str, Any] = {name: archive[name] for name in wanted}
        if specs is None:
            columns["specs"] = msgspec.json.decode(columns["specs"].tobytes(), type=list[JobSpec])
        else:
            columns["specs"] = list(specs[: len(columns["submit_time"])])
        for name, written in _WRITTEN.items():
            columns[name] = msgspec.json.decode(columns[name].tobytes(), type=written)
        for name in ("end_time", "solver_gap", "energy_kwh", "carbon_kg"):
            if name in columns:
                columns[name] = float(columns[name])
        for name, kind in _NESTED.items():
            if name == "profiled" and f"{name}.start" not in columns:
                continue
            inner = {field.name: columns.pop(f"{name}.{field.name}") for field in fields(kind)}
            columns[name] = kind(**inner)
        return Outcomes(**columns)
    except (OSError, ValueError, KeyError, TypeError, EOFError, msgspec.DecodeError) as error:
        raise Problem(f"{path} cannot be read: {error}", mend="run it again") from None


def _indented(document: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _bytes(text: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.frombuffer(text, dtype=np.uint8)
