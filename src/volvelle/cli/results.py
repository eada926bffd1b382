"""Where results go; what an earlier command left there is replaced with ``--force`` only."""

from pathlib import Path

from volvelle.model.problems import Problem, cannot_write

REPORT = "report.html"
OF_RUN = ("outcomes.*", "journal.jsonl", REPORT)
OF_COMPARISON = ("runs/*/outcomes.*", REPORT)


def free_folder(folder: Path, *results: str, force: bool, scratch: bool = False) -> Path:
    """``folder``, if none of ``results`` (patterns of files) is in it or they may be replaced.

    scratch: what is there is replaced without being asked, which is remarked on. Raises `Problem`.
    """
    if not force and any(next(folder.glob(pattern), None) for pattern in results):
        if not scratch:
            left = unfinished(folder)
            rest = f"make the rest with --resume ({', '.join(left)}), " if left else ""
            raise Problem(
                f"{folder} has results of an earlier command",
                mend=f"{rest}choose another folder with --out, or replace them with --force",
            )
        from volvelle.cli.output import remark

        remark(f"note: replaces the earlier results in {folder}")
    return folder


def unfinished(folder: Path) -> list[str]:
    """The runs of a comparison in ``folder`` that failed or were interrupted, if others finished."""
    made = {path.parent.name for path in folder.glob("runs/*/outcomes.*")}
    begun = {path.parent.name for path in folder.glob("runs/*/run.json")}
    return sorted(begun - made) if made else []


def own_folder(default: Path, *results: str, force: bool = False, resume: bool = False) -> Path:
    """The folder of a command that names none: ``default``, ``default-2`` ..., the first without ``results``.

    resume: the last of them that has results. force: ``default``.
    """
    last, folder, number = default, default, 1
    while not force and any(next(folder.glob(pattern), None) for pattern in results):
        number += 1
        last, folder = folder, default.with_name(f"{default.name}-{number}")
    return last if resume else folder


def free_file(file: Path, *, force: bool) -> Path:
    """``file``, if it is not there or may be replaced. Raises `Problem`."""
    if not force and file.is_file():
        raise Problem(
            f"{file} is there already", mend="choose another name, or replace it with --force"
        )
    return file


def write_text(file: Path, text: str) -> None:
    """Write a file. Raises `Problem`."""
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise cannot_write(file, error) from None
