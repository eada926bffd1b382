"""A part in a user's own file that fails under real jobs: at the start of a server, and later."""

from pathlib import Path

import pytest
from fake_cluster import ControllerHarness, header_of, sleeping

from volvelle.core.registry import forget_changed_files
from volvelle.live.http.job_checks import notices_of
from volvelle.model.problems import Problem

OWN = """
from volvelle.policy import order

@order("own")
def own(jobs, now):
    if {fails}:
        return jobs.gpuz
    return -jobs.number
"""


def own_policy(folder: Path, fails: str) -> str:
    """A file with a policy, the latest job first, that fails where ``fails`` is true."""
    (folder / "own.py").write_text(OWN.format(fails=fails))
    return str(folder / "own.py")


def test_a_policy_that_fails_is_refused_before_the_first_job(tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"own\.py, line 7, in own: .*gpuz.* 3 made-up jobs"):
        ControllerHarness.at(tmp_path, policy=own_policy(tmp_path, "True"))


def test_a_server_does_not_start_under_a_policy_that_fails_on_the_jobs_that_are_there(
    tmp_path: Path,
) -> None:
    harness = ControllerHarness.at(tmp_path, policy="las:round=5")
    for _ in range(4):
        harness.submit(sleeping(50))
    harness.header = header_of(
        harness.fake_cluster.cluster, own_policy(tmp_path, "len(jobs.gpus) == 4")
    )
    with pytest.raises(Problem, match=r"own\.py, line 7, .* start with policy = 'las:round=5'"):
        harness.crash()


def test_a_server_goes_on_under_fifo_where_its_policy_fails_and_replay_knows(
    tmp_path: Path,
) -> None:
    own = own_policy(tmp_path, "len(jobs.gpus) == 4")
    harness = ControllerHarness.at(tmp_path, policy=own)
    for _ in range(3):
        harness.submit(sleeping(5, 2))
        harness.step(1)
    assert harness.submit(sleeping(5, 2)) == 3
    assert [harness.state(n) for n in range(4)] == ["waiting", "waiting", "running", "waiting"]
    (problem,) = harness.controller.health.problems
    assert "own.py, line 7, in own: AttributeError" in problem
    assert "fifo decides instead" in problem
    assert harness.controller.health.ready is harness.controller.is_ready
    assert harness.controller.metrics.part_failures == 1
    status = harness.controller.status
    assert (status.policy, harness.controller.composition.policy.label) == ("fifo", "fifo")
    harness.header = header_of(harness.fake_cluster.cluster)
    harness.crash(snapshot=False)
    harness.deliver()
    assert not harness.controller.warnings, "the journal says what was decided, and by what"
    harness.step(5)
    for _ in range(3):
        harness.step(5)
    starts = [number for _, what, number, _ in harness.fake_cluster.history if what == "start"]
    assert starts == [0, 1, 2, 0, 1, 3]
    assert [harness.state(n) for n in range(4)] == ["finished"] * 4


def test_a_policy_that_fails_between_the_start_and_the_first_cycle_is_named(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path)
    for _ in range(3):
        harness.submit(sleeping(50))
    harness.header = header_of(harness.fake_cluster.cluster, own_policy(tmp_path, "now > 5"))
    harness.crash()
    harness.step(10)
    (problem,) = harness.controller.health.problems
    assert "own.py, line 7, in own: AttributeError" in problem
    assert problem.endswith("; fifo goes on deciding")
    assert harness.controller.status.policy == "fifo"


PARTS = """
import numpy as np
from volvelle.core.parts import (
    Admission, Belief, Estimator, Fate, Placement, Termination, Verdict,
    admissions, estimators, placements, terminations)
from volvelle.model.job import Truth

FAILS = {fails}

def asked(number):
    if number >= FAILS:
        raise KeyError("own")

@admissions.register
class Mine(Admission):
    name = "mine"
    def judge(self, job, view, ahead):
        asked(job.number)
        return Verdict(Fate.ADMIT)

@placements.register
class Placed(Placement):
    name = "mine"
    def choose_for(self, job, free, gpus, resources):
        asked(int(job.spec.id))
        taken = np.zeros(len(free), dtype=np.int64)
        taken[int(free.argmax())] = gpus
        return taken

@estimators.register
class Believed(Estimator):
    name = "mine"
    def believe(self, job, seed):
        asked(job.number)
        return Belief(Truth(work=job.spec.gpus * 5.0))

@terminations.register
class Ended(Termination):
    name = "mine"
    @property
    def loss_every(self):
        return 0.0
    def judge(self, spec, work_done, loss):
        asked(int(spec.id))
        return ""
"""
PLAIN = {"admission": "accept-all", "placement": "consolidated", "estimator": "declared"}


def own_parts(folder: Path, fails: int) -> str:
    """A file with parts that fail for jobs from number ``fails`` on."""
    (folder / "parts.py").write_text(PARTS.format(fails=fails))
    return str(folder / "parts.py:mine")


