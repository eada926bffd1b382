"""The control block."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volvelle.client import control_block as fields
from volvelle.client.control_block import ControlBlock

FIELDS = sorted(value for name, value in vars(fields).items() if name[0] != "_" and name.isupper())
VALUES = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.tuples(st.sampled_from(FIELDS), VALUES, st.booleans())))
def test_both_processes_read_the_last_written_value(
    tmp_path_factory: pytest.TempPathFactory, writes: list[tuple[int, int, bool]]
) -> None:
    path = tmp_path_factory.mktemp("run") / ControlBlock.FILE_NAME
    sides = (ControlBlock.create(path, attempt=3), ControlBlock(path))
    expected = dict.fromkeys(FIELDS, 0) | {fields.ATTEMPT: 3}
    for field, value, side in writes:
        sides[side][field] = value
        expected[field] = value
        assert all({each: block[each] for each in FIELDS} == expected for block in sides)
    for block in sides:
        block.close()
    again = ControlBlock(path)
    assert {field: again[field] for field in FIELDS} == expected


def test_every_field_is_its_own() -> None:
    assert len(set(FIELDS)) == len(FIELDS) == 15


def test_a_control_block_starts_from_the_saved_iterations(tmp_path: Path) -> None:
    block = ControlBlock.create(tmp_path / ControlBlock.FILE_NAME, attempt=2, saved_iterations=70)
    assert (block[fields.ATTEMPT], block[fields.ITERATIONS], block[fields.SAVED_ITERATIONS]) == (
        2,
        70,
        70,
    )


@pytest.mark.parametrize("content", [b"", b"x", bytes(256), b"x" * 256, bytes(300)])
def test_an_invalid_control_block_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ControlBlock.FILE_NAME).write_bytes(content)
    with pytest.raises(ValueError, match="is not a control block"):
        ControlBlock(tmp_path / ControlBlock.FILE_NAME)
