"""Slurm's notations are read as its manual pages write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volvelle.incumbents.slurm import text


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("1-02:03:04", 93784.0),
        ("02:03:04", 7384.0),
        ("3:04", 184.0),
        ("10", 600.0),
        ("2-0", 172800.0),
        ("UNLIMITED", None),
        ("Partition_Limit", None),
        ("(null)", None),
        (None, None),
    ],
)
def test_durations(written: str | None, seconds: float | None) -> None:
    assert text.duration(written) == seconds


def test_lists_of_nodes_unfold() -> None:
    names = "a1 a2 a3 a07 h1 r1n09x r1n10x r2n09x r2n10x"
    assert " ".join(text.hosts("a[1-3,07],h1,r[1-2]n[09-10]x")) == names


def test_resources_are_limits_without_what_is_used() -> None:
    assert text.tres("cpu=N(6),mem=1.5G,gres/gpu=10(4)") == {"mem": 1536.0, "gres/gpu": 10.0}
    assert text.tres("gres/gpu:a100:2") == {"gres/gpu:a100": 2.0}
    assert text.tres("gres:gpu:3") == {"gres/gpu": 3.0}


def test_names_of_jobs_may_hold_blanks_and_equal_signs() -> None:
    line = text.record(
        "JobId=7 JobName=lr=0.1 Priority=9 x UserId=u1(7101) Priority=12 JobState=PENDING"
        " SubmitLine=sbatch --wrap JobState=x WorkDir=/tmp New=Key AdminComment=a b"
    )
    assert line["JobName"] == "lr=0.1 Priority=9 x"
    assert (line["Priority"], line["JobState"]) == ("12", "PENDING")
    assert line["AdminComment"] == "a b"


@given(st.sets(st.integers(0, 500), min_size=1), st.integers(1, 20))
def test_tasks_of_arrays(numbers: set[int], throttle: int) -> None:
    written = ",".join(map(str, sorted(numbers))) + f"%{throttle}"
    assert text.tasks(written) == tuple(sorted(numbers))


def test_tasks_with_a_step_and_a_list_that_was_cut() -> None:
    assert text.tasks("0-6:3,9%2") == (0, 3, 6, 9)
    assert text.tasks("1-3,5,...") == (1, 2, 3, 5)
