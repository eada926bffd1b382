"""Mistakes in a policy or an admission that is a single file: a sentence each, interpreted and compiled."""

from pathlib import Path

import pytest

from volvelle.core.composition import WrittenComposition
from volvelle.core.parts import admissions
from volvelle.core.policy import policies
from volvelle.core.registry import forgotten_files
from volvelle.metrics.catalogue import metrics
from volvelle.model.cluster import parse_cluster
from volvelle.model.problems import Problem
from volvelle.simulate.run import Setting, simulate
from volvelle.testing.scenario import linear_job
from volvelle.workload.workload import Workload

DECIDE = """
import numpy as np
from typing import ClassVar
from pydantic import PrivateAttr
from volvelle.policy import (
    COUNT, GPUS, INFINITY, LEAST, Kernel, Policy, fill, kernel, register)

@kernel
def decide(jobs, cluster, memory, out):
    order = np.argsort(jobs[GPUS], kind="mergesort")
    out[:3] = fill(
        jobs, order, jobs[LEAST], jobs[GPUS], cluster.capacity, cluster.quota, False, False)
    # HERE
    return INFINITY

@register
class Own(Policy):
    name: ClassVar[str] = "own"
    _memory: np.ndarray = PrivateAttr(default_factory=lambda: np.zeros(1))

    def kernel(self, *, named):
        return Kernel(decide, self._memory, rates=False)
"""

ADMIT = """
from typing import ClassVar
from volvelle.core.parts import Admission, Fate, Verdict, admissions

@admissions.register
class Own(Admission):
    name: ClassVar[str] = "own"

    def judge(self, job, view, ahead):
        return Verdict(Fate.ADMIT)
"""

PLACE = """
import numpy as np
from typing import ClassVar
from volvelle.core.parts import Placement, placements
from volvelle.policy import kernel

@kernel
def following(state, gpu_type, wanted):
    return -1

@placements.register
class Own(Placement):
    name: ClassVar[str] = "own"
    kernel = property(lambda self: following)

    def choose(self, free, gpus, resources):
        return np.minimum(free, np.maximum(gpus - (np.cumsum(free) - free), 0))
"""

ORDER = """
from typing import ClassVar
from volvelle import policy

@policy.register
class Own(policy.OrderPolicy):
    name: ClassVar[str] = "own"
    columns: ClassVar[int] = 1

    def key(self, jobs, now):
        return jobs.gpus
"""


def run(compiled: bool = False, **parts: str) -> list[float]:
    jobs = Workload([linear_job(n, 1.0 * n, 2.0, 9.0) for n in range(5)])
    setting = Setting(cluster=parse_cluster("1x4"), composition=WrittenComposition(**parts))
    with forgotten_files():
        finish: list[float] = simulate(jobs, setting, compiled=compiled).outcomes.finish.tolist()
    return finish


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return tmp_path / "own.py"


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("# HERE", "jobs[COUNT] += 1.0", r"line 13, in decide: IndexError: .*`columns = 1`"),
        ("# HERE", "if cluster.now > 5.0: memory[7] = 1.0", "line 13, in decide: IndexError"),
        (
            "# HERE",
            "out[0] *= 0.7",
            r"gave job 0 1\.4 GPUs, which runs on 2 \(whole ones\) or none",
        ),
        ("# HERE", "out[0] *= 0.5", r"own.py, line 8 gave job 0 1 GPUs, which runs on 2"),
        ("# HERE", "out[0] *= 50.0", r"own.py, line 8 gave 100 of 4 GPUs"),
        ("    return INFINITY", "", r"own.py, line 8 returns nothing\. Let decide return when"),
        (", out)", ")", r"line 8 has decide\(jobs, cluster, memory\)\. Define decide\(jobs, clu"),
        ("Kernel(decide, self._memory, rates=False)", "decide", r"gave decide\. Return Kernel\("),
        ("return Kernel(", "Kernel(", r"gave nothing\. Return Kernel\("),
        ("self._memory, r", "[0.0], r", "gave list as its memory"),
        ("@kernel\n", "", "line 8 is no kernel. Write @kernel above decide"),
    ],
)
def test_a_kernel_s_mistake_is_a_sentence(
    own: Path, old: str, new: str, said: str, compiled: bool
) -> None:
    assert old in DECIDE
    own.write_text(DECIDE.replace(old, new))
    with pytest.raises(Problem, match=said):
        run(compiled, policy=str(own))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("@kernel\n", "", "own.py, line 7 is no kernel. Write @kernel above following"),
        (": following", ": abs", "is no kernel. Write @kernel above abs"),
        ("gpu_type, ", "", r"line 7 has following\(state, wanted\)\. Define following\(state, g"),
    ],
)
def test_a_mistake_of_a_placements_kernel_is_a_sentence(
    own: Path, old: str, new: str, said: str, compiled: bool
) -> None:
    assert old in PLACE
    own.write_text(PLACE.replace(old, new))
    with pytest.raises(Problem, match=said):
        run(compiled, placement=str(own), policy="srsf")


