"""Points of a front file, by name or number, as policies."""

import json
from pathlib import Path

import pytest
from systems_here import needs

from volvelle.core.composition import WrittenComposition
from volvelle.core.fronts import resolved
from volvelle.core.policy import policies
from volvelle.metrics.catalogue import read_objective
from volvelle.model.cluster import parse_cluster
from volvelle.model.problems import Problem
from volvelle.simulate.run import Setting
from volvelle.simulate.sources import generated
from volvelle.tune.front import Front
from volvelle.tune.search import Search, tune

pytestmark = needs("pcs")


@pytest.fixture(scope="module")
def front() -> Front:
    """Of a search that is as short as they come."""
    history = generated("lognormal:jobs=240,load=1.5", 3, 16).workload
    setting = Setting(cluster=parse_cluster("2x8"), composition=WrittenComposition("pcs"))
    objectives = (read_objective("jct:mean"), read_objective("pred_error:p99"))
    search = Search(objectives=objectives, candidates=6, samples=1, jobs=120)
    return tune(history, setting, search, workers=1)


def test_a_point_of_a_front_is_a_policy(front: Front, tmp_path: Path) -> None:
    path = front.write(tmp_path)
    fastest = front.points[0].parameters
    assert resolved(f"pcs:{path}#fastest") == f"pcs:{fastest}"
    assert resolved(f"pcs:{path}#0,round=60") == f"pcs:{fastest},round=60"
    assert policies.make(f"pcs:{path}#0,round=60").round == 60.0
    assert resolved("las:round=10m") == "las:round=10m"


OWN = """
from volvelle.core.order_policy import order

@order("unhurried")
def unhurried(jobs, now):
    return jobs.submit_time

@order("hasty")
def hasty(jobs, now):
    return -jobs.submit_time
"""


@pytest.mark.parametrize("searched", ["own.py:unhurried", "own.py", "elsewhere/own.py:unhurried"])
def test_a_point_of_a_front_is_a_policy_of_ones_own_file(tmp_path: Path, searched: str) -> None:
    (tmp_path / "own.py").write_text(OWN)
    path = tmp_path / "front.json"
    points = [{"parameters": "round=60"}]
    path.write_text(json.dumps({"policy": searched, "picks": {"balanced": 0}, "points": points}))
    made = policies.make(f"{tmp_path}/own.py:unhurried:{path}#balanced,strict=true")
    assert (made.name, made.label) == ("unhurried", "unhurried:round=60,strict=true")


def test_a_front_of_another_policy_of_the_same_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "front.json"
    path.write_text(json.dumps({"policy": "own.py:unhurried", "picks": {}, "points": []}))
    with pytest.raises(Problem, match="not of 'own"):
        policies.make(f"own.py:hasty:{path}#balanced")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("pcs:{}#fastst", "has no point 'fastst' .did you mean 'fastest'.*balanced"),
        ("pcs:{}#999", "has no point '999'.*a number from 0 to"),
        ("pcs:{}", "has many points, and none is named"),
        ("themis:{}#balanced", "is a front of policy 'pcs', not of 'themis'"),
        ("pcs:nowhere.json#balanced", "there is no file nowhere.json"),
        ("pcs:{}.bad.json#balanced", "is not a front file"),
        ("pcs:{}.odd.json#balanced", "is not a front file"),
    ],
)
def test_a_wrong_reference_is_refused(
    front: Front, tmp_path: Path, written: str, said: str
) -> None:
    path = front.write(tmp_path)
    Path(f"{path}.bad.json").write_text("{ not json")
    Path(f"{path}.odd.json").write_text('{"points": 3}')
    with pytest.raises(Problem, match=said):
        policies.make(written.format(path))
