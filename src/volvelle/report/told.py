"""The table of told times: how many jobs kept them, by what could be observed when they were told."""

from volvelle.metrics.outcomes import Outcomes
from volvelle.metrics.told import told_classes
from volvelle.report.table import Amount, Column, Table


def told_by_state(outcomes: Outcomes) -> Table:
    """A row for all jobs, and for each class of observable state."""
    rows = tuple(
        (each.name, each.jobs, Amount(each.p50, "%"), Amount(each.p90, "%"))
        for each in told_classes(outcomes)
    )
    heads = ("class", "jobs", "P50 held", "P90 held")
    return Table("Told times", tuple(Column(head, head) for head in heads), rows)
