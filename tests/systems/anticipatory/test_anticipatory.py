"""Anticipatory scheduling with exact knowledge: theorem 1, figure 6 as it is written, and by hand."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.core.events import ArrivalsAnnounced
from volvelle.metrics.baseline import against
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import Cluster, Node, Pool
from volvelle.model.job import Job
from volvelle.model.overheads import Overheads
from volvelle.systems.anticipatory.virtual_clock import VirtualClock
from volvelle.testing.scenario import Scenario, happen, linear_job

SECONDS = st.sampled_from([1.0, 2.5, 7.0, 10.0, 12.3, 30.0, 100.0, 250.0, 1 / 3])
GAPS = st.sampled_from([0.0, 0.0, 0.1, 1.0, 5.0, 33.3, 120.0])


@st.composite
def workloads(draw: st.DrawFn, most: int = 30) -> tuple[Cluster, list[Job]]:
    """Jobs of any width and length in one to four pools that lend, on a cluster with GPUs to spare or not."""
    quotas = draw(st.lists(st.integers(1, 8), min_size=1, max_size=4))
    gpus = sum(quotas) + draw(st.sampled_from([0, 0, 1, 3]))
    pools = tuple(Pool(f"pool-{i}", float(quota), lends=True) for i, quota in enumerate(quotas))
    jobs, time = [], 0.0
    for number in range(draw(st.integers(2, most))):
        time += draw(GAPS)
        owner = draw(st.integers(0, len(quotas) - 1))
        gang = draw(st.one_of(st.just(1), st.integers(1, quotas[owner])))
        jobs.append(linear_job(number, time, gang, draw(SECONDS), pool=pools[owner].name))
    return Cluster((Node("node", gpus),), pools), jobs


def run(
    policy: str, cluster: Cluster, jobs: list[Job], *, estimator: str = "oracle", start: float = 0.0
) -> Outcomes:
    costs = Overheads(start=start)
    scenario = Scenario.of(cluster, jobs, policy=policy, estimator=estimator, overheads=costs)
    return happen(scenario).outcomes


@settings(max_examples=40)
@given(
    workloads(), st.sampled_from(["", ":round=30", ":round=7.5"]), st.sampled_from([0.0, 0.0, 2.0])
)
def test_theorem_1_nobody_finishes_later_than_with_the_pool_alone(
    workload: tuple[Cluster, list[Job]], period: str, start: float
) -> None:
    alone = run(f"fcfs-pools{period}", *workload, start=start)
    shared = run(f"anticipatory-vc{period}", *workload, start=start)
    assert np.isfinite(alone.finish).all()
    assert (shared.finish <= alone.finish + 1e-6).all()
    assert against(shared, alone).slowed == 0


@given(workloads())
def test_virtual_starts_are_those_of_the_pools_alone(workload: tuple[Cluster, list[Job]]) -> None:
    cluster, jobs = workload
    alone = run("fcfs-pools", cluster, jobs)
    for pool in cluster.pools:
        rows = [n for n, job in enumerate(jobs) if job.spec.pool == pool.name]
        submit, gpus = (
            np.array([getattr(jobs[n].spec, name) for n in rows], dtype=np.float64)
            for name in ("submit_time", "gpus")
        )
        seconds = np.array([jobs[n].truth.work for n in rows]) / gpus
        found = VirtualClock(pool.quota).starts(submit, gpus, seconds)
        np.testing.assert_allclose(found, alone.first_start[rows], rtol=1e-12)
        one_by_one, clock = [], VirtualClock(pool.quota)
        for n in range(len(rows)):
            one_by_one += clock.starts(
                submit[n : n + 1], gpus[n : n + 1], seconds[n : n + 1]
            ).tolist()
        np.testing.assert_array_equal(one_by_one, found)


@dataclass
class Figure6:
    """The pseudocode of figure 6 as it is written, with everything worked out anew at every event.

    anew: also the virtual starts, from what runs then; else they are those of the pools alone.
    """

    cluster: Cluster
    jobs: list[Job]
    anew: bool

    def starts(self) -> list[float]:
        self.start: dict[int, float] = {}
        self.alone = self._virtual(-1.0)
        times = {job.spec.submit_time for job in self.jobs} | set(self.alone.values())
        while times:
            now = min(times)
            times.remove(now)
            while self._start_one(now):
                pass
            times |= {end for end in map(self._end, self.start) if end > now}
        return [self.start[n] for n in range(len(self.jobs))]

    def _end(self, n: int) -> float:
        return self.start[n] + self._seconds(n)

    def _seconds(self, n: int) -> float:
        return self.jobs[n].truth.work / self.jobs[n].spec.gpus

    def _virtual(self, now: float) -> dict[int, float]:
        found: dict[int, float] = {}
        for pool in self.cluster.pools:
            clock = VirtualClock(pool.quota)
            mine = [n for n, job in enumerate(self.jobs) if job.spec.pool == pool.name]
            for n in mine:
                if n in self.start and self._end(n) > now:
                    clock.occupy(self._end(n), self.jobs[n].spec.gpus)
            rest = [n for n in mine if n not in self.start]
            columns = [
                (max(self.jobs[n].spec.submit_time, now), self.jobs[n].spec.gpus, self._seconds(n))
                for n in rest
            ]
            submit, gpus, seconds = np.array(columns, dtype=np.float64).reshape(-1, 3).T.copy()
            found |= dict(zip(rest, clock.starts(submit, gpus, seconds).tolist(), strict=True))
        return found

    def _start_one(self, now: float) -> bool:
        starts = self._virtual(now) if self.anew else self.alone
        plan = [(self.start[n], self._end(n), self.jobs[n].spec.gpus) for n in self.start]
        for n in sorted(starts.keys() - self.start.keys(), key=lambda n: (starts[n], n)):
            begin, gpus = max(starts[n], now), self.jobs[n].spec.gpus
            end = now + self._seconds(n)
            corners = {now, *(t for t, _, _ in plan if now < t < end)}
            most = max(sum(g for s, e, g in plan if s <= t < e) for t in corners)
            if self.jobs[n].spec.submit_time <= now and most + gpus <= self.cluster.gpus:
                self.start[n] = now
                return True
            plan.append((begin, begin + self._seconds(n), gpus))
        return False


@settings(max_examples=60)
@given(workloads(14))
def test_one_pass_over_a_plan_that_is_kept_does_what_figure_6_does(
    workload: tuple[Cluster, list[Job]],
) -> None:
    starts = run("anticipatory-vc", *workload).first_start
    np.testing.assert_allclose(starts, Figure6(*workload, anew=False).starts(), atol=1e-6)


def pushed_back() -> tuple[Cluster, list[Job]]:
    """Red's narrow long job 2 runs early; worked out anew, red's wide job 1 is then behind it."""
    pools = (Pool("red", 8.0, lends=True), Pool("blue", 9.0, lends=True))
    jobs = [
        linear_job(0, 0.0, 8.0, 100.0, pool="red"),
        linear_job(1, 0.0, 8.0, 10.0, pool="red"),
        linear_job(2, 0.0, 1.0, 1000.0, pool="red"),
        linear_job(3, 0.0, 8.0, 600.0, pool="blue"),
        linear_job(4, 0.0, 8.0, 500.0, pool="blue"),
    ]
    return Cluster((Node("node", 17),), pools), jobs


def test_virtual_starts_worked_out_anew_harm_a_wide_job() -> None:
    cluster, jobs = pushed_back()
    assert Figure6(cluster, jobs, anew=True).starts() == [0.0, 600.0, 0.0, 0.0, 100.0]
    assert run("anticipatory-vc", cluster, jobs).first_start.tolist() == [0, 100, 0, 0, 110]
    assert run("fcfs-pools", cluster, jobs).first_start.tolist() == [0, 100, 110, 0, 600]


def lent_for_a_while() -> tuple[Cluster, list[Job]]:
    """Blue is idle until 50: long enough for red's short job, not for its long one."""
    pools = (Pool("red", 1.0, lends=True), Pool("blue", 1.0, lends=True))
    jobs = [
        linear_job(0, 0.0, 1.0, 300.0, pool="red"),
        linear_job(1, 0.0, 1.0, 100.0, pool="red"),
        linear_job(2, 0.0, 1.0, 40.0, pool="red"),
        linear_job(3, 50.0, 1.0, 60.0, pool="blue"),
    ]
    return Cluster((Node("node", 2),), pools), jobs


