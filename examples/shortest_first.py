"""A policy in ten lines: volvelle compare --demo --policy examples/shortest_first.py --policy srsf."""

from volvelle import policy


@policy.order("shortest-first")
def shortest_first(jobs, now):
    """Fewest remaining GPU-seconds first."""
    return jobs.remaining_seconds * jobs.gpus
