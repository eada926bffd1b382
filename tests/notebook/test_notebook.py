"""`import volvelle as vv`: the same as the commands, values that show themselves, columns for data frames."""

import importlib
import inspect
import pydoc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from systems_here import needs

from volvelle.cli.main import main
from volvelle.core.composition import WrittenComposition
from volvelle.core.order_policy import order
from volvelle.live.http.client import ApiClient
from volvelle.live.status.view import JobStatusView
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job
from volvelle.model.problems import Problem
from volvelle.notebook.chosen import ELASTIC_POLICIES, MANY_JOBS, chosen_policies
from volvelle.notebook.jobs import Jobs
from volvelle.notebook.records import Rows
from volvelle.notebook.results import Comparison
from volvelle.notebook.server import Server
from volvelle.policies.orders import LeastAttainedService
from volvelle.report.table import as_columns
from volvelle.simulate.run import Setting, simulate
from volvelle.simulate.run_directory import read_outcomes, read_record
from volvelle.workload.generators import make_generator
from volvelle.workload.workload import Workload

vv: Any = importlib.import_module("volvelle")

ROWS = "".join(
    f"{40 * i},{40 * i + 9},{40 * i + 40 + i % 7},{1 + i % 4},u{i % 3}\n" for i in range(40)
)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "march.csv"
    path.write_text("submit_time,start_time,end_time,gpus,user\n" + ROWS)
    return path


@pytest.fixture(scope="module")
def compared(trace: Path) -> Comparison:
    found: Comparison = vv.compare(
        trace, cluster="1x8", policies=["fifo", LeastAttainedService(round=600)], workers=1
    )
    return found


def test_importing_it_imports_nothing_else() -> None:
    said = "import sys, volvelle; print([n for n in sys.modules if n.split('.')[0] in ('numpy', 'pydantic')])"
    ran = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
    assert {"read", "generate", "Cluster", "simulate", "compare", "tune", "connect"} <= set(dir(vv))
    with pytest.raises(AttributeError, match="no attribute 'comparison'"):
        _ = vv.comparison


@pytest.mark.parametrize("name", ["read", "generate", "simulate", "compare", "tune", "connect"])
def test_all_but_jobs_cluster_and_policies_is_said_by_name(name: str) -> None:
    _, *others = inspect.signature(getattr(vv, name)).parameters.values()
    if others and name in ("simulate", "compare", "tune"):
        assert [others.pop(0).name, others.pop(0).name[:5]] == ["cluster", "polic"]
    assert {one.kind for one in others} <= {
        inspect.Parameter.KEYWORD_ONLY,
        inspect.Parameter.VAR_KEYWORD,
    }


@needs("afs")
def test_policies_are_chosen_by_the_jobs() -> None:
    """Only quick ones for many jobs; those that let jobs grow where some can, since they decide as others."""
    gangs = make_generator("demo", {"jobs": 60, "gpus": 16}).generate(np.random.default_rng(0))
    first = gangs.jobs[0]
    grows = Job(replace(first.spec, min_gpus=1.0, max_gpus=8.0), first.truth)
    few, elastic = chosen_policies(gangs), chosen_policies(Workload([*gangs.jobs, grows]))
    assert set(few) == set(elastic) - ELASTIC_POLICIES < set(elastic)
    assert set(chosen_policies(Workload([gangs.jobs[0]] * MANY_JOBS))) < set(few)
    finish = {}
    for name in elastic:
        setting = Setting(cluster=parse_cluster("2x8"), composition=WrittenComposition(name))
        finish[name] = simulate(gangs, setting).outcomes.finish.tolist()
    assert finish["max-min"] == finish["fifo-skip"]
    assert finish["afs-l"] == finish["srtf"]


