"""A short search on a trace finds points at least as good as the configurations that came with PCS.

Each of them is simulated as PCS does (with its ``delta``), on the trace it was made for, cut short; better is
less mean JCT and less mean prediction error, and a ten-thousandth more is as good. Ten of the twelve are
reached without refinement.
``benchmarks/pcs_fronts.py`` does it on the whole traces.
"""

from pathlib import Path

import pytest
from references import pcs_workload
from test_pcs_shares import shipped

from volvelle.core.composition import WrittenComposition
from volvelle.metrics.catalogue import read_objective
from volvelle.model.cluster import parse_cluster
from volvelle.simulate.run import Setting
from volvelle.tune.evaluate import evaluate
from volvelle.tune.search import Search, tune

pytest.importorskip("pymoo", reason="the extra 'tune' is not installed")

AS_GOOD = 1.0001
OBJECTIVES = (read_objective("jct:mean"), read_objective("pred_error:mean"))
GPUS = {"themis1_n100": 64, "gavel_g16_n200": 16, "t0e4a51_g16_n200": 16, "tee9e8c_n200": 64}


def setting(case: str, policy: str) -> Setting:
    cluster = parse_cluster(f"1x{GPUS[case]}")
    return Setting(cluster=cluster, composition=WrittenComposition(policy))


@pytest.mark.parametrize(
    "case",
    [
        "themis1_n100",
        pytest.param("gavel_g16_n200", marks=pytest.mark.slow),
        pytest.param("t0e4a51_g16_n200", marks=pytest.mark.slow),
        pytest.param("tee9e8c_n200", marks=pytest.mark.slow),
    ],
)
def test_fronts_hold_points_as_good_as_what_came_with_pcs(shared: Path, case: str) -> None:
    folder = shared / "golden" / "pcs"
    workload = pcs_workload(folder, case)
    search = Search(objectives=OBJECTIVES, candidates=320, refine=360, samples=0, test=0.0)
    front = tune(workload, setting(case, "pcs"), search, workers=1)
    for kind in ("jct", "bal", "pred"):
        theirs = evaluate(
            workload, setting(case, shipped(folder, case, kind, simulator=True)), OBJECTIVES
        )
        assert any(
            all(ours <= AS_GOOD * other for ours, other in zip(point.mean, theirs, strict=True))
            for point in front.points
        ), f"{kind}: {theirs}"
