"""The units of ``docs/how-to/run-under-systemd.md`` are what systemd understands."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import shown

PAGE = shown.ROOT / "docs" / "how-to" / "run-under-systemd.md"
UNITS = {
    block.file: "\n".join(block.text)
    for block in shown.blocks(PAGE.read_text(encoding="utf-8"))
    if block.file.endswith(".service")
}


def verified(folder: Path, name: str, text: str) -> subprocess.CompletedProcess[str]:
    """What systemd says of a unit; its program is one that is there."""
    unit = folder / name
    unit.write_text(text.replace("/opt/volvelle/bin/volvelle", sys.executable), encoding="utf-8")
    return subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["volvelle-serve.service", "volvelle-agent.service"])
def test_systemd_has_nothing_to_say_against_the_units(tmp_path: Path, name: str) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed here")
    said = verified(tmp_path, name, UNITS[name])
    assert (said.returncode, said.stderr) == (0, "")
    wrong = verified(tmp_path, name, UNITS[name].replace("Restart=", "Restarts="))
    assert "Restarts" in wrong.stderr


@pytest.mark.parametrize("name", UNITS)
def test_jobs_outlive_the_processes_that_started_them(name: str) -> None:
    assert "KillMode=process" in UNITS[name].splitlines()