def test_who_is_done_before_the_owner_comes_may_borrow() -> None:
    workload = lent_for_a_while()
    assert run("fcfs-pools", *workload).first_start.tolist() == [0.0, 300.0, 400.0, 50.0]
    assert run("mmfs", *workload).first_start.tolist() == [0.0, 0.0, 160.0, 100.0]
    assert run("anticipatory-vc", *workload).first_start.tolist() == [0.0, 110.0, 0.0, 50.0]


def test_without_knowing_who_comes_the_owner_may_have_to_wait() -> None:
    found = run("anticipatory-vc", *lent_for_a_while(), estimator="noisy:error=0")
    assert found.first_start.tolist() == [0.0, 0.0, 160.0, 100.0]


def test_what_comes_is_foretold_once_by_an_estimator_that_knows() -> None:
    cluster, jobs = lent_for_a_while()
    journal = happen(Scenario.of(cluster, jobs, policy="anticipatory-vc")).journal
    [told] = [
        e for entry in journal.entries for e in entry.events if isinstance(e, ArrivalsAnnounced)
    ]
    assert told == ArrivalsAnnounced(
        0.0,
        (0, 1, 2, 3),
        (0.0, 0.0, 0.0, 50.0),
        (1.0,) * 4,
        (300.0, 100.0, 40.0, 60.0),
        (0, 0, 0, 1),
    )
    for other in (
        Scenario.of(cluster, jobs, policy="mmfs"),
        Scenario.of(cluster, jobs, policy="anticipatory-vc", estimator="noisy"),
    ):
        events = [event for entry in happen(other).journal.entries for event in entry.events]
        assert not any(isinstance(event, ArrivalsAnnounced) for event in events)


