"""Without published systems all else passes its tests; those that use a part of one are skipped."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import volvelle

TESTS = Path(__file__).parent
OF_SYSTEMS = ("systems", "golden", "experiments", "docs")
"""Folders of tests about systems, and of pages and studies that show them."""
QUICK = (
    "core/test_registry.py",
    "core/test_labels.py",
    "live/test_snapshots.py",
    "live/test_suggestions.py",
    "live/test_what_jobs_declare.py",
    "placement/test_batches.py",
    "placement/test_consolidation.py",
    "policies/test_orders.py",
    "notebook",
    "tune",
)
"""Tests that name systems most, of those that take no time."""


def ran_without_systems(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The tests of all else, on a copy of the package in ``folder`` that lacks the published systems."""
    (folder / "volvelle").mkdir()
    for one in Path(volvelle.__file__).parent.iterdir():
        if one.name != "systems":
            (folder / "volvelle" / one.name).symlink_to(one)
    ignored = [f"--ignore={TESTS / name}" for name in OF_SYSTEMS]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *ignored, *arguments],
        cwd=TESTS.parent,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_all_tests_of_all_else_are_found(tmp_path: Path) -> None:
    ran = ran_without_systems(tmp_path, "--collect-only", str(TESTS))
    assert ran.returncode == 0, ran.stdout[-4000:]


def test_what_names_systems_most_passes_without_them(tmp_path: Path) -> None:
    ran = ran_without_systems(tmp_path, "-rs", *(str(TESTS / name) for name in QUICK))
    assert ran.returncode == 0, ran.stdout[-4000:]
    assert "volvelle.systems.pcs is not here" in ran.stdout


@pytest.mark.slow
def test_all_else_passes_without_them(tmp_path: Path) -> None:
    ran = ran_without_systems(tmp_path, f"--ignore={__file__}", str(TESTS))
    assert ran.returncode == 0, ran.stdout[-4000:]
