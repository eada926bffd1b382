"""Tables of guarantees: made, kept and broken by class, and why none was made or one was taken back."""

from collections import Counter

import numpy as np

from volvelle.metrics import labels, promises
from volvelle.metrics.outcomes import Outcomes
from volvelle.report.table import Cell, Column, Table

_MOST_REASONS = 12


def promises_by_class(outcomes: Outcomes) -> Table:
    """A row for each class of jobs to which something was guaranteed, or was not though they asked."""
    promised, broken = promises.promised(outcomes), promises.broken(outcomes)
    classes = labels.classes(outcomes)
    rows: list[tuple[Cell, ...]] = []
    for number, name in enumerate(classes.names):
        mine = outcomes.tracked & (classes.of == number)
        made = int(np.nansum(promised[mine]))
        asked = int((~np.isnan(promised[mine])).sum())
        lost = int(np.nansum(broken[mine]))
        kept = int((broken[mine] == 0.0).sum())
        if asked:
            rows.append((name, asked, made, kept, lost, made - kept - lost))
    heads = ("class", "with deadlines", "guaranteed", "kept", "broken", "undecided")
    return Table(
        "Guarantees by class",
        tuple(Column(head.replace(" ", "_"), head) for head in heads),
        tuple(rows),
    )


def reasons_of_promises(outcomes: Outcomes) -> Table:
    """Why no finish was guaranteed, or one no longer is: how often each was said, the most frequent first."""
    said = Counter(
        change.promise.reason for change in outcomes.promises if change.promise.finish_by is None
    )
    rows = tuple((reason, count) for reason, count in said.most_common(_MOST_REASONS))
    return Table("Why not", (Column("reason", "reason"), Column("times", "times")), rows)
