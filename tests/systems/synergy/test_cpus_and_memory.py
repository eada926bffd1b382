"""CPUs and memory in a run: what they do to a job's rate, by hand-worked cases."""

import pytest

from volvelle.core.decision import Decision
from volvelle.core.events import Event
from volvelle.core.journal import replay
from volvelle.core.log import EachMoment
from volvelle.core.parts import KnownJob, placements
from volvelle.model.cluster import Cluster, Node
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.overheads import Overheads
from volvelle.model.problems import Problem
from volvelle.model.sensitivity import Sensitivity
from volvelle.simulate.run import check
from volvelle.testing.resources import partly_taken
from volvelle.testing.scenario import Scenario, happen

HUNGRY = Sensitivity((2.0, 6.0), (10.0,), ((0.25,), (1.0,)))
"""At full rate with 6 CPUs a GPU; a quarter of it with 2."""
MODEST = Sensitivity((1.0,), (10.0,), ((1.0,),))


def job(
    number: int,
    submit: float,
    seconds: float,
    profile: Sensitivity | None,
    gpus: float = 1.0,
    cpus: float = 0.0,
) -> Job:
    """A job of ``seconds`` at full rate."""
    spec = JobSpec(id=f"job-{number}", submit_time=submit, gpus=gpus, cpus=cpus)
    return Job(spec, Truth(work=gpus * seconds, sensitivity=profile))


def nodes(count: int, gpus: int = 4, cpus: float = 12.0, memory_gb: float = 400.0) -> Cluster:
    """Equal nodes, with 3 CPUs for each GPU unless said otherwise."""
    return Cluster(tuple(Node(f"node-{i}", gpus, "", cpus, memory_gb) for i in range(count)))


class Told(EachMoment):
    """What each job was told to have, by time."""

    def __init__(self) -> None:
        self.cpus: list[tuple[float, int, float]] = []

    def record(self, time: float, events: tuple[Event, ...], decision: Decision) -> None:
        if (sharing := decision.sharing) is not None:
            for number, cpus in zip(sharing.job.tolist(), sharing.cpus.tolist(), strict=True):
                self.cpus.append((time, number, cpus))


@pytest.mark.parametrize("placement", ["none", "consolidated", "multi-resource"])
@pytest.mark.parametrize("policy", ["fifo", "synergy-proportional:round=1"])
def test_gpus_come_with_their_share_of_the_cpus(policy: str, placement: str) -> None:
    """3 CPUs a GPU leave 0.4375 of the rate, however many GPUs are idle."""
    scenario = Scenario.of(
        nodes(2), [job(0, 0.0, 70.0, HUNGRY)], policy=policy, placement=placement
    )
    assert happen(scenario).outcomes.finish[0] == pytest.approx(70.0 / 0.4375)


@pytest.mark.parametrize("cluster", [nodes(1, cpus=0.0, memory_gb=0.0), nodes(1, cpus=0.0)])
def test_cpus_that_nobody_counts_are_enough(cluster: Cluster) -> None:
    run = happen(Scenario.of(cluster, [job(0, 0.0, 70.0, HUNGRY)]))
    assert run.outcomes.finish[0] == 70.0


@pytest.mark.parametrize("placement", ["none", "multi-resource"])
def test_cpus_move_without_a_restart(placement: str) -> None:
    """Job 0 has 6 of 12 CPUs; from 10 to 15 s three others want 3 each, and it works on with 3.

    5 s at 0.4375 of the rate cost it 2.8125 s, and no restart though one would cost 50 s.
    """
    wide = Sensitivity((3.0,), (10.0,), ((1.0,),))
    jobs = [job(0, 0.0, 60.0, HUNGRY), *(job(n, 10.0, 5.0, wide) for n in (1, 2, 3))]
    told = Told()
    scenario = Scenario.of(
        nodes(1),
        jobs,
        policy="synergy-tune:round=1",
        placement=placement,
        overheads=Overheads(restore=50.0),
    )
    outcomes = happen(scenario, told).outcomes
    assert [entry for entry in told.cpus if entry[1] == 0] == [
        (0.0, 0, 6.0),
        (10.0, 0, 3.0),
        (15.0, 0, 6.0),
    ]
    assert outcomes.finish.tolist() == pytest.approx([60.0 + 5.0 * (1 - 0.4375), 15.0, 15.0, 15.0])
    assert outcomes.restarts.sum() == 0


