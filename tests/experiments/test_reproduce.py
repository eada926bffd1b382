"""`volvelle reproduce`: every study runs small with the digits committed; what differs or lacks is said."""

import csv
import json
import re
import shutil
from pathlib import Path

import pytest
from forked import forked
from typer.testing import CliRunner

from volvelle.cli.main import app
from volvelle.model.problems import Problem
from volvelle.studies.inputs import VARIABLE
from volvelle.studies.registry import Registry, Study
from volvelle.studies.running import Run, compared
from volvelle.workload import fetching

ROOT = Path(__file__).parents[2]
REGISTRY = Registry(ROOT)
STUDIES = {study.name: study for paper in REGISTRY.papers for study in paper.studies}
SMALL = [name for name, study in STUDIES.items() if study.small is not None]
EXTRAS = {"anticipatory": "lightgbm", "anticipatory/potential": "highspy", "pcs": "pymoo"}
"""What some need, by study or paper."""


class ForkedRun(Run):
    """A run whose programs need not import NumPy and Volvelle anew."""

    def command(self, study: Study) -> list[str]:
        return [str(forked().folder / "program"), *super().command(study)[1:]]


def inputs_of(study: Study, request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue("shared") if study.needs else Path("nowhere")


@pytest.mark.parametrize("name", SMALL)
def test_it_runs_small_and_every_digit_is_the_committed_one(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    study = STUDIES[name]
    pytest.importorskip(EXTRAS.get(name, EXTRAS.get(study.folder, "numpy")))
    run = ForkedRun(REGISTRY, inputs_of(study, request), tmp_path, small=True)
    result = run.one(study)
    printed = (run.folder(study) / "printed.txt").read_text()
    assert result.as_committed, f"{result}\n{printed[-2000:]}"
    page = (run.folder(study) / f"{study.stem}.md").read_text(encoding="utf-8")
    assert page.rstrip() in printed
    assert "| the paper | here |" in page
    assert not re.search(r"\bnan\b", page)
    for picture in run.folder(study).glob("*.png"):
        assert f"({picture.name})" in page


def reproduce(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["reproduce", *arguments])
    if isinstance(result.exception, Problem):
        return 2 if result.exception.usage else 1, str(result.exception)
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("paper", "figure", "studies"),
    [
        ("pcs", "5", ["pcs/workload1"]),
        ("blox", "4", ["blox/tiresias_jct", "blox/bandwidth", "blox/bandwidth_mixes"]),
        ("OSDI", "10b", ["pcs/size_error"]),
    ],
)
def test_studies_are_found_by_paper_figure_and_table(
    paper: str, figure: str, studies: list[str]
) -> None:
    assert [study.name for study in REGISTRY.chosen(paper, figure, None)] == studies
    status, listed = reproduce(paper, "--figure", figure, "--list")
    assert status == 0
    assert all(name in listed for name in (*studies, "CPU time"))


def test_what_is_not_known_is_said_with_what_is() -> None:
    assert reproduce("pcs", "--figure", "99") == (
        2,
        "no study is of that paper, figure and name. See: volvelle reproduce --list.",
    )
    assert "did you mean 'pcs/toy'" in reproduce("--study", "pcs/toyy")[1]
    assert "did you mean 'shockwave'" in reproduce("shokwave")[1]
    assert reproduce()[0] == 2


def test_without_the_repository_it_says_where_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, said = reproduce("pcs", "--studies", str(tmp_path))
    assert status == 2
    assert "no part of the installed package" in said
    assert "source distribution" in said
    monkeypatch.chdir(ROOT / "docs")
    assert Registry.find().root == ROOT


def test_a_page_is_written_with_the_curves_and_claims_of_what_was_run(tmp_path: Path) -> None:
    status, said = reproduce("--study", "pcs/toy", "--out", str(tmp_path))
    assert (status, said.splitlines()[-1]) == (
        0,
        f"1 of 1 as committed, 0 skipped; pages in {tmp_path}",
    )
    page = (tmp_path / "pcs.md").read_text()
    assert "[toy](pcs/toy/toy.md)" in page
    assert "| the paper | here | holds | why not |" in page
    assert "workload1" not in page


def test_cells_that_differ_are_counted_by_column_and_measured_ones_left_out(tmp_path: Path) -> None:
    committed, made = tmp_path / "committed.csv", tmp_path / "made.csv"
    committed.write_text("policy,jct,seconds\nfifo,0.1,1\nlas,2,1\n")
    made.write_text("policy,jct,seconds\nfifo,0.10000000000000001,9\nlas,3,9\n")
    assert compared(committed, made, ("seconds",)) == (4, {"jct": 1})
    made.write_text("policy,jct\nfifo,0.1\n")
    assert compared(committed, made, ()) == (6, {"rows and columns": 6})


def test_replaced_results_are_those_made_with_their_time(tmp_path: Path) -> None:
    kept = shutil.ignore_patterns("before", "*.png")
    shutil.copytree(ROOT / "experiments" / "pcs", tmp_path / "experiments" / "pcs", ignore=kept)
    for name in ("findings.py", "seconds.csv"):
        shutil.copy(ROOT / "experiments" / name, tmp_path / "experiments")
    registry = Registry(tmp_path)
    (toy,) = registry.chosen("pcs", None, "toy")
    registry.table(toy).write_text(registry.table(toy).read_text().replace("27.0", "7.0"))
    assert Run(registry, tmp_path, tmp_path / "out").one(toy).apart == {"jct": 1}
    replaced = Run(registry, tmp_path, tmp_path / "out", replace=True).one(toy)
    assert (replaced.apart, replaced.as_committed) == ({"jct": 1}, True)
    assert registry.table(toy).read_text() == REGISTRY.table(toy).read_text()
    assert 0.0 < Registry(tmp_path).seconds["pcs/toy"] < 60.0


STUDY_THAT_KEEPS = """
import argparse, pathlib, sys

parser = argparse.ArgumentParser()
parser.add_argument("--out", type=pathlib.Path)
parser.add_argument("--keep", type=pathlib.Path)
given = parser.parse_args()
steps = len(list(given.keep.glob("*"))) if given.keep.is_dir() else 0
given.keep.mkdir(parents=True, exist_ok=True)
(given.keep / f"step {steps}").touch()
if steps == 0:
    sys.exit("interrupted")
(given.out / "long.csv").write_text(f"steps\\n{steps}\\n")
"""


def test_a_study_that_keeps_goes_on_by_the_same_code_alone(tmp_path: Path) -> None:
    folder = tmp_path / "experiments" / "own"
    (folder / "results").mkdir(parents=True)
    (folder / "results" / "long.csv").write_text("steps\n1\n")
    (folder.parent / "seconds.csv").write_text("own/long,7200\n")
    program = folder / "long.py"
    program.write_text(STUDY_THAT_KEEPS)
    paper = 'title = "Own"\nreference = ""\nidea = ""\nbuilt = []\n'
    study_written = '[[studies]]\nname = "own/long"\nwhere = "1"\nkeeps = true\n'
    (folder / "paper.toml").write_text(paper + study_written)
    registry = Registry(tmp_path)
    (study,) = registry.chosen("own", None, None)
    run = Run(registry, tmp_path, tmp_path / "out", replace=True)
    assert "failed" in run.one(study).failed
    program.write_text(f"{STUDY_THAT_KEEPS}# changed")
    assert "failed" in run.one(study).failed, "by other code nothing was kept"
    program.write_text(STUDY_THAT_KEEPS)
    assert run.one(study).as_committed
    assert Registry(tmp_path).seconds == {"own/long": 7200.0}, (
        "the time of a part is not the study's"
    )
    assert "failed" in run.one(study).failed, "what is complete is made anew"

    _, said = reproduce("own", "--studies", str(tmp_path), "--out", str(tmp_path / "out"))
    assert "own/long took 120 min of CPU when its table was made; an interrupted run goes" in said


def test_a_study_whose_inputs_lack_is_skipped_and_says_what_to_put_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(file: fetching.PublishedFile, folder: Path, progress: object) -> str:
        raise Problem("github.com cannot be reached")

    monkeypatch.setattr("volvelle.studies.inputs.fetch", unreachable)
    given = ("--study", "pcs/workload1", "--data", str(tmp_path), "--out", str(tmp_path / "out"))
    status, said = reproduce(*given)
    assert status == 0
    assert f"Put {fetching.published_trace('pcs-artifact').files[0].url}" in said
    assert f"skipped, {tmp_path} lacks data/philly-pcs" in said
    assert "golden/pcs (results of the reference simulator" in said
    assert "0 of 1 as committed, 1 skipped" in said


def test_public_inputs_are_fetched_with_licence_and_hash_and_another_file_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetched(file: fetching.PublishedFile, folder: Path, progress: object) -> str:
        (folder / file.name).parent.mkdir(parents=True, exist_ok=True)
        (folder / file.name).write_text("")
        return fetching.sha256(folder / file.name)

    monkeypatch.setattr("volvelle.studies.inputs.fetch", fetched)
    given = ("--study", "chronus/profiler", "--small", "--data", str(tmp_path), "--out")
    status, said = reproduce(*given, str(tmp_path / "out"))
    assert status == 1  # there are no jobs in an empty file
    assert "licence: MIT; Philly: CC-BY-4.0" in said
    assert "another file than was studied" in said
    assert "not the files that were studied" in said
    assert "chronus/profiler: failed after" in said


def test_a_published_table_serves_as_well_as_the_one_beside_the_results(
    tmp_path: Path, shared: Path
) -> None:
    data, golden = tmp_path / "data" / "shockwave", shared / "golden" / "shockwave"
    shutil.copytree(shared / "data" / "shockwave", data)
    with (golden / "throughputs_v100.csv").open(encoding="utf-8", newline="") as file:
        table = {
            str((row["job_type"], int(row["scale_factor"]))): {"null": float(row["steps_per_s"])}
            for row in csv.DictReader(file)
            if row["file"].startswith("wisr")
        }
    study = STUDIES["shockwave/efficiency"]
    assert (
        "data/shockwave" in Run(REGISTRY, tmp_path, tmp_path / "out", small=True).one(study).skipped
    )
    (data / "wisr_throughputs.json").write_text(json.dumps({"v100": table}))
    assert Run(REGISTRY, tmp_path, tmp_path / "out", small=True).one(study).as_committed


def test_exactness_needs_reference_results(tmp_path: Path) -> None:
    status, said = reproduce("exactness", "--data", str(tmp_path))
    assert status == 1
    assert f"no results of reference simulators in {tmp_path}" in said


def test_exactness_counts_file_by_file_and_shows_what_failed(tmp_path: Path) -> None:
    (tmp_path / "golden").mkdir()
    (tmp_path / "tests" / "golden").mkdir(parents=True)
    shutil.copytree(ROOT / "experiments" / "pal", tmp_path / "experiments" / "pal")
    shutil.copy(ROOT / "experiments" / "seconds.csv", tmp_path / "experiments")
    (tmp_path / "tests" / "golden" / "test_one.py").write_text(
        "import pytest\n"
        "def test_equal(): pass\n"
        "def test_other(): assert 1 == 2\n"
        "def test_lacking(): pytest.skip('no golden/one')\n"
    )
    status, said = reproduce("exactness", "--studies", str(tmp_path), "--data", str(tmp_path))
    assert (status, said.partition(" (")[0]) == (1, "one: 1 failed, 1 passed, 1 skipped")
    assert "  SKIPPED [1] tests/golden/test_one.py:4: no golden/one" in said
    assert "assert 1 == 2" in said


def test_the_inputs_that_were_studied_are_those_beside_the_repository(shared: Path) -> None:
    for name, trace in fetching.published_traces().items():
        for file in trace.files:
            if file.studied:
                assert fetching.sha256(shared / trace.place / file.name) == file.studied, name


def test_a_study_reads_the_folder_that_the_command_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: Path
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    shutil.copytree(shared / "golden" / "tiresias", tmp_path / "golden" / "tiresias")
    study = STUDIES["blox/tiresias_jct"]
    assert Run(REGISTRY, tmp_path, tmp_path / "out", small=True).one(study).as_committed
