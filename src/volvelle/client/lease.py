"""A job's lease on its GPUs: what a process says on its page, and when it has to leave.

The lease is optimistic (Blox, section 7): a job asks nobody but its page, and that says nothing until the
lease is revoked. Alone, a process leaves at once; of several ranks the leading one picks the next iteration
that all of them can leave after, and says so before it begins that iteration.
"""

import time
from collections.abc import Mapping
from functools import cache

from volvelle.client.control_block import (
    ATTACHED,
    BATCH_SIZE,
    EXIT_AT,
    EXIT_TOLD,
    ITERATION_NS,
    ITERATIONS,
    LEFT,
    REVOKED,
    SAVED,
    TOTAL,
    Page,
)
from volvelle.client.metrics import Metrics
from volvelle.client.process_context import Place

_POLL_SECONDS = 0.001
_MEMORY_ITERATIONS = 20
"""An iteration's time is the mean of all so far, of about as many as this once there are more. Chosen."""


class Lease:
    """The lease of the process at ``place``; without a scheduler it never ends."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.left = False
        self._page = Page(place.run / "page") if place.run is not None else Page.of_nobody()
        reports = place.run if place.leading else None
        self._metrics = Metrics(reports / "metrics.jsonl") if reports is not None else None
        self._mean_ns = 0.0
        self._measured = 0

    @property
    def batch_size(self) -> int:
        """The batch size the scheduler wants, 0 for the script's own."""
        return self._page[BATCH_SIZE]

    def begin_from(self, iterations: int) -> None:
        """So many iterations are in the checkpoint that this attempt begins with."""
        if self.place.leading:
            self._page[ITERATIONS] = self._page[SAVED] = iterations

    def attach(self) -> None:
        """From now on this process reads its page after every iteration."""
        self._page[ATTACHED] = 1

    def tell(self, total: int) -> None:
        """The whole job has so many iterations, 0 if nobody knows."""
        if self.place.leading:
            self._page[TOTAL] = total

    def done(self, iterations: int, nanoseconds: int, accumulate: int = 1) -> bool:
        """So many iterations are done, the last in so long; whether the job is to leave now.

        accumulate: see `volvelle.client.iterate`.
        """
        page = self._page
        if self.place.rank == 0:
            self._measured = min(self._measured + 1, _MEMORY_ITERATIONS)
            self._mean_ns += (nanoseconds - self._mean_ns) / self._measured
            page[ITERATION_NS] = int(self._mean_ns)
            page[ITERATIONS] = iterations
            if page[REVOKED] and not page[EXIT_AT]:
                self._agree_on_exit(iterations, accumulate)
        return 0 < page[EXIT_AT] <= iterations

    def _agree_on_exit(self, iterations: int, accumulate: int) -> None:
        """Say after which iteration all ranks leave; return once every page says so."""
        earliest = iterations + (1 if self.place.ranks > 1 else 0)
        exit_at = -(-earliest // accumulate) * accumulate
        self._page[EXIT_AT] = exit_at
        while self.place.nodes > 1 and self._page[EXIT_TOLD] != exit_at:
            time.sleep(_POLL_SECONDS)

    def report(self, iteration: int, values: Mapping[str, object]) -> None:
        """Have ``values`` go with ``iteration``; only the leading rank's are kept."""
        if self._metrics is not None:
            self._metrics.add(iteration, values)

    def flush(self) -> None:
        """Write what was reported, as a checkpoint is about to be."""
        if self._metrics is not None:
            self._metrics.flush()

    def saved(self, iterations: int) -> None:
        """A durable checkpoint holds so many iterations."""
        if self.place.leading:
            self._page[SAVED] = iterations

    def leave(self) -> None:
        """The job ends here because its lease has, its checkpoint written."""
        self.left = True
        if self.place.leading:
            self._page[LEFT] = 1


@cache
def this_lease() -> Lease:
    """The lease of this process, as its environment says."""
    return Lease(Place.of())
