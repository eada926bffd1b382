"""A span of a journal, had again under another policy."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from volvelle.core.composition import WrittenComposition
from volvelle.core.journal import read_journal
from volvelle.core.paying import COMPILED_FROM, pays_for
from volvelle.core.scheduler import Scheduler
from volvelle.metrics.outcomes import Outcomes
from volvelle.metrics.recorder import outcomes_of
from volvelle.model.cluster import parse_cluster
from volvelle.model.problems import Problem
from volvelle.simulate.counterfactual import counterfactual
from volvelle.simulate.run import Setting, _pays, simulate
from volvelle.simulate.sources import generated


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    _simulate("fifo", path)
    return path


def _simulate(policy: str, journal: Path | bool = False) -> Outcomes:
    workload = generated("lognormal:jobs=60,load=1.5", 4, 64).workload
    composition = WrittenComposition(policy, "consolidated")
    setting = Setting(cluster=parse_cluster("8x8"), composition=composition)
    return simulate(workload, setting, journal=journal).outcomes


def test_a_whole_run_is_had_again_as_it_was_and_under_another_policy(journal: Path) -> None:
    found = counterfactual(journal, "srsf", "accept-all", 0.0, np.inf)
    assert (found.policy, found.admission) == ("fifo", "accept-all")
    assert (found.jobs, found.passed_over) == (60, 0)
    assert asdict(found.again) == pytest.approx(asdict(found.was))
    fifo, srsf = _simulate("fifo"), _simulate("srsf")
    assert found.was.jct_mean == pytest.approx(fifo.jct.mean())
    assert found.other.jct_mean == pytest.approx(srsf.jct.mean())
    assert found.other.jct_mean < found.was.jct_mean
    assert found.other.jct_p90 == pytest.approx(np.percentile(srsf.jct, 90))
    assert found.other.wait_mean == pytest.approx(srsf.responsiveness.mean())
    assert found.other.makespan == pytest.approx(srsf.finish.max() - srsf.submit_time.min())


def test_of_a_span_its_own_jobs_are_measured_behind_those_that_were_there(journal: Path) -> None:
    outcomes = _simulate("fifo")
    since, until = outcomes.submit_time[[20, 40]]
    found = counterfactual(journal, "fifo", "accept-all", since, until)
    assert found.jobs == 20
    span = slice(20, 40)
    assert found.was.jct_mean == pytest.approx(outcomes.jct[span].mean())
    assert found.again.wait_mean == pytest.approx(outcomes.responsiveness[span].mean())
    assert found.other == found.again


def test_jobs_that_are_not_over_are_counted_apart(journal: Path, tmp_path: Path) -> None:
    lines = journal.read_bytes().splitlines(keepends=True)
    half = tmp_path / "half.jsonl"
    half.write_bytes(b"".join(lines[: len(lines) // 2]))
    found = counterfactual(half, "srsf", "accept-all", 0.0, np.inf)
    status = outcomes_of(*read_journal(half)).status.tolist()
    assert found.unfinished == status.count("running") + status.count("waiting") > 0
    assert found.jobs + found.passed_over == status.count("finished") > 0


def test_a_span_without_jobs_and_one_without_time_are_refused(journal: Path) -> None:
    with pytest.raises(Problem, match="no job of this span has finished"):
        counterfactual(journal, "srsf", "accept-all", -2.0, -1.0)
    with pytest.raises(Problem, match="no more time"):
        counterfactual(journal, "srsf", "accept-all", 0.0, np.inf, lambda: True)


def test_machine_code_pays_for_few_jobs_where_an_admission_looks_ahead_for_each() -> None:
    cluster = parse_cluster("8x8")
    pays, there = {}, False
    for admission in ("accept-all", "deadlines"):
        composition = WrittenComposition("las", "consolidated", admission=admission)
        scheduler = Scheduler(cluster, composition.build())
        pays[admission] = _pays(400, Setting(cluster=cluster, composition=composition), scheduler)
        there = pays_for(scheduler, COMPILED_FROM)
    assert pays == {"accept-all": False, "deadlines": there}