@pytest.mark.parametrize("lends", [False, True])
def test_a_pool_that_does_not_lend_is_served_as_if_alone(lends: bool) -> None:
    cluster, jobs = lent_for_a_while()
    pools = tuple(Pool(pool.name, pool.quota, lends) for pool in cluster.pools)
    found = run("anticipatory-vc", Cluster(cluster.nodes, pools), jobs)
    alone = run("fcfs-pools", cluster, jobs)
    assert (found.first_start.tolist() == alone.first_start.tolist()) is not lends


def test_jobs_without_a_virtual_start_run_where_nobody_is_in_the_way() -> None:
    """Job 0 is wider than its pool, job 1 has none: each would reach into blue's reservation."""
    pools = (Pool("red", 1.0, lends=True), Pool("blue", 2.0, lends=True))
    jobs = [
        linear_job(0, 0.0, 2.0, 20.0, pool="red"),
        linear_job(1, 0.0, 3.0, 20.0),
        linear_job(2, 10.0, 2.0, 30.0, pool="blue"),
    ]
    found = run("anticipatory-vc", Cluster((Node("node", 3),), pools), jobs)
    assert found.first_start.tolist() == [40.0, 60.0, 10.0]


# ---------------------------------------------------------------------- locality


@st.composite
def workloads_on_nodes(draw: st.DrawFn, most: int = 30) -> tuple[Cluster, list[Job]]:
    """Jobs of any width and length in pools whose GPUs are whole nodes, parts of them, or both."""
    cluster, jobs = draw(workloads(most))
    left = int(sum(pool.quota for pool in cluster.pools)) + draw(st.sampled_from([0, 0, 1, 3]))
    nodes: list[Node] = []
    while left:
        gpus = min(left, draw(st.sampled_from([1, 2, 4, 4, 8])))
        nodes.append(Node(f"node-{len(nodes)}", gpus))
        left -= gpus
    return Cluster(tuple(nodes), cluster.pools), jobs


def run_together(
    policy: str, cluster: Cluster, jobs: list[Job], *, start: float = 0.0
) -> tuple[Outcomes, dict[int, set[int]]]:
    """What comes of gangs that stand together, and the nodes on which each stood."""
    costs = Overheads(start=start)
    run = happen(
        Scenario.of(cluster, jobs, policy=policy, placement="consolidated", overheads=costs)
    )
    stood: dict[int, set[int]] = {}
    for entry in run.journal.entries:
        for row, number in enumerate(entry.decision.job.tolist()):
            slots = entry.decision.slots_of(row)
            stood[number] = set(run.scheduler.resources.slot_node[slots].tolist())
    return run.outcomes, stood


@settings(max_examples=40)
@given(workloads_on_nodes(), st.sampled_from(["", ",round=7.5"]), st.sampled_from([0.0, 2.0]))
def test_theorem_1_with_gangs_that_stand_together(
    workload: tuple[Cluster, list[Job]], period: str, start: float
) -> None:
    """Nobody is later than with the pool alone on its nodes, and gangs that fit a node stand on one."""
    cluster, jobs = workload
    alone, at_home = run_together(f"fcfs-pools:locality=true{period}", *workload, start=start)
    shared, stood = run_together(f"anticipatory-vc:locality=true{period}", *workload, start=start)
    there = np.isfinite(alone.finish)
    assert np.isfinite(shared.finish).all()
    assert (shared.finish[there] <= alone.finish[there] + 1e-6).all()
    assert against(shared, alone).slowed == 0
    sizes = [node.gpus for node in cluster.nodes]
    for number, job in enumerate(jobs):
        if number in at_home and len(at_home[number]) == 1:
            assert len(stood[number]) == 1
        assert job.spec.gpus > max(sizes) or len(stood[number]) <= len(at_home.get(number, sizes))
