"""The command line as a test calls it, and how it ended."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Ran:
    """How a command ended and what it printed."""

    status: int
    out: str
    err: str


Volvelle = Callable[..., Ran]


def command(*arguments: object) -> list[str]:
    """A command line for a process of its own."""
    return [sys.executable, "-m", "volvelle.cli.main", *map(str, arguments)]


def run_apart(*arguments: object, cwd: Path) -> Ran:
    """Runs a command in a process of its own."""
    ran = subprocess.run(
        command(*arguments), cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)
