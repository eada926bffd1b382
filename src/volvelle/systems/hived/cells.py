"""Which GPUs of nodes are free, in cells that split into halves: buddy allocation.

HiveD's algorithm (OSDI'20, section 4) as buddy memory allocation has it: of the blocks that are free the
smallest that is large enough is split. Halves that are free again are one cell again at once.

Nodes are trees of their own: a gang of more GPUs than a node has takes several cells.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Grid = NDArray[np.bool_]
"""By node and GPU of the node, or by node and cell of a level."""


class Cell(NamedTuple):
    """The 2**level GPUs of a node from its GPU ``first`` on, a multiple of their number."""

    node: int
    first: int
    level: int

    @property
    def gpus(self) -> int:
        """How many GPUs it has."""
        return 1 << self.level


def level_of(gpus: int) -> int:
    """The level of the smallest cell with ``gpus`` GPUs, of which there is at least one."""
    return (gpus - 1).bit_length()


def round_up(gpus: int, node_gpus: int) -> int:
    """The GPUs that a gang is counted with so that it can stand together (Chronus, SoCC'21, section 3.4.1).

    A power of two up to the largest cell of a node of ``node_gpus`` GPUs; beyond that whole nodes.
    """
    cell = 1 << level_of(gpus)
    return cell if cell <= node_gpus else -(-gpus // node_gpus) * node_gpus


class Cells:
    """Which GPUs are free. free: (nodes, GPUs); those that a node does not have are not free."""

    def __init__(self, free: Grid) -> None:
        nodes, gpus = free.shape
        width = 1 << level_of(max(gpus, 1))
        grid = np.zeros((nodes, width), dtype=np.bool_)
        grid[:, :gpus] = free
        self._whole = [grid]
        while self._whole[-1].shape[1] > 1:
            self._whole.append(_halves_in_one(self._whole[-1]))

    @property
    def levels(self) -> int:
        """How many levels there are."""
        return len(self._whole)

    @property
    def free(self) -> Grid:
        """Which GPUs are free, by node and GPU."""
        return self._whole[0]

    def blocks(self, level: int) -> Grid:
        """The cells of a level that are free as a whole, and not part of a larger one that is."""
        whole = self._whole[level]
        if level + 1 == self.levels:
            return whole
        blocks: Grid = whole & ~np.repeat(self._whole[level + 1], 2, axis=1)
        return blocks

    def find(self, level: int) -> Cell | None:
        """A cell of the first of the smallest blocks that are large enough; None where none is.

        Whatever else would have fitted with it still does once it is held.
        """
        for block in range(level, self.levels):
            blocks = self.blocks(block)
            at = int(blocks.argmax())
            node, place = divmod(at, blocks.shape[1])
            if blocks[node, place]:
                return Cell(node, place << block, level)
        return None

    def find_apart(self, level: int, others: Grid) -> list[Cell]:
        """A cell in the last block of each level whose buddy has none of the GPUs in ``others``.

        The smallest block first. others: by node and GPU, as `free` is.
        """
        found = []
        for block in range(level, self.levels):
            blocks = self.blocks(block)
            if block + 1 < self.levels:
                halves = others.reshape(len(others), -1, 2, 1 << block)
                taken: Grid = np.any(
                    halves[:, :, ::-1], axis=3
                )  # of each half, whether the other is
                blocks = blocks & ~taken.reshape(blocks.shape)
            places = np.flatnonzero(blocks)
            if len(places):
                node, place = divmod(int(places[-1]), blocks.shape[1])
                last = ((place + 1) << block) - (1 << level)
                found.append(Cell(node, last, level))
        return found

    def hold(self, cell: Cell) -> None:
        """Let nobody else have ``cell``, which is free."""
        self._whole[0][cell.node, cell.first : cell.first + cell.gpus] = False
        for level in range(1, self.levels):
            self._whole[level][cell.node] = _halves_in_one(self._whole[level - 1][cell.node])


def _halves_in_one(whole: Grid) -> Grid:
    """Which cells are free as a whole, by whether their halves are."""
    together: Grid = whole[..., ::2] & whole[..., 1::2]
    return together
