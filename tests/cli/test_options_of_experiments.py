"""Options of simulate, compare and tune are the keys of an experiment file."""

from typing import Any

import pytest

from volvelle.cli.commands import Commands
from volvelle.simulate.experiment_file import SINGULAR, AsOption, ExperimentFile

FIELDS = ExperimentFile.model_fields


def test_every_key_says_how_it_is_written_as_an_option() -> None:
    for name, field in FIELDS.items():
        assert any(isinstance(one, AsOption) for one in field.metadata), name
        assert field.description, name


@pytest.mark.parametrize("command", ["simulate", "compare", "tune"])
def test_options_that_are_keys_say_what_the_file_says(command: str) -> None:
    found: dict[str, Any] = {str(one.name): one for one in Commands().commands[command].params}
    shared = found.keys() & FIELDS.keys()
    assert {"trace", "cluster", "placements", "seeds", "out"} <= shared
    for name in shared:
        assert str(found[name].help).lower().startswith(str(FIELDS[name].description).lower())
        singular = {many: one for one, many in SINGULAR.items()}.get(name, name)
        if name != "trace":
            assert f"--{singular.replace('_', '-')}" in found[name].opts


def test_compare_takes_every_key_but_that_for_single_runs() -> None:
    found = {one.name for one in Commands().commands["compare"].params}
    assert FIELDS.keys() - found == {"refresh"}
