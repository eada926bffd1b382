"""Whether machine code is worth loading or compiling, for so many jobs."""

from typing import TYPE_CHECKING

from volvelle.core.forward.moments import jobs_left
from volvelle.core.policy import Kernel
from volvelle.core.state import JOBS

if TYPE_CHECKING:
    from volvelle.core.scheduler_state import SchedulerState

LOADED_FROM = 800
"""Jobs of which interpreting costs as much as loading the forward loop's machine code, 0.04 s of CPU time."""
COMPILED_FROM = 10_000
"""Jobs from which on it is compiled where no file has it: 7 s once, for this run and all that follow; more
jobs where a kernel says so (`Kernel.compiled_from`)."""


def machine_code_pays(
    jobs: float,
    kernel: Kernel | None = None,
    *,
    divisible: bool = False,
    repeatedly: bool = False,
) -> bool:
    """Whether the loop and a policy's ``kernel`` are worth loading, or compiling, for so many jobs.

    repeatedly: about as many are played out again and again by this process.
    """
    if jobs < LOADED_FROM:
        return False
    from volvelle.core.machine import LOOP, kernels_of  # noqa: PLC0415 - loads llvmlite
    from volvelle.core.machine_code.loading import can_compile, is_kept  # noqa: PLC0415 - as above

    loops, compiled_from = [LOOP], COMPILED_FROM
    if kernel is not None:
        loops += kernels_of(kernel, divisible=divisible)
        compiled_from = max(compiled_from, kernel.compiled_from)
    return all(is_kept(*each) for each in loops) or (
        (repeatedly or jobs >= compiled_from) and can_compile()
    )


def compile_where_it_pays(scheduler: "SchedulerState", *, repeatedly: bool = False) -> None:
    """Let machine code run the forward loop if so many jobs are there that it is worth loading.

    Where admissions play the future out, all jobs count once more for each that is judged, but no more
    than are worth loading what is compiled already.
    repeatedly: forks of this scheduler are played out again and again: it is worth compiling, too.
    """
    admission = scheduler.composition.admission
    jobs, judged = jobs_left(scheduler.state), 0
    if admission.limit(0.0) is None:
        waiting = jobs - int(scheduler.state.count[JOBS])
        judged = min(waiting, admission.looks_past + 1)
    played = min((1 + judged) * jobs, max(jobs, COMPILED_FROM - 1))
    if pays_for(scheduler, played, repeatedly=repeatedly):
        scheduler.compile()


def pays_for(scheduler: "SchedulerState", jobs: float, *, repeatedly: bool = False) -> bool:
    """Whether it is worth what loading it takes, to let so many jobs come and go."""
    policy = scheduler.composition.policy
    kernel = policy.kernel(named=scheduler.resources.named)
    return machine_code_pays(jobs, kernel, divisible=policy.divisible, repeatedly=repeatedly)
