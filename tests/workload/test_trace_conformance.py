"""What every registered trace format must do, shown on a small invented sample of each."""

import gzip
import random
import shutil
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from trace_samples import SAMPLE_OF, SAMPLES

from volvelle.core import registry
from volvelle.core.registry import Catalogue
from volvelle.model.job import Job, JobSpec
from volvelle.model.problems import Problem
from volvelle.workload import readers
from volvelle.workload.readers import Ledger, Row, RowFormat, TraceFormat, formats
from volvelle.workload.readers.base import rigid_job
from volvelle.workload.reading import read_trace
from volvelle.workload.writing import write_trace


class Case(NamedTuple):
    format: TraceFormat
    path: Path
    options: dict[str, Any]


@pytest.fixture(params=formats.names())
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    name = request.param
    if name == "parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs the extra 'parquet'")
        write_trace(read_trace(SAMPLES / "volvelle.csv"), tmp_path / "sample.parquet")
        return Case(formats.get(name)(), tmp_path / "sample.parquet", {})
    assert name in SAMPLE_OF, f"format {name!r} has no sample in tests/workload/samples"
    file, options = SAMPLE_OF[name]
    return Case(formats.get(name)(), SAMPLES / file, options)


def main_file(case: Case) -> Path:
    """The sample's file, found in its folder where it is one."""
    if case.path.is_dir():
        (found,) = (file for glob in case.format.main_table for file in case.path.glob(glob))
        return found
    return case.path


def test_is_registered_under_its_name_with_a_source(case: Case) -> None:
    assert isinstance(case.format, formats.get(case.format.name))
    assert len(case.format.title) > 10


def test_named_and_guessed_give_the_same_jobs(case: Case) -> None:
    named = read_trace(case.path, case.format.name, options=case.options)
    assert named.jobs == read_trace(case.path, options=case.options).jobs


def test_accounts_for_every_row(case: Case) -> None:
    report = read_trace(case.path, options=case.options).report
    assert report is not None
    assert report.format == case.format.name
    assert report.rows == report.kept + report.dropped.total() > 0
    counted = {*report.dropped, *report.repaired, *report.odd}
    assert set(report.examples) == counted | {*report.assumed}


def test_jobs_are_sorted_distinct_and_start_at_zero(case: Case) -> None:
    workload = read_trace(case.path, options=case.options)
    times = [job.spec.submit_time for job in workload]
    assert times == sorted(times)
    assert times[0] == 0.0
    assert len({job.spec.id for job in workload}) == len(workload) > 0
    for job in workload:
        assert job.spec.gpus > 0
        assert job.truth.work > 0
        kinds = job.spec.gpu_types or tuple(getattr(job.truth.throughput, "types", [""]))
        assert 0 < job.seconds_on(job.spec.gpus, kinds[0]) < float("inf")


def test_strict_reads_a_sound_trace(case: Case) -> None:
    strict = read_trace(case.path, options=case.options, strict=True)
    assert strict.jobs == read_trace(case.path, options=case.options).jobs


def test_gzip_makes_no_difference(case: Case, tmp_path: Path) -> None:
    if case.format.name == "parquet":
        pytest.skip("Parquet is packed by itself")
    folder = tmp_path / "packed"
    shutil.copytree(main_file(case).parent, folder)
    plain = folder / main_file(case).name
    packed = plain.with_name(plain.name + ".gz")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    read = read_trace(packed, options=case.options)
    assert read.jobs == read_trace(case.path, options=case.options).jobs


def test_round_trips_through_our_own_table(case: Case, tmp_path: Path) -> None:
    workload = read_trace(case.path, options=case.options)
    write_trace(workload, tmp_path / "copy.csv")
    simple = [msgspec.structs.replace(job, training=None) for job in workload]
    assert read_trace(tmp_path / "copy.csv", strict=True).jobs == simple


def test_an_unknown_option_names_the_format(case: Case) -> None:
    with pytest.raises(Problem, match=rf"'{case.format.name}'.*'nonsense'"):
        read_trace(case.path, case.format.name, options={"nonsense": 1})


