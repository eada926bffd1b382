"""The policies that are compared where none is named."""

from volvelle.core.policy import policies
from volvelle.workload.workload import Workload

FIRST_POLICIES = ("fifo", "fifo-skip", "easy", "sjf", "srsf", "las")
"""Policies of the demo, and of the first table: nothing of them is compiled."""
QUICK_POLICIES = (*FIRST_POLICIES, "srtf", "afs-l")
CHOSEN_POLICIES = (*QUICK_POLICIES, "tiresias", "gittins", "max-min", "themis")
"""The default of a comparison: policies that need nothing but what every trace tells."""
ELASTIC_POLICIES = frozenset({"afs-l", "max-min"})
"""Policies that say how far elastic jobs grow: without such jobs they decide as srtf and fifo-skip do."""

MANY_JOBS = 20_000
"""From here on only the quick ones are chosen: the others take rounds, and minutes where thousands wait."""


def chosen_policies(workload: Workload) -> tuple[str, ...]:
    """The policies of a comparison that names none, for these jobs; a system may be moved away."""
    names = CHOSEN_POLICIES if len(workload) < MANY_JOBS else QUICK_POLICIES
    left_out = set() if any(job.spec.elastic for job in workload.jobs) else ELASTIC_POLICIES
    known = policies.names()
    return tuple(name for name in names if name in known and name not in left_out)
