"""A trace format, or a generator, that is a single file named on the command line."""

from pathlib import Path

import pytest

from volvelle.model.problems import Problem
from volvelle.simulate.sources import generated, read_source

LAB = """
from volvelle.workload.readers import ReaderOptions, RowFormat, formats
from volvelle.workload.readers.base import rigid_job
from volvelle.model.job import JobSpec


class LabOptions(ReaderOptions):
    unit: float = 1.0


@formats.register
class Lab(RowFormat):
    name = "lab-{name}"
    title = "A lab's log"
    options_type = LabOptions
    required = ("queued", "ran")

    def job(self, row, ledger, options):
        spec = JobSpec(id=str(row.line), submit_time=row.seconds("queued"), gpus=1.0)
        return rigid_job(spec, row.seconds("ran", options.unit))
"""

FIXED = """
from typing import ClassVar
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.workload.generators import Generator, generators
from volvelle.workload.workload import Workload


@generators.register
class Fixed(Generator):
    name: ClassVar[str] = "fixed-in-a-file"
    jobs: int = 2

    def generate(self, rng):
        return Workload.of(
            Job(JobSpec(id=str(n), submit_time=float(n)), Truth(work=1.0)) for n in range(self.jobs)
        )
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text("queued,ran\n0,5\n9,7\n")
    return path


@pytest.mark.parametrize("named", ["", ":lab-{}"])
def test_a_file_names_the_format_with_its_options(tmp_path: Path, log: Path, named: str) -> None:
    name = f"options{len(named)}"
    lab = tmp_path / f"{name}.py"
    lab.write_text(LAB.format(name=name))
    for _ in range(2):  # a file is loaded once, and found again
        written = f"{lab}{named.format(name)}:unit=60"
        source = read_source(log, written, {}, strict=True)
        assert [job.truth.work for job in source.workload] == [300.0, 420.0]
        assert source.origin["format"] == f"lab-{name}"


def test_a_wrong_option_of_it_names_the_known_ones(tmp_path: Path, log: Path) -> None:
    lab = tmp_path / "wrong.py"
    lab.write_text(LAB.format(name="wrong"))
    with pytest.raises(Problem, match="option of trace format 'lab-wrong': unknown key 'units'"):
        read_source(log, f"{lab}:units=60", {}, strict=True)


def test_a_file_without_a_format_says_so(tmp_path: Path, log: Path) -> None:
    empty = tmp_path / "empty.py"
    empty.write_text("")
    with pytest.raises(Problem, match=r"defines no trace format\. Write @formats.register"):
        read_source(log, str(empty), {}, strict=True)


def test_a_generator_is_a_file_too(tmp_path: Path) -> None:
    fixed = tmp_path / "fixed.py"
    fixed.write_text(FIXED)
    source = generated(f"{fixed}:jobs=3", seed=1)
    assert len(source.workload) == 3
    assert source.origin["generator"] == "fixed-in-a-file"


def test_a_mistake_in_it_is_an_error_with_its_line_and_the_trace_s(
    tmp_path: Path, log: Path
) -> None:
    lab = tmp_path / "mistaken.py"
    lab.write_text(LAB.format(name="mistaken").replace("str(row.line)", "row.no_such_thing"))
    line = 1 + next(i for i, one in enumerate(lab.read_text().splitlines()) if "such" in one)
    with pytest.raises(Problem, match=rf"format failed in {lab}, line {line}, in job: .* line 2"):
        read_source(log, str(lab), {}, strict=True)


def test_a_job_that_it_does_not_make_is_told(tmp_path: Path, log: Path) -> None:
    lab = tmp_path / "spec.py"
    lab.write_text(LAB.format(name="spec").replace("return rigid_job(spec, ", "return (spec, "))
    with pytest.raises(
        Problem, match=r"gave tuple for line 2\. Let its job return rigid_job\(spec"
    ):
        read_source(log, str(lab), {}, strict=True)


RACK = """
from volvelle.workload.readers import TraceFormat, formats
from volvelle.workload.readers.ledger import Broken


@formats.register
class Rack(TraceFormat):
    name = "rack-{name}"
    title = "A rack's log"

    def matches(self, sample):
        return 0.0

    def read(self, path, ledger, options):
        raise Broken("no jobs today")
"""


def test_an_error_of_its_read_is_told_with_its_line(tmp_path: Path, log: Path) -> None:
    rack = tmp_path / "reads.py"
    rack.write_text(RACK.format(name="reads"))
    said = f"trace format 'rack-reads' failed in {rack}, line 15, in read: Broken: no jobs today"
    with pytest.raises(Problem, match=rf"{said}. It read log.csv"):
        read_source(log, str(rack), {}, strict=True)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "def matches",
            "def match",
            r", line 6 lacks matches\. Define matches\(self, sample\)",
        ),
        (
            "read(self, path, ledger, options)",
            "read(self, path)",
            r", line 14 has read\(self, path\)\. Define read\(self, path, ledger, options\)",
        ),
    ],
)
def test_a_method_that_ours_could_not_call_is_told_at_load(
    tmp_path: Path, log: Path, old: str, new: str, said: str
) -> None:
    rack = tmp_path / f"{new.replace(' ', '')}.py"
    rack.write_text(RACK.format(name="wrong").replace(old, new))
    with pytest.raises(Problem, match=rf"trace format 'rack-wrong' in .*\.py{said}"):
        read_source(log, str(rack), {}, strict=True)
