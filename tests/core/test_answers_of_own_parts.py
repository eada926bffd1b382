"""Methods of users' own parts: an error, or an answer that cannot be used, is one line; a server goes on."""

import re
from pathlib import Path

import pytest
from fake_cluster import ControllerHarness, header_of, sleeping

from volvelle.core.composition import REGISTRIES, WrittenComposition
from volvelle.core.registry import forgotten_files
from volvelle.model.cluster import parse_cluster
from volvelle.model.problems import Problem
from volvelle.simulate.run import Setting, simulate
from volvelle.testing.scenario import linear_job
from volvelle.workload.workload import Workload

FILE = '''
from pathlib import Path
import numpy as np
from volvelle.core.decision import Promise
from volvelle.core.facets import *
from volvelle.core.parts import *
from volvelle.core.policy import *
from volvelle.model.job import Truth
from volvelle.plan.plan import Plan
from volvelle.plan.policy import PlanPolicy

@{plural}.register
class Mine({bases}):
    """Answers as a test asks, from when on there is a file "fails"."""
    name = "mine"
{needed}
    def {method}:
        if Path(__file__).with_name("fails").exists():
            {fails}
        return {usual}
'''
NEEDED = {
    "Placement": """
    def choose(self, free, gpus, resources):
        return take_in_turn(free, np.arange(len(free)), gpus)
""",
    "Estimator": """
    def believe(self, job, seed):
        return Belief(Truth(work=job.spec.gpus * 5.0))
""",
    "Admission": """
    def learn(self, promise, *, kept):
        pass
    def judge(self, job, view, ahead):
        return Verdict(Fate.ADMIT, Promise(job.number, job.time + 1e3))
""",
    "Policy": """
    def allocate(self, view):
        wanted = view.jobs.gpus
        return Allocation(np.where(wanted.cumsum() <= view.gpus, wanted, 0.0))
""",
    "FollowsLoss": """
    def observe(self, spec, work_done, loss):
        return None
""",
    "FollowsRegimes": """
    def adapt(self, job, work_done, batch_size):
        return None
""",
    "PlacesBatches": """
    def choose_batch(self, gangs, free, resources):
        return [None] * len(gangs)
""",
    "PlacesByLane": """
    def choose_slots(self, free, gpus, resources, lane):
        return None
""",
    "PlanPolicy": """
    def plan(self, view, window):
        return Plan(window, view.jobs.number, np.ones((len(view.jobs), window.slots)))
""",
}
ALLOCATE = "Policy.allocate(self, view)"
BATCH = "PlacesBatches.choose_batch(self, gangs, free, resources)"
ANEW = "PlacesAllAnew.choose_gpus(self, gangs, free, resources)"
LANE = "PlacesByLane.choose_slots(self, free, gpus, resources, lane)"
CHOOSE = "Placement.choose(self, free, gpus, resources)"
PICK = "Placement.pick(self, slots, count, node, resources)"
BELIEVE = "Estimator.believe(self, job, seed)"
JUDGE = "Admission.judge(self, job, view, ahead)"
RECALL = "Admission.recall(self, view, ahead)"
TURNS = "PlanPolicy.turns(self, view, planned)"
WRONG = [
    (CHOOSE, "np.array(['a', 'b'])", r"gave \['a', 'b'\] for 2 GPUs, where \[8, 8\] are free"),
    (CHOOSE, "np.array([0.5, 1.5])", r"gave \[0\.5, 1\.5\] for 2"),
    (CHOOSE, "np.array([2])", r"gave \[2\] for 2"),
    (CHOOSE, "free + 1", r"gave \[9, 9\] for 2"),
    (PICK, "slots[:0]", r"gave \[\] for 2 GPUs, where \[0, 1, 2, 3, 4, 5, \.\.\.\] are free"),
    (PICK, "slots[[0] * count]", r"gave \[0, 0\] for 2"),
    (PICK, "slots[:count] * 1.0", r"gave \[0\.0, 1\.0\] for 2"),
    (PICK, "slots[:count] + 99", r"gave \[99, 100\] for 2"),
    (BATCH, "[]", "gave 0 answers for 1 jobs"),
    (BATCH, "[3] * len(gangs)", "answered with list of int"),
    (BATCH, "[np.array([3, -1])] * len(gangs)", r"gave \[3, -1\] for 2"),
    (BATCH, "[np.array([2, 0])] * len(gangs)", r"gave \[2, 0\] for 2 GPUs, where \[0, 8\]"),
    (ANEW, "[]", "gave 0 answers for 1 jobs"),
    (ANEW, "[np.array([1, 0])] * len(gangs)", r"gave \[1, 0\] for 2"),
    (ANEW, "[np.array([0, 0])] * len(gangs)", r"gave \[0, 0\] for 2"),
    (ANEW, "[np.array([0, 1])] * len(gangs)", r"gave \[0, 1\] for 2 .*\[2, 3, 4, 5, 6, 7, "),
    (LANE, "np.array([0])", r"gave \[0\] for 2"),
    (LANE, "np.array([0.0, 1.0])", r"gave \[0\.0, 1\.0\] for 2"),
    (LANE, "np.array([98, 99])", r"gave \[98, 99\] for 2"),
    (BELIEVE, "Belief(None)", r"answered with Belief\(truth=NoneType\)"),
    (BELIEVE, "Belief(Truth(work='soon'))", r"with Belief\(truth=Truth\(work=str\)\)"),
    (BELIEVE, "Belief(Truth(work=np.nan))", r"with Belief\(truth=Truth\(work=NaN\)\)"),
    (JUDGE, "Verdict('wait')", r"answered with Verdict\(fate=str\)"),
    (JUDGE, "Verdict(Fate.ADMIT, 5.0)", r"with Verdict\(promise=float\)"),
    (RECALL, "[99]", "gave 99. Give numbers of jobs in the view"),
    (RECALL, "['a']", "answered with list of str"),
    ("Admission.limit(self, capacity)", "np.nan", "answered with NaN"),
    (ALLOCATE, "Allocation(view.jobs.gpus, order=view.jobs.gpus + 7)", "not each of 1 jobs once"),
    (ALLOCATE, "Allocation(view.jobs.gpus, view.jobs.gpus)", "gave GPU type 2, where there are 1"),
    (ALLOCATE, "Allocation(view.jobs.gpus, promises=(5,))", "gave tuple of int as promises"),
    (ALLOCATE, "Allocation(view.jobs.gpus, ask_at='soon')", "gave str as ask_at"),
    (ALLOCATE, "Allocation(view.jobs.gpus, nodes=np.array([[0], [9], [2]]))", "gave nodes that"),
    ("Policy.next_wake(self, view)", "np.nan", "answered with NaN"),
    ("PlanPolicy.spare_key(self, view)", "np.zeros(3)", r"of shape \(3,\), where \(1,\) is"),
    ("PlanPolicy.spare_key(self, view)", "None", "gave object of shape"),
    (TURNS, "np.zeros(1)", r"gave \[0\.0\]\. Return places of jobs"),
    ("Termination.loss_every", "np.nan", "answered with NaN"),
]
"""Methods, answers of theirs that cannot be used, and what is said."""
RAISING = [
    CHOOSE,
    "Placement.choose_for(self, job, free, gpus, resources)",
    PICK,
    "Placement.kernel",
    BATCH,
    "PlacesBatches.moves",
    ANEW,
    LANE,
    "PlacesByLane.by_lane",
    BELIEVE,
    "Estimator.learn(self, spec, run_seconds)",
    "FollowsLoss.loss_every",
    "FollowsRegimes.progress_every",
    JUDGE,
    "Admission.limit(self, capacity)",
    RECALL,
    "Admission.learn_pace(self, pace)",
    "Termination.loss_every",
    ALLOCATE,
    "Policy.kernel(self, *, named)",
    "Policy.next_wake(self, view)",
    "Policy.learn(self, spec, gpu_seconds)",
    "Policy.refuse(self, cluster, jobs)",
    "Policy.decider",
    "Policy.shares_gpus",
    "Policy.chooses_nodes",
    "Policy.resizes",
    "Policy.solver_gaps",
    "PlanPolicy.plan(self, view, window)",
    "PlanPolicy.plan_basis(self, view)",
    "PlanPolicy.spare_key(self, view)",
    TURNS,
]
"""Methods that a simulation of plain jobs asks."""
KINDS = {
    "PlanPolicy": "policy",
    "PlacesBatches": "placement",
    "PlacesAllAnew": "placement",
    "PlacesByLane": "placement",
    "FollowsLoss": "estimator",
    "FollowsRegimes": "estimator",
}


