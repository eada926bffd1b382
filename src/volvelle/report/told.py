"""Tables of told times: how many jobs kept them, by what could be observed when they were told."""

from collections.abc import Mapping

from volvelle.metrics.outcomes import Outcomes
from volvelle.metrics.told import Told, told_times
from volvelle.report.table import Amount, Column, Table


def told_by_state(outcomes: Outcomes) -> Table:
    """A row for all jobs, and for each class of observable state."""
    told = Told.of(outcomes)
    rows = tuple(
        (each.name, each.jobs, Amount(each.p50, "%"), Amount(each.p90, "%"))
        for each in (told.classes if told is not None else ())
    )
    heads = ("class", "jobs", "P50 held", "P90 held")
    return Table("Told times", tuple(Column(head, head) for head in heads), rows)


def told_side_by_side(runs: Mapping[str, Outcomes]) -> list[Table]:
    """A table with a row for each run that told times; none where no run did."""
    rows = [
        (
            name,
            told.all.p50,
            told.all.p90,
            f"{told.within} of {len(told.judged)}" if told.judged else "",
            f"{told.worst.name} ({told.worst.p90:.0f} %)" if told.worst is not None else "",
            told.sharpness,
        )
        for name, outcomes in runs.items()
        if (told := told_times(Told.of(outcomes))) is not None
    ]
    columns = (
        Column("policy", "policy"),
        Column("p50_held", "P50 held", "%"),
        Column("p90_held", "P90 held", "%"),
        Column("classes", "classes within"),
        Column("furthest", "furthest off"),
        Column("sharpness", "P90 over predicted"),
    )
    text = (
        "Classes are of jobs that could be told apart at submission, of 200 jobs at least; within: P90 "
        "held for 85 to 95 % of them. P90 over predicted: the median of how much farther away it is."
    )
    table = Table("Told times", columns, tuple(rows), text)
    return [table.without_empty_columns()] if rows else []
