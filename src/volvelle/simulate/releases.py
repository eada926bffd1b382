"""When GPUs that a stopping job still holds come free, for the jobs that are to follow on them."""

from bisect import insort

import numpy as np

from volvelle.core.decision import IntArray
from volvelle.core.state import Resources


class Releases:
    """GPUs given away on paper and not yet free in fact, by slot or, where only counted, by type."""

    def __init__(self, resources: Resources) -> None:
        self._capacity = resources.gpus_by_type(up_only=False).tolist()
        self._held = [0.0] * len(self._capacity)
        self._later: list[list[tuple[float, float]]] = [[] for _ in self._capacity]
        self._claims: dict[int, list[tuple[float, float]]] = {}
        self._slot_free_at = np.zeros(len(resources.owner))
        self._any = False

    def hold(self, gpus: float, gpu_type: int) -> None:
        """A job is given GPUs."""
        self._held[gpu_type] += gpus

    def give_back(self, gpus: float, gpu_type: int, number: int) -> None:
        """Job ``number`` no longer has GPUs on paper; what it still waited for is for others."""
        self._held[gpu_type] -= gpus
        for claim in self._claims.pop(number, ()):
            insort(self._later[gpu_type], claim)

    def free_later(self, time: float, gpus: float, gpu_type: int, slots: IntArray) -> None:
        """GPUs given back come free only at ``time``."""
        self._any = True
        if len(slots):
            self._slot_free_at[slots] = time
        else:
            insort(self._later[gpu_type], (time, gpus))

    def wait_for(
        self, now: float, gpu_type: int, slots: IntArray, number: int, gpus: float
    ) -> float:
        """When the ``gpus`` that job ``number`` was just given are free in fact: ``now`` or later.

        A job that has to wait takes what comes free last before its start, so that whoever is next
        can have what is free already.
        """
        if not self._any:
            return now
        if len(slots):
            return max(now, float(self._slot_free_at[slots].max()))
        later = self._later[gpu_type]
        while later and later[0][0] <= now:
            del later[0]
        over = self._held[gpu_type] + sum(freed for _, freed in later) - self._capacity[gpu_type]
        start, until = now, 0
        while over > 1e-9 and until < len(later):
            start, freed = later[until]
            over -= freed
            until += 1
        for at in range(until - 1, -1, -1):
            time, freed = later.pop(at)
            taken = min(gpus, freed)
            gpus -= taken
            self._claims.setdefault(number, []).append((time, taken))
            if taken < freed:
                later.insert(at, (time, freed - taken))
            if gpus <= 0.0:
                break
        return start
