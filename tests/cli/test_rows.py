"""Tables of a server's rows, on terminals of any width."""

from volvelle.cli.rows import Head, table

HEADS = [
    Head("job", lambda row: str(row["job"]), right=True),
    Head("name", lambda row: row["name"]),
    Head("reason", lambda row: row["reason"]),
]
ROWS = [
    {"job": 12, "name": "n" * 60, "reason": "waits for 8 GPUs: 5 free, most on gpu03 (5)"},
    {"job": 7, "name": "bert", "reason": ""},
]


def test_a_pipe_gets_everything_in_one_line_a_row() -> None:
    lines = table(ROWS, HEADS).splitlines()
    assert len(lines) == 3
    assert lines[1].endswith(f"{'n' * 60}  waits for 8 GPUs: 5 free, most on gpu03 (5)")


def test_a_wide_terminal_has_the_reason_last_and_long_names_cut() -> None:
    header, first, second = table(ROWS, HEADS, 100).splitlines()
    assert header == "job  name                      reason"
    assert first == f" 12  {'n' * 23}…  waits for 8 GPUs: 5 free, most on gpu03 (5)"
    assert second == "  7  bert"


def test_a_narrow_terminal_has_the_reason_on_a_line_of_its_own_and_no_line_too_long() -> None:
    lines = table(ROWS, HEADS, 40).splitlines()
    assert lines == [
        "job  name",
        "     reason",
        f" 12  {'n' * 23}…",
        "     waits for 8 GPUs: 5 free, most on …",
        "  7  bert",
    ]
    assert max(map(len, lines)) <= 40