@pytest.mark.parametrize("kind", PLAIN)
def test_another_part_that_fails_is_refused_before_the_first_job(tmp_path: Path, kind: str) -> None:
    with pytest.raises(Problem, match=r"parts\.py, line 12, in asked: .* made-up jobs"):
        ControllerHarness.at(tmp_path, **{kind: own_parts(tmp_path, 0)})


@pytest.mark.parametrize("kind", PLAIN)
def test_another_part_that_fails_is_replaced_and_replay_knows(tmp_path: Path, kind: str) -> None:
    own = own_parts(tmp_path, 3)
    harness = ControllerHarness.at(tmp_path, **{kind: own})
    for _ in range(3):
        harness.submit(sleeping(5, 1))
    assert not harness.controller.health.problems
    assert harness.submit(sleeping(5, 1)) == 3
    for _ in range(3):
        harness.step(5)
    assert [harness.state(n) for n in range(4)] == ["finished"] * 4
    (problem,) = harness.controller.health.problems
    assert f"{kind} 'mine' failed in {tmp_path}/parts.py, line 12, in asked: KeyError" in problem
    assert f"; {PLAIN[kind]} decides instead" in problem
    written = harness.controller.composition.written
    assert getattr(written, kind) == PLAIN[kind]
    harness.header = header_of(harness.fake_cluster.cluster, **{kind: PLAIN[kind]})
    harness.crash(snapshot=False)
    assert not harness.controller.warnings, "the journal says what was decided, and by what"
    harness.header = header_of(harness.fake_cluster.cluster, **{kind: own})
    own_parts(tmp_path, 100)
    forget_changed_files()
    for snapshot in (True, False):
        harness.crash(snapshot=snapshot)
        harness.deliver()
        assert getattr(harness.controller.composition.written, kind) == "mine", "it was mended"
        assert harness.submit(sleeping(5, 1))
    assert not harness.controller.health.problems


def test_two_parts_that_fail_at_once_are_both_replaced(tmp_path: Path) -> None:
    own = own_parts(tmp_path, 3)
    harness = ControllerHarness.at(tmp_path, **dict.fromkeys(PLAIN, own))
    for _ in range(4):
        harness.submit(sleeping(5, 1))
    written = harness.controller.composition.written
    assert {kind: getattr(written, kind) for kind in PLAIN} != dict.fromkeys(PLAIN, own)
    for _ in range(3):
        harness.step(5)
    assert [harness.state(n) for n in range(4)] == ["finished"] * 4
    assert len(harness.controller.health.problems) == 3
    written = harness.controller.composition.written
    assert {kind: getattr(written, kind) for kind in PLAIN} == PLAIN


ASIDE = """
from pathlib import Path
import numpy as np
from volvelle.core.parts import Belief, Estimator, Termination, estimators, terminations
from volvelle.core.policy import Allocation, Policy, policies
from volvelle.model.job import Truth

def asked():
    if Path(__file__).with_name("fails").exists():
        raise KeyError("own")

@policies.register
class Mine(Policy):
    name = "aside"
    def allocate(self, view):
        wanted = view.jobs.gpus
        return Allocation(np.where(wanted.cumsum() <= view.gpus, wanted, 0.0))
    def refuse(self, cluster, jobs):
        asked()
    def lacks(self, spec):
        asked()
        return ""

@estimators.register
class Believed(Estimator):
    name = "aside"
    def believe(self, job, seed):
        return Belief(Truth(work=job.spec.gpus * 5.0))
    def guesses(self, spec):
        asked()
        return False

@terminations.register
class Ended(Termination):
    name = "aside"
    @property
    def loss_every(self):
        asked()
    def judge(self, spec, work_done, loss):
        return ""
"""
FALLBACKS = {"policy": "fifo", "estimator": "declared", "termination": "completion"}


@pytest.mark.parametrize("kind", FALLBACKS)
def test_a_part_that_fails_outside_of_a_decision_is_replaced_too(tmp_path: Path, kind: str) -> None:
    (tmp_path / "parts.py").write_text(ASIDE)
    harness = ControllerHarness.at(tmp_path, **{kind: f"{tmp_path}/parts.py:aside"})
    harness.submit(sleeping(50))
    assert not harness.controller.health.problems
    (tmp_path / "fails").touch()
    if kind == "policy":
        (notice,) = notices_of(sleeping(5), "ann", harness.controller)
        assert notice.startswith(f"policy 'aside' failed in {tmp_path}/parts.py, line 10, in asked")
    if kind == "termination":
        harness.step(5)
        harness.fake_cluster.report_progress()
        harness.deliver()
    else:
        assert harness.submit(sleeping(5)) == 1
    (problem,) = harness.controller.health.problems
    assert f"{kind} 'aside' failed in {tmp_path}/parts.py, line 10, in asked: KeyError" in problem
    assert f"; {FALLBACKS[kind]} decides instead" in problem
    assert getattr(harness.controller.composition.written, kind) == FALLBACKS[kind]
    assert harness.controller.metrics.part_failures == 1
    harness.header = header_of(harness.fake_cluster.cluster, **{kind: FALLBACKS[kind]})
    harness.crash(snapshot=False)
    assert not harness.controller.warnings, "the journal says what was decided, and by what"