def test_compare_is_the_command(
    trace: Path,
    compared: Comparison,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(trace.parent)
    words = [
        "compare",
        trace.name,
        "-c",
        "1x8",
        "-p",
        "fifo",
        "-p",
        "las:round=600",
        "--out",
        "cmp",
    ]
    monkeypatch.setattr(sys, "argv", ["volvelle", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert "simulated 2 policies in" in capsys.readouterr().out
    for name in ("recorded", "fifo"):
        directory = Path("cmp/runs", name)
        outcomes = read_outcomes(directory, read_record(directory))
        assert compared[name].outcomes.finish.tolist() == outcomes.finish.tolist()
    assert list(compared.outcomes) == ["recorded", "fifo", "las:round=600"]
    assert not any(one.directory.exists() for one in compared.made)


def test_results_show_themselves(compared: Comparison, trace: Path) -> None:
    jobs = vv.read(trace)
    assert repr(jobs).startswith("<40 jobs of ")
    assert jobs.proposed_cluster == "1x4"
    text, html = repr(compared), compared._repr_html_()
    for sentence in compared.verdict:
        assert str(sentence) in text
    assert "data:image/png;base64," in html
    assert "las:round=600" in html
    for shown in (repr(compared["fifo"]), str(compared["fifo"].table())):
        assert "mean JCT" in shown


def test_columns_are_those_of_the_files(compared: Comparison) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="Arrow needs the extra 'notebook'")
    runs, jobs = pyarrow.table(compared), pyarrow.table(compared["fifo"])
    assert runs.column("jct:mean").to_pylist() == as_columns(compared.grid.tidy())["jct:mean"]
    assert jobs.num_rows == len(compared["fifo"].jobs) == 40
    assert jobs.column("jct").to_pylist() == compared["fifo"].outcomes.jct.tolist()


def test_without_pyarrow_it_is_said_what_is_missing(
    compared: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pyarrow", "matplotlib"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(Problem, match=r"-e '.\[notebook\]'"):
        compared.__arrow_c_stream__()
    with pytest.raises(Problem, match="Matplotlib, which is not installed"):
        compared.plot()


def test_one_policy_may_be_named_without_a_list(trace: Path) -> None:
    assert list(vv.compare(trace, "1x8", "srsf", workers=1)) == ["recorded", "srsf"]


def test_what_is_not_there_is_named_with_the_nearest() -> None:
    with pytest.raises(
        AttributeError, match=r"no attribute 'smulate' \(did you mean 'simulate'\?\)"
    ):
        vv.smulate  # noqa: B018
    with pytest.raises(vv.Problem, match=r"it is a generator\. Say generate\('demo:jobs=5'\)"):
        vv.simulate("demo:jobs=5", "1x8", "srsf")


def test_simulate_takes_the_keys_of_an_experiment_file(tmp_path: Path) -> None:
    jobs: Jobs = vv.generate("lognormal:jobs=30", seed=3, cluster="2x8")
    run = vv.simulate(jobs, cluster="2x8", placement="consolidated", seed=1, out=tmp_path / "run")
    assert read_record(tmp_path / "run").seed == 1
    assert (tmp_path / "run/journal.jsonl").is_file()
    assert run.record.composition.placement == "consolidated"
    with pytest.raises(
        Problem, match=r"there is no argument 'placementt' .did you mean 'placement'"
    ):
        vv.simulate(jobs, cluster="2x8", placementt="none")
    with pytest.raises(Problem, match="no argument 'policies' here"):
        vv.simulate(jobs, "2x8", policies=["srsf"])
    with pytest.raises(Problem, match="no argument 'policy' here"):
        vv.compare(jobs, "2x8", policy="srsf")
    with pytest.raises(Problem, match="'generate': the jobs are given"):
        vv.simulate(jobs, "2x8", generate="demo")


def test_connect_names_the_server_or_says_that_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert vv.connect(url="http://127.0.0.1:1", token="x").client.url == "http://127.0.0.1:1"
    monkeypatch.delenv("VOLVELLE_SERVER", raising=False)
    with pytest.raises(Problem, match="no server is known"):
        vv.connect()
    with pytest.raises(Problem, match="'nowhere' is not the URL of a server"):
        vv.connect("nowhere")


def test_a_token_is_not_shown() -> None:
    client = ApiClient("http://127.0.0.1:1", "vv_secret")
    assert repr(Server(client)) == "<Server at http://127.0.0.1:1>"


def test_the_first_job_of_a_server_has_a_number() -> None:
    """Shown is what says something; 0 does where it is a number's."""
    job = {
        "number": 0,
        "name": "a",
        "user": "ann",
        "state": "waiting",
        "gpus": 1,
        "submitted": 0.0,
        "request": {},
    }
    shown = repr(Rows.of(JobStatusView, [job]))
    assert shown.split()[:2] == ["number", "name"]
    assert "attempt" not in shown


def test_an_answer_that_is_none_says_what_is_missing_and_the_mend() -> None:
    with pytest.raises(Problem, match=r"missing required field `number`.*version of Volvelle"):
        Rows.of(JobStatusView, [{"name": "a"}])


def test_a_cluster_can_be_written_as_on_the_command_line() -> None:
    assert vv.Cluster("2x8:a100,1x4") == parse_cluster("2x8:a100,1x4")
    with pytest.raises(Problem, match="cannot read 'eight' as a cluster"):
        vv.Cluster("eight")


def test_a_comparison_is_a_mapping_of_runs(compared: Comparison) -> None:
    assert list(compared) == ["recorded", "fifo", "las:round=600"]
    assert len(compared) == 3
    assert "mean JCT" in repr(compared.tables("jct:mean"))
    assert [compared[name].record.name for name in compared] == list(compared)


def test_results_write_their_pages(compared: Comparison, tmp_path: Path) -> None:
    page = compared.report(tmp_path / "all", columns=["jct:p99"])
    assert "2 runs and the record on march" in page.read_text()
    assert (tmp_path / "all" / "runs.csv").is_file()
    assert "fifo" in compared["fifo"].report(tmp_path / "one").read_text()
    (tmp_path / "file").write_text("")
    with pytest.raises(Problem, match="cannot write"):
        compared.report(tmp_path / "file")


def test_a_data_frame_is_read_as_its_file_is(trace: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pytest.importorskip("pyarrow.csv")
    frame = pyarrow.csv.read_csv(trace)
    jobs = vv.read(frame)
    assert [job.spec for job in jobs.workload.jobs] == [
        job.spec for job in vv.read(trace).workload.jobs
    ]
    assert jobs.source.origin["trace"] == "a data frame"
    renamed = frame.rename_columns(["began", "start_time", "end_time", "gpus", "user"])
    assert len(vv.read(renamed, map={"submit_time": "began"})) == len(jobs)
    assert len(vv.simulate(frame, cluster="1x8").outcomes) == len(jobs)
    with pytest.raises(Problem, match="jobs cannot be read from a list"):
        vv.read([1, 2])


def test_durations_categories_and_views_of_a_data_frame_are_read() -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    hours = pyarrow.array([3_600_000_000_000, 7_200_000_000_000], pyarrow.duration("ns"))
    users = pyarrow.array(["ann", "bob"])
    columns = {
        "submit_time": [0.0, 10.0],
        "gpus": [1, 2],
        "duration": hours,
        "user": users.dictionary_encode(),
        "name": users.cast(pyarrow.string_view()),
    }
    jobs = vv.read(pyarrow.table(columns)).workload.jobs
    assert [job.truth.work for job in jobs] == [3600.0, 2 * 7200.0]
    assert [(job.spec.user, job.spec.name) for job in jobs] == [("ann", "ann"), ("bob", "bob")]


def test_what_is_wrong_with_a_data_frame_is_said_of_its_rows_and_of_arguments(
    tmp_path: Path,
) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

    def said(reads: Any, **arguments: Any) -> str:
        with pytest.raises(Problem) as raised:
            vv.read(reads, **arguments)
        return str(raised.value)

    wrong = pyarrow.table({"submit_time": [0, 1], "gpus": ["1", "four"], "duration": [5, 6]})
    report = vv.read(wrong).report
    assert report.examples == {"unreadable gpus": ["row 2 of the data frame, column gpus: 'four'"]}
    assert said(wrong, strict=True).startswith("row 2 of the data frame, column gpus: 'four'")
    named = {"submitted": [0], "gpu": [1], "runtime": [5]}
    mend = "map={'submit_time': 'submitted', 'gpus': 'gpu', 'duration': 'runtime'}."
    assert said(pyarrow.table(named)).endswith(mend)
    (tmp_path / "t.csv").write_text("submitted,gpu,runtime\n0,1,5\n")
    assert said(tmp_path / "t.csv").endswith(mend)
    spaced = pyarrow.table({"Requested On": [0], "# of GPUs": [1], "Runtime": [5]})
    assert "map={'submit_time': 'Requested On', 'gpus': '# of GPUs'" in said(spaced)
    assert said(spaced, map={"gpu": "# of GPUs"}).startswith(
        "map={'gpu': '# of GPUs'}: there is no"
    )
    dates = {"submit_time": ["10/13/2026 10:00"], "gpus": [1], "duration": [5]}
    assert said(pyarrow.table(dates)).endswith("dates='%m/%d/%Y %H:%M'.")


def test_a_description_is_shown_in_a_sentence(trace: Path) -> None:
    shown = repr(vv.read(trace).describe(cluster="1x8"))
    assert "40 jobs of march" in shown
    assert len(shown) < 300


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda jobs: vv.simulate(jobs, 64), '64 is no cluster. A cluster is written "8x8"'),
        (lambda jobs: vv.read(jobs).describe(cluster=8), "8 is no cluster. A cluster is written"),
        (
            lambda jobs: vv.tune(jobs, "1x8", candidates="many"),
            "candidates: 'many': it has to be",
        ),
        (
            lambda jobs: vv.tune(jobs, "1x8", objectives="jct:mean"),
            "a trade-off needs two objectives",
        ),
        (lambda jobs: vv.generate("demo", seed="a"), "seed: 'a': it has to be a whole number"),
        (lambda jobs: vv.generate(5), "generator: 5: it has to be text"),
        (lambda jobs: vv.read(jobs, map="x"), "cannot read 'x' as a column mapping. Write map "),
        (lambda jobs: vv.simulate(jobs, "1x8").figure(5), "5 is no metric. Write NAME"),
        (lambda jobs: vv.simulate(jobs, "1x8", seed="a"), "seed: 'a': it has to be a whole number"),
        (lambda jobs: vv.simulate(jobs, "1x8", tick="a"), "tick: 'a': cannot read 'a' as a dur"),
        (
            lambda jobs: vv.compare(jobs, "1x8", policies=5),
            "policy: 5: it has to be text",
        ),
        (
            lambda jobs: vv.compare(jobs, "1x8", workers="x"),
            "workers: 'x': it has to be",
        ),
        (
            lambda jobs: vv.read(jobs, format="swf", map={"gpus": "gpus"}),
            "map does not apply to march.csv: it is read as 'swf'. Leave map out, or say format='vol",
        ),
    ],
)
def test_wrong_arguments_are_problems_that_name_them(
    call: Callable[[Path], object], said: str, trace: Path
) -> None:
    with pytest.raises(Problem) as raised:
        call(trace)
    assert said in str(raised.value)
    assert "--" not in str(raised.value)


def test_arguments_may_be_one_text(trace: Path) -> None:
    compared = vv.compare(trace, Path("1x8"), policies="fifo", metrics="jct:max", seed="3")
    assert compared.records["fifo"].seed == 3
    renamed = vv.read(trace, map="name=user")
    assert renamed.workload.specs[1].name == "u1"
    assert "march.csv" not in repr(renamed)
    assert "for 40 of 40 jobs the duration (column gpus:h) is not" in repr(
        vv.read(trace, map={"duration": "gpus:h"})
    )


def test_rows_that_are_odd_are_shown(tmp_path: Path) -> None:
    rows = "id,submit_time,start_time,duration,gpus\na,100,50,60,1\nb,200,250,60,1\n"
    (tmp_path / "odd.csv").write_text(rows)
    assert "1 odd (start before they were submitted 1)" in repr(vv.read(tmp_path / "odd.csv"))


def test_shown_are_the_metrics_that_were_asked_for(trace: Path) -> None:
    compared = vv.compare(trace, "1x8", policies=["fifo", "las"], metrics=["jct:max"])
    assert [column.key for column in compared.tables()[0].columns][1:] == ["jct:max"]
    assert "max JCT" in repr(compared)
    assert "p99" not in repr(compared["las"])
    assert "p99" not in repr(vv.simulate(trace, "1x8", metrics="jct:max"))


def test_clusters_are_short_and_other_things_are_none() -> None:
    assert repr(vv.Cluster("120x8:a100")) == "<Cluster 120x8:a100: 960 GPUs>"
    with pytest.raises(Problem, match=r"8 is no cluster. Write Cluster\("):
        vv.Cluster(8)


def test_names_that_there_are_not_are_answered_with_those_that_there_are(
    compared: Comparison, trace: Path
) -> None:
    with pytest.raises(KeyError, match=r"no run is called 'sjf'; there are recorded, fifo, las"):
        _ = compared["sjf"]
    with pytest.raises(Problem, match=r"no run is called 'fifoo' \(did you mean 'fifo'\?\)"):
        compared.figure("fifoo", "jct:mean")
    for written, meant in (("SRSF", "srsf"), ("max_min", "max-min"), ("FCFS", "fifo")):
        with pytest.raises(Problem, match=rf"unknown policy '{written}' \(did you mean '{meant}'"):
            vv.simulate(trace, "1x8", written)
    with pytest.raises(Problem, match=r"'mean_jct' \(did you mean 'jct:mean'\?\)"):
        compared.figure("fifo", "mean_jct")
    with pytest.raises(Problem, match=r"there is no argument 'polcies' \(did you mean 'policies'"):
        vv.simulate(trace, "1x8", polcies=["srsf"])


def test_a_policy_of_ones_own_is_given_as_it_is_defined(trace: Path) -> None:
    @order("own-widest-first")
    def widest_first(jobs: Any, now: float) -> Any:
        return -jobs.gpus

    found = vv.compare(trace, "1x8", policies=[widest_first, "fifo"])
    assert {"own-widest-first", "fifo"} <= set(found)
    assert vv.simulate(trace, "1x8", policy=widest_first).record.name == "own-widest-first"
    with pytest.raises(Problem, match=r"<lambda> is a function without a name.*@policy\.order"):
        vv.simulate(trace, "1x8", policy=lambda jobs, now: jobs.gpus)


def test_a_file_that_was_edited_is_loaded_again(trace: Path, tmp_path: Path) -> None:
    own, text = tmp_path / "own.py", "from volvelle import policy\n\n@policy.order({!r})\n"
    for name in ("own-first", "own-edited"):
        own.write_text(f"{text.format(name)}def own(jobs, now):\n    return jobs.gpus\n")
        assert vv.simulate(trace, "1x8", policy=str(own)).record.name == name


def test_a_function_s_further_arguments_are_the_policy_s_parameters(
    trace: Path, recwarn: pytest.WarningsRecorder
) -> None:
    def by_width_and_age(jobs: Any, now: float, narrow: float = 0.0, aged: float = 1.0) -> Any:
        return narrow * jobs.gpus / jobs.held + aged * jobs.submit_time

    mixed: Any = order("own-mixed")(by_width_and_age)
    found = vv.compare(trace, "1x4", policies=[mixed, mixed(narrow=1e6, aged=0.0)], workers=1)
    assert list(found)[1:] == ["own-mixed", "own-mixed:narrow=1e+06,aged=0"]
    nothing: Any = lambda jobs, now, low=(): jobs.gpus  # noqa: E731
    with pytest.raises(Problem, match=r"its argument low=\(\) cannot be a parameter"):
        order("own-low")(nothing)
    assert not [one for one in recwarn if issubclass(one.category, RuntimeWarning)]


def test_what_is_missing_is_asked_for_as_python_writes_it(trace: Path) -> None:
    with pytest.raises(Problem, match=r"no cluster is given\. Say cluster='\d+x\d+'"):
        vv.compare(trace)
    with pytest.raises(Problem, match=r"Name each alone: policies=\['fifo', 'srsf'\]"):
        vv.compare(trace, "1x8", policies="fifo,srsf")
    found = vv.compare(trace, "1x8", policies=["fifo", "srsf"])
    assert repr(found.in_short).startswith("- Idle: ")
    assert "price=PER_GPU_HOUR" in repr(found)
    assert repr(found.verdict) in repr(found)
    assert found.in_short[0].run == "recorded"


@pytest.mark.parametrize("called", [vv.simulate, vv.tune], ids=["simulate", "tune"])
def test_help_of_a_package_that_is_called_is_that_of_its_function(called: Any) -> None:
    said = pydoc.render_doc(called, renderer=pydoc.TextDoc())
    assert "Raises `Problem`" in said
    assert "policy" in said
    assert "PACKAGE CONTENTS" not in said
    assert inspect.signature(called).parameters["jobs"].annotation
