"""The watch on durations (section 5.3): borrowers that outlive the quantum within which they were to end.

While a borrower runs for longer than its quantum, jobs of its pool that are believed to end within the same
quantum borrow nothing within it: they count as of the next quantum, and of the one after that once the
borrower has outlived the next. Exact
durations never close anything (docs/decisions/0071).
"""

from volvelle.core.compiled import kernel
from volvelle.model.arrays import Bools, Floats
from volvelle.model.tolerances import SAME_AMOUNT


@kernel
def within(seconds: float, quanta: Floats) -> int:
    """The place of the first of ``quanta`` that is no shorter than ``seconds``; their number for none."""
    at = 0
    while at < len(quanta) and seconds > quanta[at] + SAME_AMOUNT:
        at += 1
    return at


@kernel
def watch(closed: Bools, at: int, pool: int, ran: float, quanta: Floats) -> None:
    """Close the quanta from place ``at`` on that a borrower has outlived in ``ran`` seconds."""
    while at < len(quanta) and ran > quanta[at] + SAME_AMOUNT:
        closed[at, pool] = True
        at += 1


@kernel
def open_for(closed: Bools, at: int, pool: int) -> int:
    """The place of the quantum as of which jobs count; the number of quanta for none."""
    while at < len(closed) and closed[at, pool]:
        at += 1
    return at