def own_part(folder: Path, method: str, fails: str, usual: str = "None") -> tuple[str, str]:
    """The kind of a part whose ``method`` does what ``fails`` says, and its file."""
    base, _, called = method.partition(".")
    kind = KINDS.get(base, base.lower())
    whole = base if base.lower().endswith(kind) else kind.capitalize()
    needed = NEEDED.get(whole, "") + ("" if base == whole else NEEDED.get(base, ""))
    (folder / "own.py").write_text(
        FILE.format(
            plural=REGISTRIES[kind].plural,
            bases=whole if base == whole else f"{whole}, {base}",
            needed=needed if "(" in called else f"{needed}\n    @property",
            method=called if "(" in called else f"{called}(self)",
            fails=fails,
            usual=usual,
        )
    )
    return kind, f"{folder}/own.py"


def problem_of(kind: str, file: str) -> str:
    """What a simulation says under a part in ``file`` that fails."""
    jobs = Workload([linear_job(n, 1.0 * n, 2.0, 9.0) for n in range(12)])
    composition = WrittenComposition(**{"placement": "first-free", kind: file})
    setting = Setting(cluster=parse_cluster("2x8"), composition=composition)
    Path(file).with_name("fails").touch()
    with forgotten_files(), pytest.raises(Problem) as raised:
        simulate(jobs, setting, compiled=False)
    return str(raised.value)


