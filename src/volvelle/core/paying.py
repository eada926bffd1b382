"""Whether machine code is worth loading or compiling, for so many jobs."""

from volvelle.core.policy import Kernel

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
