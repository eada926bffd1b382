"""Studies run anew, their tables held against the committed ones cell by cell."""

import csv
import hashlib
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import volvelle
from volvelle.studies import inputs as reads
from volvelle.studies.registry import Registry, Study

NEAR = 1e-9
"""Numbers are equal within this part of them: the last digits are the processor's."""


@dataclass(frozen=True)
class Reproduced:
    """A study that was run. seconds: CPU time. cells: compared ones; apart: differing ones by column.

    failed, skipped: why it made no table, or nothing to compare it with; "".
    replaced: the committed results were replaced by those made, once compared.
    """

    study: Study
    seconds: float = 0.0
    cells: int = 0
    apart: dict[str, int] | None = None
    failed: str = ""
    skipped: str = ""
    replaced: bool = False

    @property
    def ran(self) -> bool:
        """Whether there is a table, with whatever cells."""
        return not (self.skipped or self.failed)

    @property
    def as_committed(self) -> bool:
        """Whether what is committed now is what was made."""
        return self.ran and (self.replaced or not self.apart)

    def __str__(self) -> str:
        """One line."""
        if not self.ran:
            return f"{self.study.name}: {self.skipped or self.failed}"
        counts = ", ".join(f"{column} {count}" for column, count in (self.apart or {}).items())
        apart = sum((self.apart or {}).values())
        said = (
            f"{apart} of {self.cells:,} cells differ{'ed' * self.replaced} ({counts})"
            if apart
            else f"{self.cells:,} cells, every one equal"
        )
        return f"{self.study.name}: {said} ({self.seconds:.1f} s of CPU)"


@dataclass(frozen=True)
class Run:
    """How studies are run: inputs, the folder of results, whether at their small sizes.

    replace: the committed results are compared with those made, then replaced by them.
    """

    registry: Registry
    inputs: Path
    out: Path
    small: bool = False
    replace: bool = False

    def folder(self, study: Study) -> Path:
        """The folder of a study's page, table and pictures."""
        return self.out / study.folder / study.stem

    def command(self, study: Study) -> list[str]:
        """The command of the study."""
        program = str(self.registry.experiments / study.run_by)
        size = (study.small or "").split() if self.small else []
        traces = reads.traces(study, self.inputs)
        given = [*(traces[:1] if self.small else traces), *study.arguments.split(), *size]
        return [sys.executable, program, *given, "--out", str(self.folder(study))]

    def kept(self, study: Study, command: Sequence[str]) -> Path:
        """The folder of what an interrupted run of this command measured, by code that is the same."""
        sources = [Path(volvelle.__file__).parent, self.registry.experiments / study.folder]
        digest = hashlib.sha256(repr(command).encode())
        for file in sorted(file for folder in sources for file in folder.rglob("*.py")):
            digest.update(file.read_bytes())
        return self.folder(study) / f"kept-{digest.hexdigest()[:12]}"

    def all(
        self,
        studies: Sequence[Study],
        begins: Callable[[Study], None],
        done: Callable[[Reproduced], None],
    ) -> list[Reproduced]:
        """Run the studies, small ones at once on all processors, with a call before and after each."""

        def one(study: Study) -> Reproduced:
            begins(study)
            result = self.one(study)
            done(result)
            return result

        at_once = len(os.sched_getaffinity(0)) if self.small else 1
        with ThreadPoolExecutor(at_once) as threads:
            return list(threads.map(one, studies))

    def one(self, study: Study) -> Reproduced:
        """Run a study, and hold its table against the committed one."""
        if self.small and study.small is None:
            return Reproduced(study, skipped="skipped, it has no small size")
        if lacking := reads.missing(study, self.inputs):
            what = "; ".join(lacking)
            return Reproduced(study, skipped=f"skipped, {self.inputs} lacks {what}")
        folder = self.folder(study)
        folder.mkdir(parents=True, exist_ok=True)
        log, command = folder / "printed.txt", self.command(study)
        kept = self.kept(study, command) if study.keeps and not self.small else None
        goes_on = kept is not None and kept.is_dir()
        with log.open("w") as printed:
            process = subprocess.Popen(
                [*command, "--keep", str(kept)] if kept else command,
                cwd=self.registry.root,
                env={**os.environ, reads.VARIABLE: str(self.inputs)},
                stdout=printed,
                stderr=subprocess.STDOUT,
            )
            _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = used.ru_utime + used.ru_stime
        made, committed = folder / f"{study.stem}.csv", self.registry.table(study, small=self.small)
        if process.returncode or not made.is_file():
            return Reproduced(
                study, seconds, failed=f"failed after {seconds:.0f} s of CPU, see {log}"
            )
        if not self.replace and not committed.is_file():
            return Reproduced(
                study, seconds, failed=f"no table is committed to compare {made} with"
            )
        before = committed if committed.is_file() else made
        cells, apart = compared(before, made, study.measured)
        if self.replace:
            self._commit(study, None if goes_on else seconds)
        if kept:
            shutil.rmtree(kept)
        return Reproduced(study, seconds, cells, apart, replaced=self.replace)

    def _commit(self, study: Study, seconds: float | None) -> None:
        """Replace the committed table, and in the whole size page, pictures and time, where it is known."""
        if not self.small and seconds is not None:
            self.registry.took(study, seconds)
        results = self.registry.table(study, small=self.small).parent
        results.mkdir(exist_ok=True)
        of_study = (
            (f"{study.stem}.csv",) if self.small else (f"{study.stem}.*", f"{study.stem}-*.png")
        )
        for pattern in of_study:
            for made in self.folder(study).glob(pattern):
                shutil.copy(made, results)


def compared(committed: Path, made: Path, measured: Sequence[str]) -> tuple[int, dict[str, int]]:
    """How many cells two tables have, and how many differ, by column; ``measured`` ones are left out."""
    with committed.open(newline="") as before, made.open(newline="") as now:
        heads, *old = csv.reader(before)
        heads_now, *new = csv.reader(now)
    if heads != heads_now or len(old) != len(new):
        return len(old) * len(heads), {"rows and columns": max(len(old), len(new)) * len(heads)}
    kept = {place: head for place, head in enumerate(heads) if head not in measured}
    apart = {
        head: sum(not _equal(a[place], b[place]) for a, b in zip(old, new, strict=True))
        for place, head in kept.items()
    }
    return len(old) * len(kept), {head: count for head, count in apart.items() if count}


def _equal(before: str, now: str) -> bool:
    if before == now:
        return True
    try:
        return math.isclose(float(before), float(now), rel_tol=NEAR, abs_tol=NEAR)
    except ValueError:
        return False
