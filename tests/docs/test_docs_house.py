"""Licence, lock files and `.ci/run` say what they must."""

import hashlib
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import volvelle
from volvelle.model.extras import CLIENT, install

ROOT = Path(__file__).parents[2]
LOCKS = ("requirements.lock", "requirements-dev.lock")
FRAMEWORKS = "requirements-frameworks.lock"
SITE = "requirements-site.lock"


def _locked(name: str) -> dict[str, list[Requirement]]:
    """The pins of a lock file by package; one may have several, for several Pythons."""
    pins: dict[str, list[Requirement]] = {}
    for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            pin = Requirement(line)
            pins.setdefault(canonicalize_name(pin.name), []).append(pin)
    return pins


def _needed(*extras: str) -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = list(project["dependencies"])
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    return [Requirement(line) for line in lines]


@pytest.mark.parametrize(
    ("name", "extras"), [(LOCKS[0], ()), (LOCKS[1], ("dev",)), (SITE, ("site",))]
)
def test_lock_pins_what_the_project_needs(name: str, extras: tuple[str, ...]) -> None:
    pins = _locked(name)
    for requirement in _needed(*extras):
        versions = [str(pin.specifier) for pin in pins[canonicalize_name(requirement.name)]]
        assert versions, f"{name} lacks {requirement.name}; run: bash .ci/lock"
        for version in versions:
            assert version.startswith("==")
            assert requirement.specifier.contains(version.removeprefix("==")), requirement


def test_both_locks_pin_the_same() -> None:
    base, dev = map(_locked, LOCKS)
    assert {name: dev.get(name) for name in base} == base


def test_frameworks_are_installed_beside_the_tools_and_for_the_cpu() -> None:
    frameworks, dev = _locked(FRAMEWORKS), _locked(LOCKS[1])
    for name in frameworks.keys() & dev.keys():
        versions = [{str(pin.specifier) for pin in lock[name]} for lock in (frameworks, dev)]
        assert versions[0] <= versions[1], f"{name} differs; run: bash .ci/lock"
    assert [str(pin.specifier).endswith("+cpu") for pin in frameworks["torch"]] == [True]
    assert not any(name.startswith(("cuda", "nvidia", "triton")) for name in frameworks)


@pytest.mark.parametrize("name", (*LOCKS, FRAMEWORKS, SITE))
def test_lock_names_no_host_and_no_folder(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "://" not in text
    assert "/" not in re.sub(r"\.ci/lock", "", text)


def test_licence_is_the_apache_licence_word_for_word() -> None:
    text = (ROOT / "LICENSE").read_bytes()
    assert hashlib.sha256(text).hexdigest() == (
        "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
    )


def test_readme_has_the_two_commands_that_ci_runs() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first, second = re.findall(r"^\$ (python3 -m venv .*)$", text, re.MULTILINE)
    assert first.endswith(".venv/bin/volvelle compare --demo")
    assert second.endswith(".venv/bin/pytest -n auto")


def test_ci_run_is_sound_bash() -> None:
    for script in ("run", "lock", "lowest"):
        subprocess.run(["bash", "-n", ROOT / ".ci" / script], check=True)


def test_changelog_begins_with_this_version_or_what_comes_next() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## \[?([\w.]+)", text, re.MULTILINE)
    assert headings[0] in ("Unreleased", volvelle.__version__)


def test_pages_say_how_to_install_as_the_program_does() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]
    for page in pages:
        if page.parent.name == "decisions":
            continue
        text = " ".join(page.read_text(encoding="utf-8").split())
        for extras in re.findall(r"pip install [^`|;$]*\[([a-z,]+)\]'", text):
            assert install(extras) in text, page
        assert "'volvelle[" not in text, page
        assert "install volvelle" not in text.replace(CLIENT, ""), page