def test_a_broken_row_costs_itself_and_stops_strict_with_its_line(
    case: Case, tmp_path: Path
) -> None:
    if case.format.name == "parquet":
        pytest.skip("Parquet has no text rows")
    folder = tmp_path / "broken"
    shutil.copytree(main_file(case).parent, folder)
    file = folder / main_file(case).name
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    lines.insert(len(lines) - 1, '{"jobid": broken},' if case.format.name == "philly" else "broken")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    read = read_trace(file, case.format.name, options=case.options)
    assert read.jobs == read_trace(case.path, options=case.options).jobs or (
        case.format.name == "gavel"  # whose ids are line numbers
        and len(read) == len(read_trace(case.path, options=case.options))
    )
    assert read.report is not None
    assert read.report.rows == read.report.kept + read.report.dropped.total()
    with pytest.raises(Problem, match=rf"{file.name} line {len(lines) - 1}\b"):
        read_trace(file, case.format.name, options=case.options, strict=True)


def test_an_empty_file_is_a_problem(case: Case, tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(Problem, match="empty"):
        read_trace(tmp_path / "empty.csv", case.format.name, options=case.options)


def test_noise_ends_in_a_problem_and_nothing_else(case: Case, tmp_path: Path) -> None:
    noises = [
        b"\x00\x01\x02" * 50,
        b"a,b\n1,2\n",
        b"{",
        b"[{]",
        b'"' * 999,
        b"PAR1\x00",
        b"\xff\xfe",
    ]
    for number, noise in enumerate(noises):
        (tmp_path / f"noise{number}").write_bytes(noise)
        with pytest.raises(Problem):
            read_trace(tmp_path / f"noise{number}", case.format.name, options=case.options)


SPLINTERS = [
    *(b"", b"-1", b"nan", b"1e999", b"9" * 400, b"0", b"1e-320", b"None", b"null", b"2020-13-45"),
    *(b'"', b",", b"|", b"\t", b"\n", b"\r", b":", b"=", b"{", b"}", b"[", b"]"),
    *(b"\xff", b"\x00", b"9999-12-31T23:59:59+14:00"),
]


@pytest.mark.parametrize("strict", [False, True])
def test_damage_anywhere_ends_in_a_count_or_a_problem(
    case: Case, tmp_path: Path, strict: bool
) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(main_file(case).parent, folder)
    file = folder / main_file(case).name
    sound = file.read_bytes()
    chance = random.Random(case.format.name)
    for _ in range(40):
        damaged = bytearray(sound)
        for _ in range(chance.randint(1, 4)):
            start = chance.randrange(len(damaged))
            damaged[start : start + chance.choice([0, 1, 2, 5, 20])] = chance.choice(SPLINTERS)
        file.write_bytes(damaged)
        try:
            report = read_trace(file, case.format.name, options=case.options, strict=strict).report
        except Problem:
            continue
        assert report is not None
        assert report.rows == report.kept + report.dropped.total()


class Lab(RowFormat):
    """Minutes, and nothing but what is needed."""

    name = "lab"
    title = "A lab's own job log"
    required = ("job", "queued_min", "ran_min", "gpus")

    def job(self, row: Row, ledger: Ledger, options: Any) -> Job:
        spec = JobSpec(
            id=row.text("job"),
            submit_time=row.seconds("queued_min", 60),
            gpus=row.gpus("gpus"),
        )
        return rigid_job(spec, row.seconds("ran_min", 60))


def test_a_format_of_an_installed_package_is_guessed_like_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = EntryPoints([EntryPoint("lab", f"{__name__}:Lab", "volvelle.traces")])
    monkeypatch.setattr(registry, "plugged_in", lambda: entries)
    found = Catalogue[type[TraceFormat]](
        formats.kind, formats.plural, formats.package, formats.group
    )
    monkeypatch.setattr(readers, "formats", found)
    (tmp_path / "lab.csv").write_text("job,queued_min,ran_min,gpus\na,5,2,4\nb,6,-1,4\n")
    workload = read_trace(tmp_path / "lab.csv")
    assert workload.report is not None
    assert workload.report.format == "lab"
    assert workload.report.dropped == {"negative ran_min": 1}
    assert workload.jobs[0].seconds_on(4) == 120
