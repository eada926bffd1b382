"""The distribution `volvelle-client`, built and installed where nothing else of Volvelle is."""

import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from attempts import Attempts
from waiting import until

import volvelle
from volvelle.client.control_block import ITERATIONS, PREEMPTED, REVOKED, SAVED_ITERATIONS

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "packages" / "client"


def run(python: Path, program: str) -> list[str]:
    """The words that ``program`` prints."""
    return subprocess.check_output((str(python), "-P", "-c", program), text=True).split()


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with `volvelle-client` and nothing else."""
    folder = tmp_path_factory.mktemp("distribution")
    # A copy, so that nothing is written into the checkout and nothing of an earlier build is in the wheel.
    built = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
    shutil.copytree(PROJECT, folder / "client", ignore=built)
    venv.create(folder / "env", symlinks=True)
    python = folder / "env" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "-q", "--python", str(python))
    wheel = ("wheel", "--no-index", "--no-build-isolation", "--wheel-dir", str(folder))
    subprocess.run([*pip[:-2], *wheel, str(folder / "client")], check=True)
    (file,) = folder.glob("volvelle_client-*.whl")
    subprocess.run([*pip, "install", "--no-index", str(file)], check=True)
    return python


@pytest.fixture
def job(tmp_path: Path, python: Path) -> Iterator[Attempts]:
    """Attempts of the counting job under that interpreter."""
    job = Attempts(tmp_path, python=str(python))
    yield job
    job.kill_all()


def test_the_client_and_the_citation_have_the_version_of_volvelle() -> None:
    client = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"]
    assert client == citation == volvelle.__version__


def test_client_is_installed_alone_and_has_no_dependencies(python: Path) -> None:
    program = "import importlib.metadata as m; print(*(d.name for d in m.distributions()))"
    assert run(python, program) == ["volvelle-client"]
    program = "import importlib.metadata as m; print(*(m.requires('volvelle-client') or ()))"
    assert run(python, program) == []


def test_client_alone_imports_the_standard_library_only(python: Path) -> None:
    program = (
        "import sys; before = set(sys.modules); import volvelle.client; "
        "print(*{name for name in sys.modules if name not in before})"
    )
    imported = run(python, program)
    ours = {name for name in imported if re.match(r"volvelle\b", name)}
    assert "volvelle.client.run" in ours
    assert {name for name in ours if not name.startswith("volvelle.client")} == {
        "volvelle",
        "volvelle.durations",
    }
    assert {name.partition(".")[0] for name in imported} - {"volvelle"} <= sys.stdlib_module_names
    assert not {"asyncio", "inspect", "subprocess"} & set(imported), "they double the time it takes"


def test_client_alone_holds_every_module_of_the_library(python: Path) -> None:
    program = "import volvelle.client as c, os; print(*os.listdir(c.__path__[0]))"
    here = {path.name for path in (ROOT / "src/volvelle/client").glob("*.py")}
    assert {*run(python, program)} - {"__pycache__"} == {*here, "py.typed"}


def test_a_job_under_the_client_alone_is_preempted_and_resumes(job: Attempts) -> None:
    process = job.count(seconds=0.02, every="1h")
    block = job.block()
    until(lambda: block[ITERATIONS] >= 10 or process.poll() is not None)
    block[REVOKED] = 1
    assert process.wait(20) == 0, job.output()
    assert block[PREEMPTED] == 1
    stopped = block[SAVED_ITERATIONS]
    assert job.count().wait(20) == 0, job.output()
    assert job.block()[SAVED_ITERATIONS] == len(job.lines()) > stopped >= 10


def test_a_pytorch_job_under_the_client_alone_trains(tmp_path: Path, python: Path) -> None:
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        pytest.skip("PyTorch is not installed")
    packages = Path(spec.origin).parents[1]
    if (packages / "volvelle").is_dir():
        pytest.skip("volvelle is installed beside PyTorch, and not in editable mode")
    (site,) = python.parents[1].glob("lib/python*/site-packages")
    (site / "pytorch.pth").write_text(f"{packages}\n")
    try:
        program = (
            "import torch, volvelle, volvelle.client as c; print(volvelle.__file__, c.__file__)"
        )
        root, client = run(python, program)
        assert root == "None", "a namespace: nothing of the distribution volvelle"
        assert Path(client).is_relative_to(site)
        job = Attempts(tmp_path, ROOT / "examples" / "train_torch.py", python=str(python))
        assert job.start("1").wait(90) == 0, job.output()
        assert job.start("1").wait(90) == 0, f"done, and started again: {job.output()}"
    finally:
        (site / "pytorch.pth").unlink()
    assert list(job.reported("loss")) == list(range(1, 41))
    assert job.block()[SAVED_ITERATIONS] == 40
