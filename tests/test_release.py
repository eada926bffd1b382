"""A source distribution has what the repository has, and a README whose links work elsewhere."""

import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import volvelle

ROOT = Path(__file__).parents[1]
BUILD = "import sys; sys.path.insert(0, '.'); import setup; print(setup.build_sdist(sys.argv[1]))"
NAME = f"volvelle-{volvelle.__version__}"


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    """The files of the repository."""
    if not (ROOT / ".git").exists():
        pytest.skip("not in a checkout")
    command = ["git", "-C", str(ROOT), "ls-files"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.fixture(scope="module")
def unpacked(tracked: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source distribution, made of these and unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    for name in tracked:
        (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / "source" / name, follow_symlinks=False)
    command = [sys.executable, "-c", BUILD, str(folder)]
    subprocess.run(command, cwd=folder / "source", capture_output=True, check=True)
    with tarfile.open(folder / f"{NAME}.tar.gz") as packed:
        packed.extractall(folder, filter="data")
    return folder / NAME


def test_a_source_distribution_has_tests_docs_and_studies(
    unpacked: Path, tracked: list[str]
) -> None:
    assert [name for name in tracked if not (unpacked / name).exists()] == [".gitignore"]


def test_links_of_the_published_readme_lead_into_the_repository_at_the_version(
    unpacked: Path,
) -> None:
    said = (unpacked / "PKG-INFO").read_text(encoding="utf-8")
    assert f"\nVersion: {volvelle.__version__}\n" in said
    assert "Description-Content-Type: text/markdown" in said
    links = re.findall(r"\]\(([^)#]+)", said)
    readme = re.findall(r"\]\(([^)#:]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(links) >= len(readme) > 10
    assert all(link.startswith("https://") for link in links)
    tag = f"/v{volvelle.__version__}/"
    assert {link.partition(tag)[2] for link in links if tag in link} >= set(readme)
