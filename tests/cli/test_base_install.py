"""Commands without the extras: what they need is said in a sentence, never by a traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

_WITHOUT = r"""
import sys
from importlib.metadata import requires
from re import match

for each in requires("volvelle"):
    brought = match(r"([\w-]+).*extra == ", each)
    if brought:
        sys.modules[brought[1].lower().replace("pyyaml", "yaml").replace("-", "_")] = None
from volvelle.cli.main import main
main()
"""


def without_extras(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _WITHOUT, *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env={"PATH": "", "HOME": str(folder)},
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    "command",
    [
        "serve --gpus 2 --executor local:pretend=true --port 0",
        "serve --demo --port 0",
        "agent --connect 127.0.0.1:1 --node a --gpus 1 --pretend",
        "backup copy.db",
        "restore copy.db",
    ],
)
def test_a_missing_module_is_named_with_the_extra_that_brings_it(
    tmp_path: Path, command: str
) -> None:
    ran = without_extras(tmp_path, *command.split())
    assert ran.returncode == 1
    name = command.partition(" ")[0]
    assert ran.stderr.startswith(f"error: volvelle {name} needs "), ran.stderr
    assert ran.stderr.endswith(" Install it: pip install -e '.[live]'.\n")
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["list", "--help", "serve --help"])
def test_lists_and_helps_need_no_extra(tmp_path: Path, command: str) -> None:
    ran = without_extras(tmp_path, *command.split())
    assert (ran.returncode, ran.stderr) == (0, "")
