"""From how many GPUs a job is to hold to which ones."""

from typing import NamedTuple

import numpy as np

from volvelle.core.columns import Column, Reason
from volvelle.core.decision import NO_INTS, FloatArray, IntArray
from volvelle.core.parts import KnownJob, Placement
from volvelle.core.policy import Allocation
from volvelle.core.state import FloatColumn, JobColumns, Resources


class Changes(NamedTuple):
    """Rows that change, what they are to hold, and which slots (None where GPUs are only counted)."""

    rows: IntArray
    gpus: FloatArray
    types: FloatArray
    slots: list[IntArray] | None


class Placer:
    """Places what an allocation starts or resizes, and gives back what it stops.

    slots and known: the GPUs each job holds and what is known of it, by its number; owned by the
    scheduler. divides: the policy divides CPUs and memory, so that placements may claim them.
    """

    def __init__(
        self,
        jobs: JobColumns,
        resources: Resources,
        placement: Placement,
        slots: dict[int, IntArray],
        known: dict[int, KnownJob],
        *,
        divides: bool,
    ) -> None:
        self._jobs = jobs
        self._resources = resources
        self._placement = placement
        self._slots = slots
        self._known = known
        self._claims = divides and placement.claims and resources.stock is not None

    def place(self, rows: IntArray, allocation: Allocation, types: FloatColumn) -> Changes:
        """Choose GPUs for ``rows``: whatever is given up first, then starts in their order.

        A job for which the placement finds no place gets nothing; one that ran is stopped.
        """
        matrix, resources = self._jobs.matrix, self._resources
        gpus = allocation.gpus[rows]
        types = types[rows]
        numbers = matrix[Column.NUMBER, rows].astype(np.int64).tolist()
        held = matrix[Column.HELD, rows].tolist()
        for number, had in zip(numbers, held, strict=True):
            if had:
                resources.release(self._slots[number])
        slots: list[IntArray | None] = [NO_INTS] * len(rows)
        for i in self._sequence(rows, allocation.order):
            if gpus[i] == 0:
                continue
            if allocation.nodes is not None:
                slots[i] = self._on_nodes(allocation.nodes[rows[i]])
            else:
                slots[i] = self._choose(numbers[i], int(gpus[i]), int(types[i]))
            if (chosen := slots[i]) is not None:
                if self._claims:
                    claimed = self._placement.claim(self._known[numbers[i]], chosen, resources)
                    resources.given[:, chosen] = np.array([claimed]).T
                resources.take(chosen, numbers[i])
                continue
            gpus[i], types[i] = 0.0, -1.0
            matrix[Column.REASON, rows[i]] = Reason.PLACEMENT
            if held[i]:
                slots[i] = NO_INTS
        kept = [i for i, taken in enumerate(slots) if taken is not None]
        return Changes(
            rows[kept], gpus[kept], types[kept], [taken for taken in slots if taken is not None]
        )

    def with_moves(self, rows: IntArray, nodes: IntArray) -> IntArray:
        """``rows``, and those of jobs whose GPUs are to be on other nodes than they are."""
        owner, resources = self._resources.owner, self._resources
        taken = owner >= 0
        of_job = np.array(
            [self._jobs.row_of[number] for number in owner[taken].tolist()], dtype=int
        )
        now = np.zeros_like(nodes)
        np.add.at(now, (of_job, resources.slot_node[taken]), 1)
        moved = (now != nodes).any(axis=1) & (nodes > 0).any(axis=1)
        changed: IntArray = np.union1d(rows, moved.nonzero()[0])
        return changed

    def _on_nodes(self, counts: IntArray) -> IntArray:
        """Free GPUs, as many on each node as ``counts`` says."""
        resources = self._resources
        return np.concatenate(
            [
                self._placement.pick(resources.free_slots(node), count, node, resources)
                for node, count in enumerate(counts.tolist())
                if count
            ]
        )

    def _sequence(self, rows: IntArray, order: IntArray | None) -> list[int]:
        """Positions within ``rows`` in ``order``, or by submission."""
        position = self._jobs.matrix[Column.NUMBER, rows]
        if order is not None:
            ranks = np.empty(len(order))
            ranks[order] = np.arange(len(order))
            position = ranks[rows]
        sequence: list[int] = np.argsort(position).tolist()
        return sequence

    def _choose(self, number: int, gpus: int, gpu_type: int) -> IntArray | None:
        """Free GPUs for a job: the first it held, where these are enough, else as placed anew."""
        resources, placement = self._resources, self._placement
        own = self._slots.get(number) if placement.shrinks_in_place else None
        if own is not None and len(own):
            kept: IntArray = own[resources.owner[own] == -1][:gpus]
            if len(kept) == gpus and resources.node_type[resources.slot_node[kept[0]]] == gpu_type:
                return kept
        free = resources.free_for(gpu_type)
        if int(free.sum()) < gpus:
            return None
        taken = placement.choose_for(self._known[number], free, gpus, resources)
        if taken is None:
            return None
        picked = [
            placement.pick(resources.free_slots(node), int(taken[node]), node, resources)
            for node in taken.nonzero()[0].tolist()
        ]
        return picked[0] if len(picked) == 1 else np.concatenate(picked)
