"""``volvelle reproduce``: the studies of papers, run anew and held against their committed tables."""

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volvelle.report.table import Table
    from volvelle.studies.registry import Registry, Study
    from volvelle.studies.running import Reproduced, Run

EXACTNESS = "exactness"
GOLDEN = ("tests/golden", "tests/systems/elasticflow")
_LONG = 60.0
"""Seconds of a study whose time is said before."""


def reproduce(
    paper: Annotated[
        str | None,
        typer.Argument(
            metavar="PAPER", help="blox, pcs, chronus, anticipatory, shockwave, pal; or exactness."
        ),
    ] = None,
    figure: Annotated[
        str | None, typer.Option(metavar="N", help="Those of a figure or table.")
    ] = None,
    study: Annotated[str | None, typer.Option(metavar="NAME", help="One, as listed.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All of them, which takes a day.")] = False,
    small: Annotated[
        bool, typer.Option("--small", help="At small sizes: a minute or two for all.")
    ] = False,
    listed: Annotated[bool, typer.Option("--list", help="Only say which there are.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Inputs; public ones that it lacks are fetched.  "
            "[default: shared beside the repository, or inputs in --out]",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Pages, tables and pictures.")] = Path(
        "reproduced"
    ),
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the committed results by those made.")
    ] = False,
    studies: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The repository, if not around here.")
    ] = None,
) -> None:
    """Run the studies of a paper anew, compare with the committed tables, draw its curves and ours.

    volvelle reproduce pcs --figure 7

    volvelle reproduce --all --small

    volvelle reproduce exactness
    """
    from volvelle.cli.options import Form
    from volvelle.cli.output import show
    from volvelle.model.problems import Problem
    from volvelle.studies.registry import Registry
    from volvelle.studies.running import Run

    registry = Registry.find(studies)
    beside = registry.root.parent / "shared"
    inputs = (data or (beside if beside.is_dir() else out / "inputs")).resolve()
    if paper == EXACTNESS:
        raise typer.Exit(_exactness(registry, inputs))
    if not (paper or figure or study or every or listed):
        raise Problem(
            "name a paper, --figure, --study or --all",
            mend="--list says which there are",
            usage=True,
        )
    chosen = registry.chosen(paper, figure, study)
    if listed:
        show(_listed(registry, chosen), Form.TABLE)
        return
    run = Run(registry, inputs, out.resolve(), small, replace)
    _fetch(run, chosen)
    results = run.all(chosen, partial(_announce, run), lambda one: print(one, flush=True))
    if not small:  # whose claims would say nothing
        _write_pages(run, [one for one in results if one.ran])
    same = sum(one.as_committed for one in results)
    skipped = sum(bool(one.skipped) for one in results)
    print(f"{same} of {len(results)} as committed, {skipped} skipped; pages in {out}")
    if same + skipped < len(results):
        raise typer.Exit(1)


def _announce(run: "Run", study: "Study") -> None:
    """A remark before what takes long."""
    from volvelle.cli.output import remark
    from volvelle.studies.pages import took

    seconds = run.registry.seconds.get(study.name, 0.0)
    if seconds < _LONG or run.small:
        return
    kept = "; an interrupted run goes on where it was" if study.keeps else ""
    remark(f"{study.name} took {took(seconds)} of CPU when its table was made{kept}")


def _listed(registry: "Registry", chosen: "Sequence[Study]") -> "Table":
    from volvelle.report.table import Column, Table
    from volvelle.studies.pages import took
    from volvelle.studies.registry import sections

    heads = ("paper", "where", "study", "CPU time", "small size", "needs")
    columns = [Column(key, key) for key in heads]
    rows = [
        (
            paper.title,
            one.where,
            one.name,
            took(registry.seconds.get(one.name)),
            _size(one.small),
            ", ".join(one.needs),
        )
        for paper, studies in sections(chosen, registry.papers)
        for one in studies
    ]
    return Table("", tuple(columns), tuple(rows))


def _size(small: str | None) -> str:
    return "none" if small is None else small or "the whole"


def _fetch(run: "Run", chosen: "Sequence[Study]") -> None:
    """Fetch what is public and lacks; without a network only the studies that need it are skipped."""
    from volvelle.cli.output import progress, remark
    from volvelle.model.problems import Problem
    from volvelle.studies import inputs

    artifacts = dict.fromkeys(one for study in chosen for one in inputs.artifacts(study))
    for artifact in artifacts:
        if inputs.absent(artifact, run.inputs):
            try:
                with progress("fetching", "bytes") as update:
                    inputs.fetched(artifact, run.inputs, remark, update)
            except Problem as problem:
                remark(f"note: {problem}")
    changed = [file for artifact in artifacts for file in inputs.changed(artifact, run.inputs)]
    if changed:
        remark(f"note: not the files that were studied, so cells may differ: {', '.join(changed)}")


def _write_pages(run: "Run", made: "Sequence[Reproduced]") -> None:
    from volvelle.studies.pages import Results, write_page
    from volvelle.studies.registry import sections

    root, seconds = str(run.registry.root), {one.study.name: one.seconds for one in made}
    results = Results(run.folder, lambda study: study.name, root, seconds)
    for paper, studies in sections([one.study for one in made], run.registry.papers):
        write_page(paper, studies, results, run.out / f"{paper.name}.md")


def _exactness(registry: "Registry", inputs: Path) -> int:
    """Run the golden tests on the reference results, a file after another; the exit status."""
    from importlib.util import find_spec

    from volvelle.model.extras import install
    from volvelle.model.problems import Problem

    golden = inputs / "golden"
    if not golden.is_dir():
        raise Problem(
            f"there are no results of reference simulators in {golden}",
            mend="tests/golden/README.md says whose and what to put where; --data names the folder above",
        )
    if find_spec("pytest") is None:
        raise Problem("pytest is not installed", mend=install("testing"))
    files = [
        file for folder in GOLDEN for file in sorted((registry.root / folder).glob("test_*.py"))
    ]
    failed = [file for file in files if not _golden_file(registry.root, file, inputs)]
    return int(bool(failed))


def _golden_file(root: Path, file: Path, inputs: Path) -> bool:
    """Run the golden tests of a file and print how many passed, in what time; whether none failed."""
    import resource
    import subprocess

    from volvelle.studies.inputs import VARIABLE

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-o",
        "addopts=",
        "-q",
        "-rs",
        "-m",
        "not slow",
        str(file),
    ]
    environment = {**os.environ, VARIABLE: str(inputs)}
    ran = subprocess.run(
        command, check=False, cwd=root, env=environment, capture_output=True, text=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    lines = ran.stdout.splitlines() or [ran.stderr.strip()]
    print(
        f"{file.stem.removeprefix('test_')}: {lines[-1].partition(' in ')[0]} ({seconds:.0f} s of CPU)"
    )
    passed = ran.returncode in (0, 5)  # 5: none is collected
    said = [line for line in lines if line.startswith("SKIPPED")] if passed else lines
    print("".join(f"  {line}\n" for line in said), end="", flush=True)
    return passed
