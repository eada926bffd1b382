"""The entry point: all commands (`volvelle.cli.commands`), and how errors end.

Exit status: 0 done, 1 failed, 2 misused, 130 interrupted. A `Problem` is printed in one line; any
other exception is a mistake of ours and keeps its traceback.
"""

import atexit
import gc
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

import volvelle
from volvelle.cli.commands import Commands

app = typer.Typer(
    name="volvelle",
    cls=Commands,
    help="A scheduler for GPU clusters that train models: simulate, compare, predict, tune, run.",
    epilog="Two minutes: volvelle compare --demo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        import platform

        print(f"volvelle {volvelle.__version__}{_commit()}, Python {platform.python_version()}")
        raise typer.Exit


def _commit() -> str:
    """The commit, in brackets: of a wheel, as noted when it was built; of a checkout, as git says."""
    import subprocess

    noted = Path(volvelle.__file__).with_name("commit")
    command = ["git", "-C", str(noted.parent), "describe", "--always", "--dirty", "--exclude=*"]
    with suppress(OSError):
        if noted.exists():
            return f" ({noted.read_text().strip()})"
        if (noted.parents[2] / ".git").exists():
            said = subprocess.run(command, capture_output=True, text=True, check=False)
            return f" ({said.stdout.strip()})" if said.returncode == 0 else ""
    return ""


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    """Options that stand before the commands."""


def main() -> None:
    """Run the command line and end the process."""
    # Cycles are rare among jobs and columns, and looking for them means walking all that is imported.
    gc.set_threshold(100_000, 20, 20)
    atexit.register(gc.freeze)  # nor is there anything to find at the end, when Python looks again
    command = sys.argv[1] if sys.argv[1:] else ""
    if command in _COMPUTING:
        # NumPy's BLAS starts threads that look for work at once; there are no large matrices here. With one
        # thread sums do not depend on the number of processors either.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if command in _COMPILING:
        from volvelle.core.compiled import announce

        announce(_say_that_it_compiles)
    try:
        app()
    except SystemExit as end:
        sys.exit(_flushed(end.code))
    except BrokenPipeError:
        _forget_stdout()
        sys.exit(1)
    except OSError as error:
        if error.filename is None and error.strerror is None:
            raise
        where = f" {error.filename}" if error.filename else ""
        sys.exit(_said(f"{error.strerror}:{where}" if where else str(error.strerror)))
    except Exception as error:
        sys.exit(_failed(error, command))


def _failed(error: Exception, command: str) -> int:
    """The status after ``error``, whose problem is printed; a mistake of ours is raised again."""
    from volvelle.model.extras import missing
    from volvelle.model.problems import Problem

    lacking = isinstance(error, ModuleNotFoundError) and missing(error, f"volvelle {command}")
    problem = lacking or error
    if not isinstance(problem, Problem):
        raise error
    status = _said(str(problem), 2 if problem.usage else 1)
    if problem.options:
        import shlex

        print(
            f"Paste: {shlex.join(['volvelle', *sys.argv[1:]])} {problem.options}", file=sys.stderr
        )
    return status


_COMPUTING = frozenset(("simulate", "compare", "tune", "report", "trace", "list"))
"""Commands that start no programs of others."""
_COMPILING = _COMPUTING | {"serve"}
"""Commands that may compile inner loops."""


def _say_that_it_compiles() -> None:
    print("Compiling inner loops, once for this version ...", file=sys.stderr, flush=True)


def _said(message: str, status: int = 1) -> int:
    print(f"error: {message}", file=sys.stderr)
    return status


def _flushed(status: str | int | None) -> str | int | None:
    """The exit status, or 1 where what was printed cannot be delivered."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()
        return 1
    except OSError as error:
        _forget_stdout()
        return _said(f"cannot write the output: {error.strerror}")
    return status


def _forget_stdout() -> None:
    """Keep the interpreter from trying again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


if __name__ == "__main__":
    main()
