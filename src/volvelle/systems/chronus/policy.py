"""Chronus (Gao et al., SoCC'21): deadlines that are guaranteed when a job comes, and kept by leases."""

from typing import ClassVar

import numpy as np
from pydantic import PrivateAttr

from volvelle.core.policy import Allocation, Kernel, SolverGaps, policies
from volvelle.core.promises import Margin
from volvelle.core.view import View
from volvelle.model.arrays import Floats
from volvelle.model.tolerances import WHOLE_NUMBER
from volvelle.systems.chronus import within
from volvelle.systems.chronus.cycle import Cycle
from volvelle.systems.chronus.guarantees import Memory
from volvelle.systems.chronus.look import OWN_COLUMNS, Look
from volvelle.systems.chronus.recent import RecentWork
from volvelle.systems.chronus.reservations import Reservations
from volvelle.systems.chronus.terms import Terms


@policies.register
class Chronus(Terms):
    """Deadlines guaranteed on leases; jobs without a guarantee by least remaining service."""

    name: ClassVar[str] = "chronus"
    source: ClassVar[str] = "Chronus (SoCC'21), section 3.3"
    optimises: ClassVar[str] = "deadlines kept, then mean JCT of best effort"
    time_varying: ClassVar[bool] = True
    work_conserving: ClassVar[bool] = False
    gangs: ClassVar[bool] = True
    guarantees: ClassVar[bool] = True
    columns: ClassVar[int] = OWN_COLUMNS

    _kept: Memory | None = PrivateAttr(default=None)
    _within: Floats = PrivateAttr(default_factory=within.begin)
    """See `volvelle.systems.chronus.within`."""

    @property
    def solver_gaps(self) -> SolverGaps | None:
        """The gap of each selection."""
        return None if self._kept is None else self._kept.gaps

    def kernel(self, *, named: bool) -> Kernel:
        """The decision within a lease; all others are made by `allocate`."""
        return Kernel(within.decide, self._within, rates=False, yields=True)

    def refresh(self, view: View) -> None:
        """Leave the decision to `allocate`."""

    def allocate(self, view: View) -> Allocation:
        """Answer those that came; at the end of a lease decide anew, else let idle GPUs be used.

        Without jobs nothing is decided, as the kernel is not asked then.
        """
        if not len(view.jobs):
            return Allocation(np.empty(0))
        memory = self._remembered(view)
        memory.recent.add(*within.take_arrivals(self._within))
        slot = int(view.now / self._slot_seconds + WHOLE_NUMBER)
        cycle = Cycle(self, memory, Look.at(view, slot, slot != memory.slot))
        cycle.kept.forget_those_that_left()
        if cycle.look.fresh:
            ended, memory.slot = memory.slot // self.parts, slot
            cycle.kept.renew()
            cycle.answer()
            if slot // self.parts != ended:
                cycle.select()
        else:
            cycle.answer()
        served = cycle.serve()
        within.note(self._within, self, slot, memory.wait, view.capacity)
        return served

    def next_wake(self, view: View) -> float | None:
        """When the best-effort lease ends; never while nobody waits or is to change its GPU type."""
        kept, held = self._kept, view.jobs.held
        if kept is None or not len(held) or (not kept.elsewhere and held.all()):
            return None
        return (kept.slot + 1) * self._slot_seconds

    @property
    def _slot_seconds(self) -> float:
        return self.lease / self.parts

    def _remembered(self, view: View) -> Memory:
        """The memory; nothing after a restart, when guarantees are all that is known."""
        if self._kept is None:
            book = Reservations(self._slot_seconds, view.capacity.copy())
            book.first = int(view.now / self._slot_seconds + WHOLE_NUMBER)
            self._kept = Memory(book, RecentWork(self.period), Margin(self.margin, self.broken))
            view.jobs.own[:] = 0.0
        return self._kept
