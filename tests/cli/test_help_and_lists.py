"""Help is quick, and lists say names, parameters, defaults and sources."""

import json
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Volvelle

from volvelle import __version__

pytest_plugins = ["command_fixtures"]

HEAVY = ("numpy", "numba", "pydantic", "msgspec", "PIL")


UNASKED = ("PIL", "pyarrow", "rich", "fastapi", "sqlalchemy", "httpx", "ray", "pymoo", "highspy")


def imported(names: tuple[str, ...], *arguments: str, cwd: Path | None = None) -> tuple[str, str]:
    """Which of ``names`` a command imports in a process of its own, and what it printed."""
    script = (
        f"import sys; sys.argv = ['volvelle', *{arguments!r}]\n"
        "from volvelle.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        f"print('IMPORTED', *[name for name in {names!r} if name in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True, text=True, timeout=120, check=True, cwd=cwd,
    )  # fmt: skip
    printed, _, found = ran.stdout.rpartition("IMPORTED")
    return found.strip(), printed


def test_help_imports_nothing_heavy() -> None:
    found, printed = imported(HEAVY, "--help")
    assert found == ""
    for command in ("simulate", "compare", "report", "trace", "list"):
        assert command in printed


@pytest.mark.parametrize(
    "command",
    [
        ["list", "policies"], ["list", "formats"], ["list", "metrics"],
        ["simulate", "--generate", "lognormal:jobs=20", "-c", "1x8", "-p", "srsf"],
        ["compare", "--generate", "lognormal:jobs=20", "-c", "1x8", "-p", "srsf", "-p", "fifo"],
    ],
)  # fmt: skip
def test_commands_import_only_what_they_need(command: list[str], tmp_path: Path) -> None:
    assert imported(UNASKED, *command, cwd=tmp_path)[0] == ""


def test_lists_of_what_does_not_decide_import_no_policy() -> None:
    policies = ("volvelle.policies", "volvelle.live", "volvelle.simulate", "volvelle.report.charts")
    for kind in ("metrics", "generators", "placements", "formats"):
        assert imported(policies, "list", kind)[0] == "", kind


@pytest.mark.parametrize(
    "command",
    [
        ["simulate"], ["compare"], ["report"], ["list"], ["list", "policies"],
        ["trace", "describe"], ["trace", "convert"], ["trace", "generate"],
        ["serve"], ["submit"], ["queue"], ["why"], ["cancel"], ["hold"], ["release"], ["logs"],
        ["history"], ["nodes"], ["nodes", "drain"], ["policy", "set"], ["token", "create"], ["agent"],
    ],
)  # fmt: skip
def test_every_command_explains_itself(volvelle: Volvelle, command: list[str]) -> None:
    ran = volvelle(*command, "--help")
    assert ran.status == 0
    assert "Usage: volvelle" in ran.out


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        ("policies", "srsf"), ("placements", "consolidated"), ("admissions", "accept-all"),
        ("estimators", "oracle"), ("terminations", "loss"), ("generators", "lognormal"),
        ("formats", "swf"), ("metrics", "jct"), ("executors", "local"),
    ],
)  # fmt: skip
def test_lists_name_what_there_is(volvelle: Volvelle, kind: str, known: str) -> None:
    assert known in volvelle("list", kind).out
    assert volvelle("list", known).out == volvelle("list", kind, known).out
    listed = json.loads(volvelle("list", kind, "-o", "json").out)
    assert known in [one["name"] for one in listed]
    assert all(one["summary"] for one in listed)
    assert volvelle("list", kind, "-o", "csv").out.startswith("name,summary,source,parameters\n")


def test_without_a_kind_all_names_are_listed(volvelle: Volvelle) -> None:
    shown = volvelle("list").out
    for name in ("policies", "srsf", "first-free", "accept-all", "oracle", "local", "sacct", "jct"):
        assert re.search(rf"\b{name}\b", shown), name
    names = json.loads(volvelle("list", "--output", "json").out)
    assert "srsf" in names["policies"]
    assert "policies,srsf" in volvelle("list", "--output", "csv").out.splitlines()
    assert volvelle("list", "formats", "swf").out.endswith("Written: swf:procs_as=gpu\n")


def test_one_part_is_shown_with_defaults_and_source(volvelle: Volvelle) -> None:
    Path("mine.py").write_text(
        "from volvelle import policy\n\n\n@policy.order('mine')\ndef mine(job, now, factor=2.0):\n"
        "    return factor * job.gpus\n"
    )
    mine = volvelle("list", "policies", "mine.py").out
    assert volvelle("list", "mine.py").out == mine
    assert "\nfactor " in mine and "Written: mine.py:round=10m" in mine
    out = volvelle("list", "policies", "las").out
    assert "Tiresias (NSDI'19)" in out
    assert "gpu-seconds | seconds" in out
    parameters = json.loads(volvelle("list", "policies", "las", "-o", "json").out)[0]["parameters"]
    assert {"name": "round", "type": "duration", "default": 300.0,
            "description": "decide only at multiples of this period"} in parameters  # fmt: skip


def test_the_version_is_said(volvelle: Volvelle) -> None:
    build = rf"volvelle {re.escape(__version__)}( \([0-9a-f]+(-dirty)?\))?"
    said = volvelle("--version").out
    assert re.fullmatch(rf"{build}, Python {re.escape(platform.python_version())}\n", said)
