"""A mistake in a user's own part ends a command in one line: its kind, its name, its file and line."""

import re
from pathlib import Path

import pytest
from command_line import Volvelle
from fake_cluster import ControllerHarness

from volvelle.model.problems import Problem

pytest_plugins = ["command_fixtures"]

PART = """
from volvelle.core.parts import *
from volvelle.core.policy import Policy, policies

@{kind_plural}.register
class Mine({base}):
    '''Answers as a test asks.'''
    name = "mine"
    {mark}
    def {method}:
        {body}
"""
PARTS = {
    "policy": ("policies", "Policy", "allocate(self, view)"),
    "admission": ("admissions", "Admission", "judge(self, job, view, ahead)"),
    "placement": ("placements", "Placement", "choose(self, free, gpus, resources)"),
    "estimator": ("estimators", "Estimator", "believe(self, job, seed)"),
    "termination": ("terminations", "Termination", "loss_every(self)"),
}
METRIC = """
from volvelle.metrics.catalogue import metric

@metric("mine", unit="1", better="lower", kind="job")
def mine(run):
    '''Answers as a test asks.'''
    {body}
"""
RAISES, NONSENSE, CROOKED = 'raise KeyError("boom")', 'return {"soon"}', "return free + 1"
BODIES = {RAISES: "KeyError: 'boom'", NONSENSE: "soon|set"}


def own_part(folder: Path, kind: str, body: str) -> Path:
    """A file with a part of ``kind`` whose one method is ``body``."""
    plural, base, method = PARTS[kind]
    mark = "@property" if kind == "termination" else "# a method:"
    (folder / "own.py").write_text(
        PART.format(kind_plural=plural, base=base, method=method, body=body, mark=mark)
    )
    return folder / "own.py"


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("kind", PARTS)
@pytest.mark.parametrize("command", ["simulate", "compare"])
def test_a_part_that_fails_is_named_with_its_file_and_line(
    volvelle: Volvelle, tmp_path: Path, command: str, kind: str, body: str
) -> None:
    file = own_part(tmp_path, kind, body)
    jobs = ("--generate", "demo:jobs=20", "--cluster", "2x8", "--force")
    parts = {"--placement": "first-free", f"--{kind}": file}
    ran = volvelle(command, *jobs, *(each for pair in parts.items() for each in pair))
    assert ran.status == 1
    (said,) = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    assert f"{kind} 'mine' " in said
    assert f"{file}, line " in said
    assert re.search(BODIES[body], said)
    assert said.count(". ") >= 1, "it says how to mend it"
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("command", ["simulate", "compare"])
def test_a_metric_that_fails_is_named_with_its_file_and_line(
    volvelle: Volvelle, tmp_path: Path, command: str, body: str
) -> None:
    file = tmp_path / "own.py"
    file.write_text(METRIC.format(body=body))
    jobs = ("--generate", "demo:jobs=20", "--cluster", "2x8", "--force")
    ran = volvelle(command, *jobs, "--metric", file)
    assert ran.status == 1
    (said,) = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    assert "metric 'mine' " in said
    assert f"{file}, line " in said
    assert re.search(BODIES[body], said)


def test_a_placement_that_gives_other_gpus_than_are_free_is_named(
    volvelle: Volvelle, tmp_path: Path
) -> None:
    file = own_part(tmp_path, "placement", CROOKED)
    jobs = ("--generate", "demo:jobs=20", "--cluster", "2x8")
    ran = volvelle("simulate", *jobs, "--placement", file)
    assert ran.status == 1
    assert f"placement 'mine' in {file}, line " in ran.err
    assert "gave [9, 9] for " in ran.err


def test_a_placement_whose_facet_lacks_its_method_is_named(
    volvelle: Volvelle, tmp_path: Path
) -> None:
    file = own_part(tmp_path, "placement", CROOKED)
    facet = "from volvelle.core.facets import PlacesBatches\n"
    file.write_text(facet + file.read_text().replace("(Placement)", "(Placement, PlacesBatches)"))
    jobs = ("--generate", "demo:jobs=20", "--cluster", "2x8")
    ran = volvelle("simulate", *jobs, "--placement", file)
    assert ran.status == 1
    assert f"placement 'mine' in {file}, line " in ran.err
    assert "lacks choose_batch. Define choose_batch(self, gangs, free, resources)" in ran.err


LATE = """
from volvelle import policy

@policy.order("late", time_varying={time_varying})
def late(jobs, now):
    if now > 86400:
        {body}
    return jobs.submit_time
"""


@pytest.mark.parametrize("time_varying", [False, True])
@pytest.mark.parametrize("body", [RAISES, "1 // 0"])
def test_an_order_by_each_job_alone_that_fails_later_is_named_with_its_file_and_line(
    volvelle: Volvelle, tmp_path: Path, body: str, time_varying: bool
) -> None:
    file = tmp_path / "late.py"
    file.write_text(LATE.format(body=body, time_varying=time_varying))
    jobs = ("--generate", "demo:jobs=100", "--cluster", "2x8")
    ran = volvelle("simulate", *jobs, "--policy", file)
    assert ran.status == 1
    assert f"policy 'late' failed in {file}, line 7, in late: " in ran.err
    assert "Traceback" not in ran.err


def refuses(folder: Path) -> Path:
    """A policy that fails when it is asked whether it can serve a cluster and its jobs."""
    file = own_part(folder, "policy", "return None")
    file.write_text(f"{file.read_text()}\n    def refuse(self, cluster, jobs):\n        {RAISES}\n")
    return file


def test_a_policy_that_fails_before_the_first_decision_is_named_too(
    volvelle: Volvelle, tmp_path: Path
) -> None:
    file = refuses(tmp_path)
    named = f"policy 'mine' failed in {file}, line "
    ran = volvelle("simulate", "--generate", "demo:jobs=20", "--cluster", "2x8", "--policy", file)
    assert ran.status == 1
    assert named in ran.err
    assert "Traceback" not in ran.err
    with pytest.raises(Problem, match=re.escape(named)):
        ControllerHarness.at(tmp_path, policy=str(file))


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("kind", PARTS)
def test_a_server_does_not_start_with_a_part_that_fails(
    tmp_path: Path, kind: str, body: str
) -> None:
    file = own_part(tmp_path, kind, body)
    with pytest.raises(Problem) as raised:
        ControllerHarness.at(tmp_path, **{kind: str(file)})
    said = str(raised.value)
    assert f"{kind} 'mine' " in said
    assert f"{file}, line " in said
    assert re.search(BODIES[body], said)
