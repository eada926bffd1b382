"""The policies that are compared where none is named."""

from volvelle.core.policy import policies

FIRST_POLICIES = ("fifo", "fifo-skip", "easy", "sjf", "srsf", "las")
"""Policies of the demo, and of the first table: nothing of them is compiled."""
QUICK_POLICIES = (*FIRST_POLICIES, "srtf", "afs-l")
CHOSEN_POLICIES = (*QUICK_POLICIES, "tiresias", "gittins", "max-min", "themis")
"""The default of a comparison: policies that need nothing but what every trace tells."""

MANY_JOBS = 20_000
"""From here on only the quick ones are chosen: the others take rounds, and minutes where thousands wait."""


def chosen_policies(jobs: int) -> tuple[str, ...]:
    """The policies of a comparison that names none, for so many jobs; a system may be moved away."""
    known = policies.names()
    names = CHOSEN_POLICIES if jobs < MANY_JOBS else QUICK_POLICIES
    return tuple(name for name in names if name in known)
