"""Fixtures of the command line's tests."""

import sys
from pathlib import Path

import pytest
from command_line import Ran, Volvelle

from volvelle.cli.main import main


@pytest.fixture
def volvelle(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Volvelle:
    """Runs a command in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["volvelle", *map(str, arguments)])
        capsys.readouterr()
        status = 0
        try:
            main()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        captured = capsys.readouterr()
        return Ran(status, captured.out, captured.err)

    return run


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Six jobs for a cluster of eight GPUs."""
    path = tmp_path / "small.csv"
    path.write_text(
        "id,submit_time,gpus,duration,user\n"
        "a,0,4,1000,ann\nb,10,8,500,bob\nc,20,1,50,ann\nd,30,2,3000,bob\ne,40,8,10,ann\nf,50,1,20,bob\n"
    )
    return path
