"""Tables as text: aligned, within the terminal's width, set off where it can."""

from volvelle.report.text import Styled, aligned


def rows(*lines: tuple[str, ...]) -> list[list[list[Styled]]]:
    return [[[Styled(text)] for text in line] for line in lines]


def test_columns_are_aligned_to_the_left_and_to_the_right() -> None:
    shown = aligned(
        ("name", "n"), rows(("a", "100"), ("bcdef", "2")), right=(False, True), width=80
    )
    assert shown == ["name     n", "a      100", "bcdef    2"]


def test_the_widest_column_is_wrapped_between_words() -> None:
    shown = aligned(("name", "what"), rows(("a", "one two three four")), width=16)
    assert shown == ["name  what", "a     one two", "      three four"]
    assert all(len(line) <= 16 for line in shown)


def test_a_cell_may_have_several_texts_one_under_the_other() -> None:
    cells = [[[Styled("a")], [Styled("what it is"), Styled("whose it is", "dim")]]]
    assert aligned(("name", "what"), cells, width=80) == [
        "name  what", "a     what it is", "      whose it is",
    ]  # fmt: skip


def test_wide_letters_take_two_columns() -> None:
    shown = aligned(("a", "b"), rows(("日本", "x"), ("né", "y")), width=80)
    assert shown == ["a     b", "日本  x", "né    y"]


def test_styles_are_shown_where_there_are_colours_only() -> None:
    cells = [[[Styled("x", "best")]]]
    assert aligned(("a",), cells, width=80, colored=True)[1] == "\x1b[1;32mx\x1b[0m"
    assert aligned(("a",), cells, width=80)[1] == "x"


def test_the_title_stands_in_the_middle() -> None:
    shown = aligned(("a", "b"), rows(("12345", "12345")), width=80, edge=1, title="of both")
    assert shown[0] == "   of both"
