"""The workloads of an attached cluster, for the policy: by their keys the core knows jobs."""

from dataclasses import dataclass, field, replace

from msgspec.json import encode

from volvelle.incumbents.kueue.amounts import seconds
from volvelle.incumbents.kueue.quota import Holder
from volvelle.incumbents.kueue.site import Site
from volvelle.incumbents.kueue.workloads import Pending, holder, pending


@dataclass(frozen=True)
class Own:
    """The workloads of a snapshot as Kueue's cycle sees them, for the policy."""

    site: Site
    by_key: dict[str, tuple[Pending, Holder | None, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, site: Site, now: float) -> "Own":
        """The workloads that wait in one of a site's queues, or hold quota of one."""
        own = cls(site)
        states = {one.key: one.requeue_state for one in site.workloads}
        for one in site.pending():
            own.by_key[one.key] = _alike(one), None, seconds(states[one.key].requeue_at)
        for workload in site.workloads:
            held = holder(workload, site.classes, now)
            if held is not None and held.queue in site.queues:
                waiting = _alike(pending(workload, held.queue, site.classes))
                own.by_key[workload.key] = waiting, held, 0.0
        return own

    def workload(self, key: str) -> tuple[Pending, Holder | None, float]:
        """A workload, the quota that it holds, and the moment before which it does not wait again."""
        return self.by_key[key]


def _alike(one: Pending) -> Pending:
    """A workload that says of which others it is alike: where one of them does not fit, none does."""
    if one.fault or one.gated:
        return one
    return replace(one, alike=f"{one.priority} {encode(one.pod_sets).decode()}")
