"""What pools own of the cells, and what guests may have of it meanwhile.

HiveD (OSDI'20, section 4) in the setting of anticipatory scheduling, where nobody is preempted (section 5.5):
a pool **binds** a cell of its share when a job of its first needs one and lets it go when its last job there
ends; in between it splits it as it likes. A guest gets a cell only where all that is still kept back for the
shares fits beside it, and never in the buddy of a bound cell. So as long as whole shares are kept back, a
pool gets in the shared cluster whatever it would get on cells of its own: no guest is in its way.

Departure: HiveD preempts guests, and binds cells that they use.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from volvelle.model.problems import Problem
from volvelle.systems.hived.cells import Cell, Cells


class _Bound:
    """A cell that a pool has taken, and what its jobs use of it."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.inside = Cells.of([cell.gpus])

    def allocate(self, level: int) -> Cell | None:
        """A cell within; None where there is no room."""
        within = self.inside.allocate(level)
        return within and Cell(self.cell.node, self.cell.first + within.first, level)

    def release(self, cell: Cell) -> None:
        """A cell within is not used any more."""
        self.inside.release(Cell(0, cell.first - self.cell.first, cell.level))

    def room(self, level: int) -> int | None:
        """GPUs of the smallest block within that a cell of ``level`` fits in; None: it fits in none."""
        blocks = (
            1 << block
            for block in range(level, self.inside.levels)
            if self.inside.blocks(block).any()
        )
        return next(blocks, None)

    def __contains__(self, cell: Cell) -> bool:
        first = self.cell.first
        return cell.node == self.cell.node and first <= cell.first < first + self.cell.gpus


@dataclass
class _Pool:
    """owned, kept: cells by level; bound: those it has taken."""

    owned: list[int]
    kept: list[int]
    bound: list[_Bound] = field(default_factory=list)

    def taken(self) -> list[int]:
        """How many cells of each level it has bound."""
        levels = [one.cell.level for one in self.bound]
        return [levels.count(level) for level in range(len(self.owned))]


class CellShares:
    """Cells of a cluster that pools own, by level: ``owned[pool][level]``; guests may have the others.

    cells: all of them, free; for `CellShares` alone to change. Raises `Problem` where they do not suffice.
    """

    def __init__(self, cells: Cells, owned: Mapping[str, Sequence[int]]) -> None:
        self._cells = cells
        self._bound = np.zeros_like(cells.free)
        self._pools = {pool: _Pool([*counts], [*counts]) for pool, counts in owned.items()}
        if not cells.fits(self.owed()):
            raise Problem(
                "the cells that pools own do not fit the cluster: "
                + "; ".join(f"{pool} {_written(counts)}" for pool, counts in owned.items()),
                mend="give them fewer, or smaller ones",
            )

    def owed(self) -> list[int]:
        """How many cells of each level are kept back for pools beside those that these have bound."""
        owed = [0] * self._cells.levels
        for pool in self._pools.values():
            for level, (kept, taken) in enumerate(zip(pool.kept, pool.taken(), strict=True)):
                if kept > taken:
                    owed += [0] * (level + 1 - len(owed))
                    owed[level] += kept - taken
        return owed

    def keep_back(self, pool: str, kept: Sequence[int]) -> None:
        """Keep back ``kept[level]`` of the cells that a pool owns, or all of them, from now on.

        With fewer than it owns more is lent, and the pool may have to wait for guests to end. Where more is
        to be kept back than is there now, nothing is lent until it is.
        """
        known = self._pools[pool]
        kept = [*kept, *[0] * (len(known.owned) - len(kept))]
        known.kept = [min(pair) for pair in zip(kept, known.owned, strict=False)]

    # ------------------------------------------------------------------ pools

    def claim(self, pool: str, level: int) -> Cell | None:
        """A cell of a pool's share for a job of its own; None where it has none left.

        Nor does it get one where less was kept back than it owns, and guests are there.
        """
        known = self._pools[pool]
        rooms = ((one.room(level), place) for place, one in enumerate(known.bound))
        best = min(((room, place) for room, place in rooms if room is not None), default=None)
        if best is not None:
            return known.bound[best[1]].allocate(level)
        taken = known.taken()
        for larger in range(level, len(known.owned)):
            if taken[larger] < known.owned[larger]:
                cell = self._cells.allocate(larger)
                if cell is not None:
                    self._mark(cell, bound=True)
                    known.bound.append(_Bound(cell))
                    return known.bound[-1].allocate(level)
        return None

    def give_back(self, pool: str, cell: Cell) -> None:
        """A job of a pool's own has left ``cell``."""
        known = self._pools[pool]
        bound = next(one for one in known.bound if cell in one)
        bound.release(cell)
        if bound.inside.free.all():
            known.bound.remove(bound)
            self._mark(bound.cell, bound=False)
            self._cells.release(bound.cell)

    def _mark(self, cell: Cell, *, bound: bool) -> None:
        self._bound[cell.node, cell.first : cell.first + cell.gpus] = bound

    # ------------------------------------------------------------------ guests

    def lend(self, level: int) -> Cell | None:
        """A cell for a guest, without which all that is kept back still fits; None where there is none.

        It is not in the buddy of a cell that a pool has bound, and as far from these as can be.
        """
        owed = self.owed()
        for cell in self._cells.find_apart(level, self._bound):
            self._cells.hold(cell)
            if self._cells.fits(owed):
                return cell
            self._cells.release(cell)
        return None

    def end_loan(self, cell: Cell) -> None:
        """A guest has left ``cell``."""
        self._cells.release(cell)


def _written(counts: Sequence[int]) -> str:
    """Cells by level, as in ``2 x 8 + 1 x 4``."""
    levels = reversed(range(len(counts)))
    return " + ".join(f"{counts[level]} x {1 << level}" for level in levels if counts[level])
