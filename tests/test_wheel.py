"""The wheel brings machine code for every part that it has."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RUN_ALL = """
import sys
sys.modules["numba"] = None
from contextlib import suppress
from volvelle.core.machine_code import arrays, loading
from volvelle.model.problems import Problem
from volvelle.simulate.machine_code import settings, workload
from volvelle.simulate.run import simulate
arrays.INTERPRETED_SECONDS = 0.0
for setting in settings():
    with suppress(Problem):
        for compiled in (True, False):
            simulate(workload(), setting, compiled=compiled)
print(sum(not isinstance(each, loading.Loaded) for each in loading._loaded.values()))
"""


@pytest.mark.slow
def test_an_installed_wheel_compiles_nothing_and_writes_nothing(tmp_path: Path) -> None:
    built = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "src", tmp_path / "source" / "src", ignore=built)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / "source")
    options = ("--no-index", "--no-build-isolation", "--no-deps", "--wheel-dir", str(tmp_path))
    pip = (sys.executable, "-m", "pip", "-q")
    subprocess.run([*pip, "wheel", *options, str(tmp_path / "source")], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert f"-cp{sys.version_info.major}{sys.version_info.minor}-none-" in wheel.name
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(tmp_path / "installed")
    before = sorted((tmp_path / "installed").rglob("*"))
    ran = subprocess.run(
        [sys.executable, "-B", "-c", RUN_ALL],
        env={
            **os.environ,
            "PYTHONPATH": str(tmp_path / "installed"),
            "VOLVELLE_MACHINE_CODE": str(tmp_path / "cache"),
        },
        check=True,
        capture_output=True,
        text=True,
    )
    assert ran.stdout == "0\n"
    assert not (tmp_path / "cache").exists()
    assert sorted((tmp_path / "installed").rglob("*")) == before
