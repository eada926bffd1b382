"""Who holds how much of the cluster: users and pools."""

from collections import defaultdict
from dataclasses import dataclass, field
from time import time

from volvelle.live.control.controller import Controller
from volvelle.live.http.authentication import Principal
from volvelle.live.http.responses import PoolShare, ShareList, UserShare
from volvelle.live.status.view import JobState
from volvelle.live.store import Store

_DAY_SECONDS = 86_400.0


@dataclass
class _Share:
    running: int = 0
    waiting: int = 0
    held: float = 0.0
    wanted: float = 0.0
    seconds: float = field(default=0.0)

    def add(self, gpus: float, *, holds: bool) -> None:
        if holds:
            self.running += 1
            self.held += gpus
        else:
            self.waiting += 1
            self.wanted += gpus


def of(controller: Controller, store: Store, principal: Principal) -> ShareList:
    """The shares at present, the largest first, and the GPU time of the last day."""
    view = controller.status
    users: defaultdict[str, _Share] = defaultdict(_Share)
    pools: defaultdict[str, _Share] = defaultdict(_Share)
    for job in view.jobs.values():
        if job.state is JobState.HELD:
            continue
        holds = bool(job.grants)
        users[job.user].add(job.gpus, holds=holds)
        if pool := job.request.get("pool"):
            pools[str(pool)].add(job.gpus, holds=holds)
    for user, seconds in _gpu_seconds(controller, store).items():
        users[user].seconds = seconds
    return ShareList(
        view.time,
        tuple(
            UserShare(
                user,
                share.running,
                share.waiting,
                share.held,
                share.wanted,
                share.seconds if principal.is_operator or user == principal.user else None,
            )
            for user, share in sorted(users.items(), key=lambda each: (-each[1].held, each[0]))
            if principal.is_operator or user == principal.user or share.running or share.waiting
        ),
        tuple(
            PoolShare(pool.name, pool.quota, pool.lends, share.held, share.wanted)
            for pool in controller.pools
            for share in (pools[pool.name],)
        ),
    )


def _gpu_seconds(controller: Controller, store: Store) -> dict[str, float]:
    """GPU time within the last day, by user."""
    view, now = controller.status, time()
    first = now - _DAY_SECONDS
    spans = [(each.number, each.start, each.end, each.grants) for each in controller.holdings]
    spans += [
        (job.number, job.started, now, job.grants)
        for job in view.jobs.values()
        if job.started is not None
    ]
    spans = [span for span in spans if span[2] > first]
    over = {number for number, *_ in spans if number not in view.jobs}
    names = store.jobs.find_names(min(over), max(over)) if over else {}
    found: defaultdict[str, float] = defaultdict(float)
    for number, start, end, grants in spans:
        job = view.jobs.get(number)
        user = job.user if job else names.get(number, ("", ""))[1]
        found[user] += (end - max(start, first)) * sum(len(gpus) for _, gpus in grants)
    found.pop("", None)
    return found
