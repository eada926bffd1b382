"""``volvelle trace describe``, ``convert`` and ``generate``."""

import json
from pathlib import Path

import pytest
from command_line import Volvelle

pytest_plugins = ["command_fixtures"]


def test_describe_counts_and_weighs(volvelle: Volvelle, trace: Path) -> None:
    ran = volvelle("trace", "describe", trace, "--cluster", "1x8", "--out", "page")
    assert ran.status == 0, ran.err
    assert "6 jobs of 2 users" in ran.out
    assert "of 8 GPUs" in ran.out
    assert Path("page/report.html").is_file()


def test_a_description_says_nothing_of_what_there_is_not(volvelle: Volvelle) -> None:
    Path("few.csv").write_text("submit_time,gpus,duration\n0,1,60\n10,1,30\n")
    said = volvelle("trace", "describe", "few.csv").out
    assert "2 jobs over 10s.\n" in said
    assert (
        "2 jobs of 1 GPU; try --cluster 2x1 (for a load of 0.8, or less where all jobs run at once)."
        in said
    )
    assert not any(word in said for word in ("users", "pools", "elastic", "burstiness"))


def test_describe_for_programs(volvelle: Volvelle, trace: Path) -> None:
    document = json.loads(volvelle("trace", "describe", trace, "-o", "json").out)
    assert document["jobs"] == 6
    assert document["import"]["kept"] == 6
    assert document["import"]["states"] == {"": 6}
    lines = volvelle("trace", "describe", trace, "-o", "csv").out.splitlines()
    assert lines[0].startswith("of,jobs,mean")


def test_convert_there_and_back(volvelle: Volvelle, trace: Path) -> None:
    pytest.importorskip("pyarrow")
    assert volvelle("trace", "convert", trace, "t.parquet").status == 0
    assert volvelle("trace", "convert", "t.parquet", "back.csv").status == 0
    assert volvelle("trace", "convert", trace, "straight.csv").status == 0
    assert Path("back.csv").read_text() == Path("straight.csv").read_text()


def test_columns_of_other_names_are_mapped(volvelle: Volvelle) -> None:
    Path("theirs.csv").write_text("job,when,cards,minutes\na,0,2,5\n")
    ran = volvelle(
        "trace", "convert", "theirs.csv", "ours.csv",
        "--map", "id=job,submit_time=when,gpus=cards,duration=minutes:min",
    )  # fmt: skip
    assert ran.status == 0, ran.err
    assert "300" in Path("ours.csv").read_text()
    Path("theirs.csv").write_text("job,who,kind,begun,over,cards\na,dana,H100,60,360,2\n")
    said = volvelle(
        "trace", "describe", "theirs.csv", "--map",
        "id=job,user=who,gpu_type=kind,submit_time=begun,start_time=begun,end_time=over,gpus=cards",
    ).out  # fmt: skip
    assert "first: job 'a', user dana, 2 GPUs H100; waited 0s, took 5m 00s." in said


def test_generated_traces_depend_on_the_seed_alone(volvelle: Volvelle) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        volvelle("trace", "generate", "lognormal:jobs=50", "--seed", seed, "--out", f"{name}.csv")
    assert Path("a.csv").read_text() == Path("b.csv").read_text() != Path("c.csv").read_text()


def test_generate_like_a_trace(volvelle: Volvelle, trace: Path) -> None:
    ran = volvelle("trace", "generate", "--like", trace, "--jobs", 40, "--out", "like.csv")
    assert ran.status == 0, ran.err
    assert len(Path("like.csv").read_text().splitlines()) == 41


def test_an_unknown_generator_is_named_with_the_nearest(volvelle: Volvelle) -> None:
    ran = volvelle("trace", "generate", "lognormall", "--out", "x.csv")
    assert ran.status == 2
    assert "unknown generator 'lognormall' (did you mean 'lognormal'?)" in ran.err


SWEEPS = """id,submit_time,gpus,duration,user
a,0,1,100,ada
b,10,1,60,ada
c,400,1,50,ada
d,1000,1,50,ada
"""


def test_habits_of_users_are_fitted_and_users_submit_again_by_them(volvelle: Volvelle) -> None:
    """Ada comes back 300 s after a and b, and 550 s after c."""
    Path("sweeps.csv").write_text(SWEEPS)
    ran = volvelle("trace", "fit", "sweeps.csv", "--out", "users.toml", "--gap", "1m")
    assert ran.status == 0, ran.err
    assert "100 % of the batches follow the one before of their user" in ran.out
    assert "think = [300, " in Path("users.toml").read_text()
    ran = volvelle(
        "simulate", "sweeps.csv", "--cluster", "1x1", "--users", "users.toml", "--out", "closed"
    )
    assert ran.status == 0, ran.err
    record = json.loads(Path("closed/run.json").read_text())
    assert record["users"]["batch_gap"] == 60.0
    rows = Path("closed/jobs.csv").read_text().splitlines()
    submit = rows[0].split(",").index("submit_time")
    third = float(rows[3].split(",")[submit])
    assert 160.0 + 300.0 <= third <= 160.0 + 550.0  # one GPU: b ends at 160


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (
            ("trace", "fit", "sweeps.csv", "--out", "u.toml", "--gap", "often"),
            "--gap or --patience",
        ),
        (("trace", "fit", "sweeps.csv", "--out", "u.toml", "--patience", "1s"), "no batch of"),
        (("simulate", "sweeps.csv", "--cluster", "1x1", "--users", "none.toml"), "none.toml"),
    ],
)
def test_users_that_cannot_be_are_refused(
    volvelle: Volvelle, arguments: tuple[str, ...], wrong: str
) -> None:
    Path("sweeps.csv").write_text(SWEEPS)
    ran = volvelle(*arguments)
    assert ran.status != 0
    assert wrong in ran.err
