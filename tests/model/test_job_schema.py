"""Tables, requests, options and the scheduler's state follow the schema of a job."""

from typing import Annotated

import msgspec

from volvelle.core.state import ARRIVAL_COLUMNS, Jobs
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
    assert states == {"weight", "preemptible", "priority", "time_limit", "exclusive"}
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