@pytest.mark.parametrize("method", RAISING)
def test_a_method_that_raises_is_named(tmp_path: Path, method: str) -> None:
    kind, file = own_part(tmp_path, method, 'raise KeyError("boom")')
    said = problem_of(kind, file)
    assert said.startswith(f"{kind} 'mine' failed in {file}, line ")
    assert ": KeyError: 'boom'. " in said
    assert "\n" not in said


@pytest.mark.parametrize(("method", "answer", "wrong"), WRONG)
def test_an_answer_that_cannot_be_used_is_named(
    tmp_path: Path, method: str, answer: str, wrong: str
) -> None:
    kind, file = own_part(tmp_path, method, f"return {answer}")
    said = problem_of(kind, file)
    assert said.startswith(f"{kind} 'mine' in {file}, line ")
    assert re.search(wrong, said)
    assert "\n" not in said


BOOM = 'raise KeyError("boom")'
SERVED = [
    (CHOOSE, "free", "None"),
    (PICK, "slots[:0]", "slots[:count]"),
    (BATCH, "[]", "[None] * len(gangs)"),
    (ANEW, "[np.array([0, 0])] * len(gangs)", "[None] * len(gangs)"),
    (LANE, "np.array([98])", "None"),
    (BELIEVE, "Belief(None)", "Belief(Truth(work=5.0))"),
    ("Estimator.guesses(self, spec)", "'maybe'", "False"),
    (JUDGE, "Verdict('wait')", "Verdict(Fate.ADMIT)"),
]
"""Methods that a submission asks, answers that cannot be used, and such that can be."""


@pytest.mark.parametrize(("method", "wrong", "usual"), SERVED)
@pytest.mark.parametrize("raises", [True, False])
def test_a_server_goes_on_with_a_built_in_part(
    tmp_path: Path, method: str, wrong: str, usual: str, raises: bool
) -> None:
    kind, file = own_part(tmp_path, method, BOOM if raises else f"return {wrong}", usual)
    with forgotten_files():
        harness = ControllerHarness.at(tmp_path, **{kind: file})
        (tmp_path / "fails").touch()
        number = harness.submit(sleeping(5))
        harness.step(1)
        assert harness.state(number) == "running"
        (problem,) = harness.controller.health.problems
        assert problem.startswith(f"{kind} 'mine' ")
        assert f"{file}, line " in problem
        replaced = getattr(harness.controller.composition.written, kind)
        assert f"; {replaced} decides instead" in problem
        harness.header = header_of(harness.fake_cluster.cluster, **{kind: replaced})
        harness.crash(snapshot=False)
        assert not harness.controller.warnings, "the journal says what was decided, and by what"
