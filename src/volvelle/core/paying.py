"""Whether machine code is worth loading or compiling, for so many jobs."""

LOADED_FROM = 800
"""Jobs of which interpreting costs as much as loading the forward loop's machine code, 0.04 s of CPU time."""
COMPILED_FROM = 10_000
"""Jobs from which on it is compiled where no file has it: 7 s once, for this run and all that follow."""


def machine_code_pays(jobs: float) -> bool:
    """Whether the forward loop is worth loading, or compiling, to let so many jobs come and go."""
    if jobs < LOADED_FROM:
        return False
    from volvelle.core.machine import LOOP  # noqa: PLC0415 - loads llvmlite
    from volvelle.core.machine_code.loading import can_compile, is_kept  # noqa: PLC0415 - as above

    return is_kept(*LOOP) or (jobs >= COMPILED_FROM and can_compile())
