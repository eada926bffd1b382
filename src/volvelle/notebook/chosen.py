"""The policies that are compared where none is named, and why the others are left out."""

from collections.abc import Iterable, Sequence
from itertools import chain

from volvelle.core.policy import policies

FIRST_POLICIES = ("fifo", "fifo-skip", "easy", "sjf", "srsf", "las")
"""Those of the demo, and of the first table: nothing of them is compiled."""
QUICK_POLICIES = (*FIRST_POLICIES, "srtf", "afs-l")
CHOSEN_POLICIES = (*QUICK_POLICIES, "tiresias", "gittins", "max-min", "themis")
"""What is compared unless it is said: those that need nothing but what every trace tells."""

MANY_JOBS = 20_000
"""From here on only the quick ones are chosen: the others take rounds, and minutes where thousands wait."""


_LEFT_OUT = {
    "for deadlines": ("3sigma", "chronus", "edf", "genie", "yarn-cs"),
    "for pools that lend": (
        "anticipatory",
        "anticipatory-vc",
        "fcfs-pools",
        "gssf",
        "hived-nonpreemptive",
        "mmfs",
        "ssf",
    ),
    "for rates by GPU type": (
        "allox",
        "gandiva-fair",
        "gavel-cost",
        "gavel-fifo",
        "gavel-ftf",
        "gavel-hierarchical",
        "gavel-las",
        "gavel-makespan",
        "gavel-throughput",
        "pcs-gavel",
    ),
    "for CPUs and memory": ("drf", "synergy-opt", "synergy-proportional", "synergy-tune"),
    "for batch sizes": ("pollux",),
    "as sites have them, from their files": ("slurm",),
}


def chosen_policies(jobs: int) -> tuple[str, ...]:
    """What is compared, unless it is said, on a workload of so many jobs: of these policies, those here."""
    return _here(CHOSEN_POLICIES if jobs < MANY_JOBS else QUICK_POLICIES)


def left_out(chosen: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The policies that are not ``chosen``, by why."""
    found = {why: names for why, named in _LEFT_OUT.items() if (names := _here(named))}
    if slow := _here(name for name in CHOSEN_POLICIES if name not in chosen):
        found[f"slow with {MANY_JOBS:,} jobs and more"] = slow
    named = {*chosen, *chain.from_iterable(found.values())}
    found["variants, or slower"] = tuple(name for name in policies.all() if name not in named)
    return found


def _here(names: Iterable[str]) -> tuple[str, ...]:
    """Those of ``names`` that are known: a system may be moved away."""
    known = policies.names()
    return tuple(name for name in names if name in known)