def test_a_job_without_a_profile_has_the_cpus_it_declares() -> None:
    """Of 12 CPUs 6 go to job 0; job 1 declares 5 for each of 2 GPUs and falls back to its share of 3."""
    told = Told()
    jobs = [job(0, 0.0, 60.0, HUNGRY), job(1, 20.0, 20.0, None, gpus=2.0, cpus=10.0)]
    scenario = Scenario.of(nodes(1), jobs, policy="synergy-tune:round=1")
    assert happen(scenario, told).outcomes.finish.tolist() == [60.0, 40.0]
    assert told.cpus == [(0.0, 0, 6.0), (20.0, 1, 6.0)]


def test_a_gang_has_its_cpus_where_its_gpus_are() -> None:
    """6 GPUs on nodes of 4: 4 CPUs for each, on 4 GPUs of one node and 2 of the other."""
    told = Told()
    scenario = Scenario.of(
        nodes(2, cpus=16.0),
        [job(0, 0.0, 50.0, HUNGRY, gpus=6.0)],
        policy="synergy-tune:round=1",
        placement="multi-resource",
    )
    outcomes = happen(scenario, told).outcomes
    assert told.cpus == [(0.0, 0, 24.0)]
    assert outcomes.finish[0] == pytest.approx(50.0 / 0.625)


def test_packing_keeps_hungry_jobs_apart_and_fills_up_with_modest_ones() -> None:
    """Two nodes of 2 GPUs and 7 CPUs: each has room for one that wants 6 and one that wants 1."""
    jobs = [job(n, float(n), 100.0, HUNGRY if n < 2 else MODEST) for n in range(4)]
    scenario = Scenario.of(
        nodes(2, gpus=2, cpus=7.0), jobs, policy="synergy-tune:round=1", placement="multi-resource"
    )
    packed = happen(scenario).outcomes
    assert packed.finish.tolist() == [100.0, 101.0, 102.0, 103.0]
    blind = happen(scenario.under(placement="consolidated")).outcomes
    assert blind.finish[0] > packed.finish[0], "two hungry jobs on one node share its CPUs"


def test_a_gang_that_would_lose_by_it_is_not_spread_for_the_sake_of_cpus() -> None:
    """Of 2 x 4 GPUs one node has its CPUs taken; 4 GPUs' demand fits only over both nodes."""
    resources = partly_taken(nodes(2, cpus=16.0), [0, 4])
    resources.given[0, 0] = 12.0
    resources.given[0, 4] = 12.0
    packing = placements.make("multi-resource")
    wants_two = Sensitivity((2.0,), (10.0,), ((1.0,),))

    def where(slowdown: float) -> list[int]:
        truth = Truth(work=1.0, sensitivity=wants_two, spread_slowdown=slowdown)
        known = KnownJob(JobSpec(id="a", submit_time=0.0, gpus=3.0), truth)
        taken = packing.choose_for(known, resources.free_for(0), 3, resources)
        assert taken is not None
        return [int(gpus) for gpus in taken]

    assert where(0.0) == [2, 1]
    assert where(0.3) == [3, 0]


def test_a_job_that_its_share_lets_starve_is_turned_away_with_the_reason() -> None:
    starving = Sensitivity((4.0,), (10.0,), ((1.0,),), "zero")
    outcomes = happen(Scenario.of(nodes(1), [job(0, 0.0, 10.0, starving)])).outcomes
    assert outcomes.reason[0] == (
        "makes no progress on its GPUs with the CPUs and memory that go with them"
    )


def test_a_replay_divides_as_often_as_the_run() -> None:
    """Job 1 stops job 0 and starts when its checkpoint is written: an entry of its own at that time."""
    wide = Sensitivity((3.0,), (10.0,), ((1.0,),))
    jobs = [job(0, 0.0, 60.0, HUNGRY, gpus=4.0), job(1, 10.0, 5.0, wide, gpus=4.0)]
    policy, costs = "synergy-opt:order=srtf,round=1", Overheads(checkpoint=3.0)
    run = happen(Scenario.of(nodes(1), jobs, policy=policy, overheads=costs))
    times = [entry.time for entry in run.journal.entries]
    assert len(times) > len(set(times))
    replayed = replay(run.journal.header, run.journal.entries)
    gaps = [each.composition.policy.solver_gaps for each in (run.scheduler, replayed)]
    once, again = (each.solved if each is not None else 0 for each in gaps)
    assert once == again > 0


@pytest.mark.parametrize("policy", ["synergy-tune", "synergy-opt"])
def test_nothing_to_divide_is_refused(policy: str) -> None:
    bare = Scenario.of(nodes(1, cpus=0.0, memory_gb=0.0), [job(0, 0.0, 10.0, HUNGRY)])
    with pytest.raises(Problem, match="no node of this cluster says what it has of them"):
        check(bare.workload, bare.under(policy).setting)
