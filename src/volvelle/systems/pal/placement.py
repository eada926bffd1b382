"""PAL and PM-First: the GPUs of all jobs of a decision, class after class (SC'24)."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from volvelle.core.facets import PlacesAllAnew
from volvelle.core.parts import Gang, Placement, placements
from volvelle.core.resources import Resources
from volvelle.model.arrays import BoolColumn, FloatColumn, IntColumn
from volvelle.model.job import JobSpec
from volvelle.placement.basic import consolidate
from volvelle.systems.pal.scores import scores


@placements.register
class PMFirst(Placement, PlacesAllAnew):
    """The GPUs of the best scores for a job's variability class, wherever they are."""

    name: ClassVar[str] = "pm-first"
    source: ClassVar[str] = "PAL (SC'24)"

    def lacks(self, spec: JobSpec) -> str:
        """The variability class of a job."""
        if spec.variability:
            return ""
        return (
            f"placement {self.name!r} goes by its variability class, and it declares none: "
            "GPUs are taken to be alike for it"
        )

    def choose(self, free: IntColumn, gpus: int, resources: Resources) -> IntColumn | None:
        """The place of a job of which nothing is known: the fewest nodes."""
        return consolidate(free, gpus)

    def choose_gpus(
        self, gangs: Sequence[Gang], free: BoolColumn, resources: Resources
    ) -> list[IntColumn | None]:
        """Gangs of the class that varies most choose first, then those of the next."""
        varies = {name: float(each.std()) for name, each in resources.slowdowns.items()}
        score = {name: scores(tuple(each.tolist())) for name, each in resources.slowdowns.items()}
        alike = np.ones(len(free))
        order = sorted(
            range(len(gangs)), key=lambda i: -varies.get(gangs[i].job.spec.variability, -1.0)
        )
        left, found = free.copy(), dict[int, IntColumn | None]()
        for i in order:
            slots = np.flatnonzero(left)
            if len(slots) < gangs[i].gpus:
                found[i] = None
                continue
            of_class = score.get(gangs[i].job.spec.variability, alike)[slots]
            taken = self.best(gangs[i], of_class, resources.slot_node[slots], resources)
            found[i] = np.sort(slots[taken])
            left[slots[taken]] = False
        return [found[i] for i in range(len(gangs))]

    def best(
        self, gang: Gang, score: FloatColumn, node: IntColumn, resources: Resources
    ) -> IntColumn:
        """Which of the free GPUs, by the score and the node of each, a gang has."""
        return best_scores(gang.gpus, score, node)


@placements.register
class PAL(PMFirst):
    """Locality and variability: the least product of the worst score and the slowdown on several nodes."""

    name: ClassVar[str] = "pal"
    goes_by_spread: ClassVar[bool] = True

    def lacks(self, spec: JobSpec) -> str:
        """The variability class of a job, or else the slowdown of a gang on several nodes."""
        return super().lacks(spec) or Placement.lacks(self, spec)

    def best(
        self, gang: Gang, score: FloatColumn, node: IntColumn, resources: Resources
    ) -> IntColumn:
        """The first entry of the matrix, by its product, that has enough GPUs.

        The entry of a score and one node: GPUs of a node that are no worse; of several nodes: as `PMFirst`.
        """
        if gang.gpus == 1 or gang.gpus > int(resources.node_gpus.max()):
            return best_scores(gang.gpus, score, node)
        apart = 1.0 + gang.job.believed.spread_slowdown
        entries = [
            (worst * factor, several, worst)
            for worst in np.unique(score).tolist()
            for several, factor in ((False, 1.0), (True, apart))
        ]
        for _, several, worst in sorted(entries):
            there = np.flatnonzero(score <= worst)
            if several and len(there) >= gang.gpus:
                return there[best_scores(gang.gpus, score[there], node[there])]
            if not several:
                together = best_on_one(gang.gpus, score[there], node[there])
                if together is not None:
                    return there[together]
        raise AssertionError("a gang fits where as many GPUs are free")


def best_scores(gpus: int, score: FloatColumn, node: IntColumn) -> IntColumn:
    """The GPUs of the best scores; of equal ones those of which their node has about as many as wanted."""
    _, alike, count = np.unique(
        np.stack([score, node]), axis=1, return_inverse=True, return_counts=True
    )
    misfit = np.abs(count[alike.ravel()] - gpus)
    return np.lexsort((node, misfit, score))[:gpus]


def best_on_one(gpus: int, score: FloatColumn, node: IntColumn) -> IntColumn | None:
    """The GPUs of the best scores on the node where the worst of them is best; None where none has enough.

    Of equal nodes: that with the fewest GPUs.
    """
    order = np.lexsort((score, node))
    _, first, count = np.unique(node[order], return_index=True, return_counts=True)
    enough = count >= gpus
    if not enough.any():
        return None
    first, count = first[enough], count[enough]
    worst = score[order[first + gpus - 1]]
    at = first[np.lexsort((count, worst))[0]]
    return order[at : at + gpus]
