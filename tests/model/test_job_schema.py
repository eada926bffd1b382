"""Tables, requests, options and the scheduler's state follow the schema of a job."""

from typing import Annotated

import msgspec

from volvelle.cli.commands import Commands
from volvelle.core.state import ARRIVAL_COLUMNS, Jobs
from volvelle.live.job_request import JobRequest
from volvelle.model.job import JobSpec, Truth
from volvelle.model.job_schema import SECONDS, Attribute, Needs, fields_of
from volvelle.workload.readers.cells import codec_of, meaning_of, written_cells
from volvelle.workload.readers.own import COLUMNS

FIELDS = fields_of(JobSpec) + fields_of(Truth)


class Tried(msgspec.Struct):
    """A struct with attributes that no job has."""

    patience_seconds: Annotated[
        float | None, Attribute("how long it waits", unit=SECONDS, column="patience", need=True)
    ] = None
    rank: Annotated[int, Attribute("its rank")] = 1
    plain: float = 0.0


def test_every_attribute_is_a_column_of_our_table_under_a_name_of_its_own() -> None:
    columns = [one.column for one in FIELDS]
    assert len(set(columns)) == len(columns)
    assert set(columns) < set(COLUMNS)


def test_keys_and_flags_are_each_of_one_attribute() -> None:
    keys = [one.about.key for one in FIELDS if one.about.key]
    flags = [flag for one in FIELDS for flag in one.about.flag.split()]
    assert len(set(keys)) == len(keys)
    assert len(set(flags)) == len(flags)


def test_what_the_state_repeats_is_a_column_with_which_a_job_comes() -> None:
    states = {one.about.state for one in fields_of(JobSpec)} - {""}
    assert states == {
        "weight", "preemptible", "starts_over", "priority", "time_limit", "exclusive", "deadline",
        "user", "declared_cpus", "declared_memory", "nodes", "estimate", "id_number",
    }  # fmt: skip
    assert states <= set(Jobs.float_columns[:ARRIVAL_COLUMNS])


def test_an_attribute_that_is_declared_is_read_written_and_described() -> None:
    patience, rank = fields_of(Tried)
    assert codec_of(patience).read("4h") == 14400.0
    assert written_cells(patience, [None, 14400.0]) == [None, 14400.0]
    assert written_cells(rank, [1, 2]) == [None, 2]
    assert meaning_of(rank) == "its rank; a whole number"


def test_needs_are_compared_with_those_of_a_job_that_declares_none() -> None:
    needs = Needs(Tried, besides=("rank",))
    assert needs.of(Tried(patience_seconds=2.0)) != needs.none
    assert needs.of(Tried(rank=7)) == needs.none


def test_keys_are_those_of_a_request_and_come_into_the_spec() -> None:
    keys = {one.about.key: one for one in fields_of(JobSpec) if one.about.key}
    assert keys.keys() <= JobRequest.model_fields.keys()
    given = {
        "gpus": 2, "min_gpus": 1, "max_gpus": 4, "gpu_types": ("a100",), "constraints": ("nvlink",),
        "exclusive": True, "cpus": 3.0, "memory_gb": 4.0, "pool": "p", "name": "n", "weight": 2.0,
        "preemptible": False, "retries": 5, "estimate": 60.0, "skew": 0.5, "spread_slowdown": 0.25,
        "lowest_loss": 0.1, "priority": 3, "time_limit": 90.0,
    }  # fmt: skip
    assert given.keys() == keys.keys()
    spec = JobRequest(command=("true",), **given).spec(1, "ada", 0.0)
    assert {key: getattr(spec, field.name) for key, field in keys.items()} == given


def test_flags_are_options_of_submit_that_are_called_as_their_key() -> None:
    options = {one.name: one.opts for one in Commands().commands["submit"].params}
    flags = {one.about.key: one.about.flag.split() for one in FIELDS if one.about.flag}
    assert flags.items() <= options.items()


def test_the_list_of_commands_makes_no_options() -> None:
    commands = Commands().commands
    assert str(commands["submit"].help).startswith("Submit a job")
    assert "made" not in vars(commands["submit"])
