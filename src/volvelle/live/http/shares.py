"""Shares of the cluster that users and pools hold."""

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, replace

from starlette.concurrency import run_in_threadpool

from volvelle.live.http.authentication import Principal
from volvelle.live.http.responses import PoolShare, ShareList, UserShare
from volvelle.live.http.shown_cluster import ShownCluster
from volvelle.live.status.view import JobState
from volvelle.live.store import Store

_DAY_SECONDS = 86_400.0
_KEPT_SECONDS = 5.0
"""So long the same shares are shown to all: adding them up takes long where many jobs wait."""


@dataclass
class _Share:
    running: int = 0
    waiting: int = 0
    held: float = 0.0
    wanted: float = 0.0
    seconds: float = 0.0

    def add(self, gpus: float, *, holds: bool) -> None:
        if holds:
            self.running += 1
            self.held += gpus
        else:
            self.waiting += 1
            self.wanted += gpus


class Shares:
    """The shares at present, the largest first, and the GPU time of the last day."""

    def __init__(self, cluster: ShownCluster, store: Store) -> None:
        self._cluster = cluster
        self._store = store
        self._found: ShareList | None = None
        self._found_at = 0.0
        self._lock = asyncio.Lock()

    async def of(self, principal: Principal) -> ShareList:
        """The shares without the past use of others, which the principal may not see."""
        async with self._lock:
            if self._found is None or time.monotonic() - self._found_at > _KEPT_SECONDS:
                self._found = await run_in_threadpool(self._add_up)
                self._found_at = time.monotonic()
            found = self._found
        if principal.is_operator:
            return found
        users = (
            share if share.user == principal.user else replace(share, gpu_seconds=None)
            for share in found.users
            if share.user == principal.user or share.running_jobs or share.waiting_jobs
        )
        return replace(found, users=tuple(users))

    def _add_up(self) -> ShareList:
        view = self._cluster.status
        users: defaultdict[str, _Share] = defaultdict(_Share)
        pools: defaultdict[str, _Share] = defaultdict(_Share)
        for job in view.jobs.values():
            if job.state is JobState.HELD:
                continue
            holds = bool(job.grants)
            users[job.user].add(job.gpus, holds=holds)
            if pool := job.request.get("pool"):
                pools[str(pool)].add(job.gpus, holds=holds)
        for user, seconds in self._gpu_seconds().items():
            users[user].seconds = seconds
        return ShareList(
            view.time,
            tuple(
                UserShare(user, each.running, each.waiting, each.held, each.wanted, each.seconds)
                for user, each in sorted(
                    users.items(), key=lambda share: (-share[1].held, share[0])
                )
            ),
            tuple(
                PoolShare(pool.name, pool.quota, pool.lends, each.held, each.wanted)
                for pool in self._cluster.pools
                for each in (pools[pool.name],)
            ),
        )

    def _gpu_seconds(self) -> dict[str, float]:
        """GPU time within the last day, by user."""
        view, now = self._cluster.status, time.time()
        first = now - _DAY_SECONDS
        past = self._cluster.holdings
        spans = [(each.number, each.start, each.end, each.grants) for each in past]
        spans += [
            (job.number, job.started, now, job.grants)
            for job in view.jobs.values()
            if job.started is not None
        ]
        spans = [span for span in spans if span[2] > first]
        names = self._store.jobs.find_names({span[0] for span in spans} - view.jobs.keys())
        found: defaultdict[str, float] = defaultdict(float)
        for number, start, end, grants in spans:
            job = view.jobs.get(number)
            user = job.user if job else names.get(number, ("", ""))[1]
            found[user] += (end - max(start, first)) * sum(len(gpus) for _, gpus in grants)
        found.pop("", None)
        return found
