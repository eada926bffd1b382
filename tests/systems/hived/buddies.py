"""Cells as HiveD's theorem speaks of them: allocated, released, and counted by level."""

from collections.abc import Sequence
from typing import Self

import numpy as np

from volvelle.systems.hived.cells import Cell, Cells


class Buddies(Cells):
    """Cells that are taken as they are found, and come back."""

    @classmethod
    def of(cls, node_gpus: Sequence[int]) -> Self:
        """Nodes of so many GPUs, all free."""
        widths = np.array(node_gpus)
        return cls(np.arange(widths.max(initial=1)) < widths[:, None])

    def available(self) -> list[int]:
        """How many cells of each level could be allocated, if all were of that level."""
        return [int(whole.sum()) for whole in self._whole]

    def fits(self, wanted: Sequence[int]) -> bool:
        """Whether ``wanted[level]`` cells of each level could be allocated together."""
        needed, available = 0, self.available()
        for level in reversed(range(max(len(wanted), self.levels))):
            needed = 2 * needed + (wanted[level] if level < len(wanted) else 0)
            if needed > (available[level] if level < self.levels else 0):
                return False
        return True

    def allocate(self, level: int) -> Cell | None:
        """The cell that is found, held."""
        if (cell := self.find(level)) is not None:
            self.hold(cell)
        return cell

    def release(self, cell: Cell) -> None:
        """Let ``cell`` be free again."""
        free = self.free.copy()
        free[cell.node, cell.first : cell.first + cell.gpus] = True
        self._whole = Buddies(free)._whole
