"""The wheel brings machine code for every part that it has, and the checks for parts of others."""

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


PIP = (sys.executable, "-m", "pip", "-q")
OFFLINE = ("--no-index", "--no-build-isolation", "--no-deps")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which a wheel, made of the sources, is installed."""
    tmp_path = tmp_path_factory.mktemp("wheel")
    built = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "src", tmp_path / "source" / "src", ignore=built)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / "source")
    made = [*PIP, "wheel", *OFFLINE, "--wheel-dir", str(tmp_path), str(tmp_path / "source")]
    subprocess.run(made, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert f"-cp{sys.version_info.major}{sys.version_info.minor}-none-" in wheel.name
    with zipfile.ZipFile(wheel) as opened:
        assert not [name for name in opened.namelist() if name.endswith((".pyc", ".md"))]
        opened.extractall(tmp_path / "installed")
    return tmp_path / "installed"


@pytest.mark.slow
def test_an_installed_wheel_compiles_nothing_and_writes_nothing(
    installed: Path, tmp_path: Path
) -> None:
    before = sorted(installed.rglob("*"))
    ran = subprocess.run(
        [sys.executable, "-B", "-c", RUN_ALL],
        env={
            **os.environ,
            "PYTHONPATH": str(installed),
            "VOLVELLE_MACHINE_CODE": str(tmp_path / "cache"),
        },
        check=True,
        capture_output=True,
        text=True,
    )
    assert ran.stdout == "0\n"
    assert not (tmp_path / "cache").exists()
    assert sorted(installed.rglob("*")) == before


@pytest.mark.slow
def test_an_installed_wheel_checks_a_plug_in_without_the_repository(
    installed: Path, tmp_path: Path
) -> None:
    plug_in = shutil.copytree(ROOT / "examples" / "plug_in", tmp_path / "plug_in")
    target = ("--target", str(tmp_path / "site"))
    subprocess.run([*PIP, "install", *OFFLINE, *target, str(plug_in)], check=True)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--pyargs", "volvelle.testing"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), str(tmp_path / "site")])},
        check=False,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout
    assert "3 passed" in ran.stdout
