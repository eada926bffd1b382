"""Inputs of studies: a folder with artifacts' files and reference results, fetched where they are public.

Its layout is ``data/ARTIFACT`` for inputs and ``golden/SYSTEM`` for results of reference simulators. The
environment variable `VARIABLE` names it to the programs; without one it is ``shared`` beside the repository.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from volvelle.model.problems import Problem
from volvelle.studies.registry import Study
from volvelle.workload.fetching import (
    Progress,
    PublishedFile,
    PublishedTrace,
    fetch,
    published_trace,
    sha256,
)

VARIABLE = "VOLVELLE_STUDY_INPUTS"
"""Read by ``experiments/findings.py`` and ``tests/conftest.py``."""

Say = Callable[[str], None]


def artifacts(study: Study) -> Iterator[PublishedTrace]:
    """The public artifacts of which a study reads files."""
    for name in study.needs:
        if "/" not in name:
            yield published_trace(name)


def absent(artifact: PublishedTrace, inputs: Path) -> list[PublishedFile]:
    """The files of an artifact that the folder lacks, and for which nothing else serves."""
    return [
        file
        for file in artifact.files
        if not (inputs / artifact.place / file.name).is_file()
        and not (file.instead and (inputs / file.instead).is_file())
    ]


def missing(study: Study, inputs: Path) -> list[str]:
    """The inputs of a study that the folder lacks, in words with what to put where."""
    lacking = [
        f"{one.place} ({one.title}: {one.page})" for one in artifacts(study) if absent(one, inputs)
    ]
    return lacking + [
        f"{name} (results of the reference simulator, in the columns that its golden test reads)"
        for name in study.needs
        if "/" in name and not (inputs / name).exists()
    ]


def fetched(
    artifact: PublishedTrace, inputs: Path, say: Say, progress: Progress | None = None
) -> None:
    """Fetch the files of an artifact that the folder lacks, and say licence and hashes.

    Raises `Problem`, which says what to put where.
    """
    folder = inputs / artifact.place
    say(f"{artifact.title}; licence: {artifact.licence} ({artifact.page})")
    for file in absent(artifact, inputs):
        try:
            found = fetch(file, folder, progress)
        except Problem as problem:
            raise Problem(
                str(problem.args[0]),
                mend=f"put {file.url} as {file.name} into {folder}, or say --data FOLDER",
            ) from None
        say(f"{folder / file.name}: SHA-256 {found}{_as_studied(file, found)}")


def changed(artifact: PublishedTrace, inputs: Path) -> list[str]:
    """The files of an artifact that are not those from which the committed results were made."""
    files = [(f"{artifact.place}/{file.name}", file.studied) for file in artifact.files]
    return [
        name
        for name, studied in files
        if studied and (inputs / name).is_file() and sha256(inputs / name) != studied
    ]


def traces(study: Study, inputs: Path) -> list[str]:
    """The files that the program is given."""
    return [str(path) for path in sorted(inputs.glob(study.traces))] if study.traces else []


def _as_studied(file: PublishedFile, found: str) -> str:
    if not file.studied:
        return ""
    same = found == file.studied
    return ", as studied" if same else f", another file than was studied ({file.studied})"