@pytest.mark.parametrize(
    ("new", "said"),
    [
        ("memory[0] += str(1)", r"own.py, line 13: No implementation of function .*iadd"),
        ("sorted(order, key=lambda each: jobs[GPUS, each])", r"own.py, line 13: Cannot capture"),
    ],
)
def test_a_line_that_cannot_be_compiled_is_named(own: Path, new: str, said: str) -> None:
    own.write_text(DECIDE.replace("# HERE", new))
    with pytest.raises(Problem, match=said):
        run(compiled=True, policy=str(own))


def test_a_sound_kernel_decides_compiled_as_interpreted(own: Path) -> None:
    own.write_text(
        DECIDE.replace("# HERE", "jobs[COUNT] += 1.0").replace(
            '"own"\n', '"own"\n    columns: ClassVar[int] = 1\n'
        )
    )
    assert run(True, policy=str(own)) == run(False, policy=str(own))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("def judge", "def judges", r"line 5 lacks judge or limit\. Define judge\(self, job, v"),
        ("return Verdict(Fate.ADMIT)", "pass", r"with NoneType\. Let judge return Verdict"),
        ("return Verdict(Fate.ADMIT)", "return True", r"own\.py, line 9 answered with bool\."),
    ],
)
def test_an_admission_s_mistake_is_a_sentence(own: Path, old: str, new: str, said: str) -> None:
    own.write_text(ADMIT.replace(old, new))
    with pytest.raises(Problem, match=said):
        run(admission=str(own))


@pytest.mark.parametrize("columns", [0, 1])
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("def key", "def keys", r"line 5 lacks key.* Define key\(self, jobs, now\)"),
        (
            "return jobs.gpus",
            "jobs.gpus",
            r"line 10, in key: .* gave keys of None .is `return` missing..\. A",
        ),
        ("return jobs.gpus", "return ['a'] * 3", "line 10, in key: .* gave keys of type <U1"),
        ("return jobs.gpus", "return [job for job in jobs]", "of all jobs: np.where.*no loop"),
        ("return jobs.gpus", "return 1 if jobs.gpus > 3 else 0", "of all jobs: np.where.*no if"),
    ],
)
def test_an_order_s_mistake_is_a_sentence(
    own: Path, old: str, new: str, said: str, columns: int
) -> None:
    own.write_text(ORDER.replace(old, new).replace("int] = 1", f"int] = {columns}"))
    with pytest.raises(Problem, match=said):
        run(policy=str(own))


def test_a_part_that_a_file_does_not_register_is_told_its_decorator(own: Path) -> None:
    own.write_text("")
    for catalogue, said in (
        (metrics, r"Write @metric\('NAME', 'UNIT', 'lower'\) above its function"),
        (policies, r"Write @policy\.order\('NAME'\) above a function"),
        (admissions, r"Write @admissions\.register above its class"),
    ):
        with pytest.raises(Problem, match=said):
            catalogue.from_file(own)
