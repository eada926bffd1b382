"""``volvelle compare`` over a grid: parts x rates of submission x seeds."""

import csv
import json
import statistics
from pathlib import Path

import pytest
from command_line import Volvelle
from systems_here import needs

from volvelle.model.problems import Problem
from volvelle.model.units import HOUR, format_duration
from volvelle.simulate.experiment import Experiment
from volvelle.simulate.run_directory import read_outcomes, read_record

pytest_plugins = ["command_fixtures"]
pytestmark = needs("gavel")

GENERATED = ("compare", "--generate", "gavel:jobs=60,multi_gpu=false", "-c", "2x4")


def tidy(folder: str) -> list[dict[str, str]]:
    with Path(folder, "runs.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_run_of_the_grid_is_a_row_of_one_tidy_table(volvelle: Volvelle) -> None:
    ran = volvelle(
        *GENERATED, "-p", "fifo", "-p", "las", "--admission", "accept-all", "--admission",
        "backlog:factor=1.2", "--jobs-per-hour", "1:3", "--seed", 1, "--seed", 2, "--out", "grid",
    )  # fmt: skip
    assert ran.status == 0, ran.err
    rows = tidy("grid")
    points = {
        (r["policy"], r["admission"], float(r["jobs_per_hour"]), int(r["seed"])) for r in rows
    }
    assert len(rows) == len(points) == 2 * 2 * 3 * 2
    for row in rows:
        folder = Path("grid/runs", next(p.name for p in Path("grid/runs").iterdir()
                                        if read_record(p).name == row["run"]))  # fmt: skip
        outcomes = read_outcomes(folder, read_record(folder))
        assert float(row["jct:mean [s]"]) == pytest.approx(float(outcomes.jct.mean()))
        assert float(row["utilisation [%]"]) > 0


def test_a_table_for_each_metric_has_a_column_for_each_rate(volvelle: Volvelle) -> None:
    ran = volvelle(
        *GENERATED, "-p", "fifo", "-p", "srtf", "--jobs-per-hour", "0.5:1.5:0.5", "-m", "jct:mean",
        "-m", "makespan", "--out", "grid", "--png",
    )  # fmt: skip
    assert ran.status == 0, ran.err
    lines = [line.split() for line in ran.out.splitlines()]
    assert lines.count(["policy", "0.5", "1", "1.5"]) == 2
    assert "mean JCT by jobs/h" in ran.out
    assert Path("grid/rates.png").is_file()
    assert "0.5, 1, 1.5 jobs/h" in ran.out.splitlines()[0]


def test_people_see_means_of_seeds_and_programs_every_run(volvelle: Volvelle) -> None:
    common = (*GENERATED, "-p", "fifo", "-p", "las", "--seed", 1, "--seed", 2, "--seed", 3)
    shown = volvelle(*common, "-m", "makespan", "--out", "grid").out
    assert "Means of 3 seeds ± their standard deviation." in shown
    assert sum(" ± " in line for line in shown.splitlines()) == 2 + 1
    rows = json.loads(volvelle("report", "grid", "-m", "makespan", "-o", "json").out)["rows"]
    assert [row["run"] for row in rows][:2] == ["fifo, seed 1", "fifo, seed 2"]
    again = volvelle("report", "grid", "-m", "makespan").out
    assert again.splitlines()[:4] == shown.splitlines()[2:6]
    mean = statistics.fmean(row["makespan"] for row in rows if row["run"].startswith("las"))
    assert f"{format_duration(mean)} ± " in shown


def test_the_same_jobs_come_at_every_rate(volvelle: Volvelle) -> None:
    """Sizes are drawn alike under one seed, so that only the load differs."""
    experiment = Experiment.of(
        None, {"generate": GENERATED[2], "cluster": "2x4", "jobs_per_hour": ["1:2"], "seeds": [3]}
    )
    slow, fast = experiment.sources(experiment.read_cluster()).values()
    assert [job.truth for job in slow.workload.jobs] == [job.truth for job in fast.workload.jobs]
    assert slow.workload.submit_times == pytest.approx(2 * fast.workload.submit_times)


def test_jobs_are_placed_on_nodes_that_fail_unless_a_placement_is_chosen() -> None:
    failing = {"nodes": [{"gpus": 8}], "failures": {"mtbf": "3d", "mttr": "1h"}}
    given = {"generate": "demo", "cluster": failing}
    experiment = Experiment.of(None, given)
    [run] = experiment.runs(experiment.read_cluster())
    assert run.setting.composition.placement == "consolidated"
    counted = Experiment.of(None, given | {"placements": ["none"]})
    with pytest.raises(Problem, match="nodes of this cluster change, and placement 'none'"):
        counted.runs(counted.read_cluster())


def test_a_trace_is_submitted_anew_at_each_rate(trace: Path) -> None:
    experiment = Experiment.of(
        None, {"trace": str(trace), "cluster": "1x8", "jobs_per_hour": 6, "seeds": list(range(200))}
    )
    sources = experiment.sources(experiment.read_cluster())
    gaps = [source.workload.submit_times[-1] / 6 for source in sources.values()]
    assert statistics.fmean(gaps) == pytest.approx(HOUR / 6, rel=0.1)
    first = next(iter(sources.values())).workload
    assert [job.spec.id for job in first.jobs] == ["a", "b", "c", "d", "e", "f"]
    assert first.jobs[3].truth.work == 6000.0


def test_resume_keeps_the_runs_of_a_smaller_grid(volvelle: Volvelle) -> None:
    common = (*GENERATED, "-p", "fifo", "--out", "grid")
    volvelle(*common, "--jobs-per-hour", "1:2")
    ran = volvelle(*common, "--jobs-per-hour", "1:4", "--resume")
    assert "simulated 4 runs, 2 of them earlier," in ran.out
    assert len(tidy("grid")) == 4


def test_results_of_a_grid_do_not_depend_on_the_number_of_workers(volvelle: Volvelle) -> None:
    for workers in (1, 2):
        volvelle(
            *GENERATED, "-p", "las", "--jobs-per-hour", "1:3", "--seed", 4, "--seed", 5,
            "--workers", workers, "--out", f"w{workers}",
        )  # fmt: skip
    assert Path("w1/runs.csv").read_bytes() == Path("w2/runs.csv").read_bytes()


@pytest.mark.parametrize("rates", ["9:1", "1:2:0", "a:b", "1:2:3:4", "0:3", "-1", "1:1e9"])
def test_rates_that_make_no_sense_are_refused_with_the_mend(rates: str) -> None:
    with pytest.raises(Problem, match="jobs_per_hour"):
        Experiment.of(None, {"generate": "gavel", "cluster": "1x1", "jobs_per_hour": [rates]})


def test_a_generator_without_a_rate_says_so(volvelle: Volvelle) -> None:
    ran = volvelle(
        "compare", "--generate", "pcs-themis1", "-c", "2x4", "--jobs-per-hour", "2", "-p", "fifo"
    )
    assert ran.status == 2
    assert "has no rate of submission" in ran.err


def test_many_runs_are_reported_without_a_picture_of_each(volvelle: Volvelle) -> None:
    ran = volvelle(*GENERATED, "-p", "fifo", "--jobs-per-hour", "1:14", "--out", "grid", "--png")
    assert ran.status == 0, ran.err
    assert not Path("grid/queue.png").exists()
    assert "too many to be drawn one by one" in Path("grid/report.html").read_text("utf-8")
