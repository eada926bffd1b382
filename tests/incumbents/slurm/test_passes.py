"""What Slurm's documentation says of its two passes, on small sites: each test names the page."""

from dataclasses import replace
from typing import Any

import pytest

from volvelle.incumbents.slurm.controller import REQUEUE_HOLD, Controller
from volvelle.incumbents.slurm.entries import Entry
from volvelle.incumbents.slurm.forecast import past_of
from volvelle.incumbents.slurm.passes import backfill_pass, in_question, main_pass
from volvelle.incumbents.slurm.reasons import explained
from volvelle.incumbents.slurm.records import dependencies, entry_of
from volvelle.incumbents.slurm.rules import Rules
from volvelle.incumbents.slurm.site import (
    Association,
    Config,
    Limits,
    Node,
    Partition,
    Qos,
    Reservation,
    Site,
)
from volvelle.incumbents.slurm.snapshot import Job, Snapshot
from volvelle.model.problems import Problem

MINUTE = 60.0


def site_of(nodes: int = 2, **more: Any) -> Site:
    """Nodes n0, n1, ... with 4 GPUs, 8 CPUs and 80 GB each, in one partition unless ``more`` says."""
    there = tuple(Node(f"n{at}", 8.0, 80_000.0, {"a100": 4}) for at in range(nodes))
    keys = {
        "PriorityType": "priority/basic",
        "SchedulerType": "sched/backfill",
        "SchedulerParameters": "bf_resolution=1",
        "SelectTypeParameters": "CR_CPU_MEMORY",
    } | more.pop("keys", {})
    names = tuple(node.name for node in there)
    site = Site("test", config=Config(keys), nodes=there, partitions=(Partition("all", names),))
    return replace(site, **more)


def job(number: int, gpus: float = 1.0, minutes: float = 10.0, **more: Any) -> Job:
    """A job of one node that waits, or one that runs where ``nodes`` says."""
    return replace(
        Job(
            key=str(number),
            id=number,
            submit=0.0,
            partitions=("all",),
            limit_seconds=minutes * MINUTE,
            per_node={"gres/gpu": gpus},
            asked={"cpu": 1.0, "mem": 1000.0, "node": 1.0, "gres/gpu": gpus},
            memory_per_cpu=1000.0,
        ),
        **more,
    )


def controller_of(site: Site, *jobs: Job, now: float = 0.0) -> Controller:
    """A controller in which these jobs wait."""
    controller = Controller.of(Rules(site), now)
    records = {one.key: one for one in jobs}
    for number, one in enumerate(jobs):
        controller.enter(entry_of(number, one, controller.rules, now, dependencies(one, records)))
    return controller


def entry(controller: Controller, key: str) -> Entry:
    return controller.entries[controller.keys[key]]


def said(controller: Controller, key: str) -> str:
    return controller.reason(entry(controller, key))


def started(controller: Controller) -> list[str]:
    """Keys of jobs that run."""
    return sorted(one.job.key for one in controller.running.values())


def nodes_of(controller: Controller, key: str) -> list[str]:
    hardware = controller.rules.hardware
    return [hardware.nodes[share.node].name for share in entry(controller, key).shares or ()]


def test_the_main_pass_stops_in_a_partition_at_the_first_job_that_finds_no_nodes() -> None:
    """Scheduling Configuration Guide: "no other jobs in that partition will be scheduled"."""
    controller = controller_of(site_of(1), job(1, 3), job(2, 2), job(3, 1))
    main_pass(controller, 100)
    assert started(controller) == ["1"]
    assert [said(controller, key) for key in "23"] == ["Resources", "Priority"]


def test_another_partition_goes_on_but_not_on_the_nodes_of_the_first() -> None:
    partitions = (
        Partition("all", ("n0", "n1")), Partition("own", ("n2",)), Partition("low", ("n0", "n2"))
    )  # fmt: skip
    controller = controller_of(
        site_of(3, partitions=partitions),
        job(1, 4), job(2, 4), job(3, 4),
        job(4, 1, partitions=("own",)), job(5, 1, partitions=("low",)),
    )  # fmt: skip
    main_pass(controller, 100)
    assert started(controller) == ["1", "2", "4", "5"]
    assert nodes_of(controller, "5") == ["n2"]


def test_backfill_starts_a_job_that_ends_before_the_first_job_can_start() -> None:
    """Scheduling Configuration Guide, "Backfill Scheduling"."""
    controller = controller_of(
        site_of(1), job(1, 2, 10), job(2, 4, 10), job(3, 2, 10), job(4, 2, 11)
    )
    main_pass(controller, 100)
    backfill_pass(controller)
    assert started(controller) == ["1", "3"], "job 4 would last longer than job 1"


def test_backfill_plans_by_limits_and_keeps_whole_nodes() -> None:
    """Where a pending job is planned, a longer one of one GPU does not start beside it."""
    controller = controller_of(site_of(1), job(1, 2, 10), job(2, 3, 10), job(3, 1, 30))
    main_pass(controller, 100)
    backfill_pass(controller)
    assert started(controller) == ["1"], "2 + 1 + 1 GPUs are free later, but nodes are kept whole"


def test_bf_max_job_test_ends_the_pass() -> None:
    site = site_of(1, keys={"SchedulerParameters": "bf_max_job_test=2,bf_resolution=1"})
    controller = controller_of(site, job(1, 3, 10), job(2, 4), job(3, 4), job(4, 1, 5))
    main_pass(controller, 100)
    backfill_pass(controller)
    assert started(controller) == ["1"]


def test_partitions_of_a_higher_tier_come_first() -> None:
    """slurm.conf(5), ``PriorityTier``."""
    partitions = (Partition("all", ("n0",)), Partition("top", ("n0",), tier=5))
    controller = controller_of(
        site_of(1, partitions=partitions), job(1, 4), job(2, 4, partitions=("top",))
    )
    main_pass(controller, 100)
    assert started(controller) == ["2"]


def test_a_job_that_names_two_partitions_starts_in_the_one_that_has_room() -> None:
    """sbatch(1), ``--partition``: "the job is started in the one offering earliest initiation"."""
    partitions = (Partition("one", ("n0",), tier=2), Partition("two", ("n1",)))
    controller = controller_of(
        site_of(2, partitions=partitions),
        job(1, 4, partitions=("one",)), job(2, 4, partitions=("one", "two")),
    )  # fmt: skip
    main_pass(controller, 100)
    assert entry(controller, "2").partition == "two"


def test_a_limit_of_a_partition_keeps_longer_jobs_out() -> None:
    """slurm.conf(5), ``MaxTime``."""
    partitions = (Partition("all", ("n0",), max_seconds=5 * MINUTE, default_seconds=MINUTE),)
    controller = controller_of(
        site_of(1, partitions=partitions), job(1), job(2, limit_seconds=None)
    )
    main_pass(controller, 100)
    assert started(controller) == ["2"]
    assert entry(controller, "2").limit == MINUTE


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(per_user={"gres/gpu": 4.0}), "QOSMaxGRESPerUser"),
        (Limits(group={"gres/gpu": 5.0}), "QOSGrpGRES"),
        (Limits(jobs_per_user=1), "QOSMaxJobsPerUserLimit"),
        (Limits(group_jobs=1), "QOSGrpJobsLimit"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_limit_of_a_qos_holds_back_its_jobs_and_no_others(limits: Limits, reason: str) -> None:
    """Resource Limits: a job that a limit holds back does not stop the queue (``assoc_limit_stop``)."""
    site = site_of(2, qos=(Qos("q", limits=limits), Qos("free")))
    controller = controller_of(
        site,
        job(1, 3, qos="q", user="u"), job(2, 3, qos="q", user="u"), job(3, 4, qos="free", user="u"),
    )  # fmt: skip
    main_pass(controller, 100)
    assert started(controller) == ["1", "3"]
    assert said(controller, "2") == reason
    assert "1 have it" in explained(controller, entry(controller, "2"))


def test_a_limit_of_an_account_holds_for_all_below_it() -> None:
    """Resource Limits, "Hierarchy": limits of parents hold too."""
    accounts = (
        Association("top", parent="root", limits=Limits(group={"gres/gpu": 5.0})),
        Association("lab", parent="top"),
        Association("lab", "u", parent="lab"),
        Association("lab", "v", parent="lab"),
    )
    controller = controller_of(
        site_of(2, associations=accounts),
        job(1, 3, account="lab", user="u"), job(2, 3, account="lab", user="v"),
    )  # fmt: skip
    main_pass(controller, 100)
    assert started(controller) == ["1"]
    assert said(controller, "2") == "AssocGrpGRES"


def preempting(mode: str = "REQUEUE") -> Site:
    """Jobs of the QOS high stop those of low."""
    return site_of(
        2,
        qos=(Qos("high", 10, frozenset({"low"})), Qos("low")),
        keys={"PreemptType": "preempt/qos", "PreemptMode": mode},
    )


def test_a_preempted_job_is_requeued_and_held() -> None:
    """Preemption, ``REQUEUE``; the hold of 121 s is measured (13 of 13 in the reference runs)."""
    controller = controller_of(preempting(), job(1, 4, qos="low"), job(2, 4, qos="low"))
    main_pass(controller, 100)
    controller.now = 100.0
    controller.enter(entry_of(7, job(7, 4, qos="high"), controller.rules, 100.0))
    main_pass(controller, 100)
    assert started(controller) == ["2", "7"]
    first = entry(controller, "1")
    assert (first.eligible, controller.reason(first)) == (100.0 + REQUEUE_HOLD, "BeginTime")


def test_preemptors_come_first_whatever_their_priority() -> None:
    """A job that may stop another is tried before it (``sort_job_queue``)."""
    controller = controller_of(preempting(), job(1, 4, qos="low"), job(2, 4, qos="high"))
    assert [controller.place_of[row].entry.job.key for row in in_question(controller)] == ["2", "1"]


def test_a_job_that_may_not_be_requeued_is_cancelled() -> None:
    controller = controller_of(
        preempting(), job(1, 4, qos="low", requeue=False), job(2, 4, qos="low")
    )
    main_pass(controller, 100)
    controller.enter(entry_of(7, job(7, 4, qos="high"), controller.rules, 0.0))
    main_pass(controller, 100)
    assert started(controller) == ["2", "7"]
    assert controller.cancelled == [0]


def test_gang_scheduling_is_refused_in_a_sentence() -> None:
    with pytest.raises(Problem, match="PreemptMode GANG is not modelled"):
        Rules(preempting("SUSPEND,GANG"))


def test_nodes_are_free_when_a_reservation_begins() -> None:
    """Advanced Resource Reservation Guide: no job starts that would not end before it begins."""
    kept = Reservation("maint", 5 * MINUTE, 10 * MINUTE, nodes=("n0",))
    controller = controller_of(
        site_of(1, reservations=(kept,)),
        job(1, 1, 6),
        job(2, 1, 5),
        job(3, 1, 5, reservation="maint"),
    )
    backfill_pass(controller)
    assert started(controller) == ["2"]
    controller.now = 5 * MINUTE
    main_pass(controller, 100)
    assert started(controller) == ["2", "3"], "who is in the reservation starts in it"


def test_what_keeps_jobs_from_coming_into_question() -> None:
    controller = controller_of(
        site_of(1),
        job(1), job(2, dependency="afterok:1(unfulfilled)"), job(3, reason="JobHeldUser"),
        job(4, eligible=50.0, reason="BeginTime"),
        job(5, array=5, task=0, throttle=1, key="5_0"), job(5, array=5, task=1, throttle=1, key="5_1"),
    )  # fmt: skip
    main_pass(controller, 100)
    assert started(controller) == ["1", "5_0"]
    reasons = {
        one.job.key: controller.reason(one) for one in controller.entries.values() if not one.shares
    }
    assert reasons == {
        "2": "Dependency", "3": "JobHeldUser", "4": "BeginTime", "5_1": "JobArrayTaskLimit"
    }  # fmt: skip


def test_licences_are_kept_for_those_who_reserved_them() -> None:
    """slurm.conf(5), ``Licenses``; reservations may keep licences."""
    kept = Reservation("r", 0.0, 20 * MINUTE, licences={"sim": 2.0})
    site = site_of(1, licences={"sim": 3.0}, reservations=(kept,))
    controller = controller_of(site, job(1, licences={"sim": 2.0}), job(2, licences={"sim": 1.0}))
    main_pass(controller, 100)
    assert started(controller) == ["2"]
    assert said(controller, "1") == "Licenses"


def test_cpus_and_memory_bind_as_gpus_do() -> None:
    """cons_tres(5): CPUs, memory and GPUs are consumable."""
    wide = job(2, 1, cpus=8.0, cpus_per_task=8.0)
    heavy = job(3, 1, memory_per_cpu=None, memory_per_node=79_500.0)
    controller = controller_of(site_of(1), job(1), wide, heavy, job(4, 1, 11))
    backfill_pass(controller)
    assert started(controller) == ["1"], "job 4 fits now, and would delay jobs 2 and 3"


def test_an_exclusive_job_takes_all_of_its_node() -> None:
    """sbatch(1), ``--exclusive``."""
    controller = controller_of(site_of(2), job(1), job(2, exclusive=True))
    main_pass(controller, 100)
    assert nodes_of(controller, "2") == ["n1"]
    held = controller.holds(entry(controller, "2"))
    assert (held["cpu"], held["gres/gpu"]) == (8.0, 4.0)


def test_gpus_of_a_whole_job_and_node_ranges() -> None:
    """sbatch(1), ``--gpus`` and ``--nodes=min-max``."""
    total = job(1, per_node={}, per_job={"gres/gpu": 6.0})
    ranged = job(2, 2, least_nodes=1, most_nodes=2, tasks=2)
    controller = controller_of(site_of(4), total, ranged)
    main_pass(controller, 100)
    assert [share.gpus for share in entry(controller, "1").shares or ()] == [4.0, 2.0]
    assert len(nodes_of(controller, "2")) == 2


def test_the_tightest_set_of_neighbours_is_taken() -> None:
    """Where n1 is full, n0 alone is a smaller set than n2 and n3."""
    there = job(1, 4, required_nodes=("n1",))
    controller = controller_of(site_of(4), there, job(2, 1))
    main_pass(controller, 100)
    assert nodes_of(controller, "2") == ["n0"]


@pytest.mark.parametrize(
    ("partition", "limits", "reason"),
    [
        ({"allow_accounts": frozenset({"vision"})}, {}, "AccountNotAllowed"),
        ({"deny_accounts": frozenset({"NLP"})}, {}, "AccountNotAllowed"),
        ({"allow_qos": frozenset({"high"})}, {}, "QOSNotAllowed"),
        ({"deny_qos": frozenset({"normal"})}, {}, "QOSNotAllowed"),
        ({"allow_qos": frozenset({"Normal"}), "deny_qos": frozenset({"normal"})}, {}, ""),
        ({"min_nodes": 2}, {}, "PartitionNodeLimit"),
        ({}, {"per_job": {"gres/gpu": 1.0}}, "QOSMaxGRESPerJob"),
        ({}, {"per_node": {"cpu": 0.5}}, "QOSMaxCPUPerNode"),
        ({}, {"least": {"gres/gpu": 4.0}}, "QOSMinGRES"),
        ({}, {"max_seconds": 9 * MINUTE}, "QOSMaxWallDurationPerJobLimit"),
        ({}, {"max_seconds": 10 * MINUTE, "per_job": {"gres/gpu": 2.0}}, ""),
    ],
)
def test_a_job_that_a_rule_on_single_jobs_keeps_out_never_starts(
    partition: dict[str, Any], limits: dict[str, Any], reason: str
) -> None:
    """slurm.conf(5), ``AllowAccounts``, ``AllowQos``, ``MinNodes``; sacctmgr(1), limits of a job."""
    site = site_of(
        1,
        partitions=(Partition("all", ("n0",), **partition), Partition("own", ("n0",))),
        qos=(Qos("normal", limits=Limits(**limits)), Qos("free")),
    )
    whose: dict[str, Any] = {"account": "nlp", "qos": "normal", "user": "u1"}
    controller = controller_of(site, job(1, 2, **whose), job(2, 1, user="u2", qos="high"))
    main_pass(controller, 100)
    assert said(controller, "1") == reason
    assert ("1" in started(controller)) == (not reason)
    if partition and reason:  # of several partitions, one that lets it in serves it
        both = controller_of(site, job(1, 2, partitions=("all", "own"), **whose))
        main_pass(both, 100)
        assert entry(both, "1").partition == "own"


def test_a_job_of_a_trace_was_accepted_when_it_came() -> None:
    site = site_of(1, qos=(Qos("normal", limits=Limits(max_seconds=60.0)),))
    controller = controller_of(site)
    one = entry_of(0, job(1, 2, qos="normal"), controller.rules, 0.0)
    controller.enter(one, accepted=True)
    main_pass(controller, 100)
    assert started(controller) == ["1"]


def test_jobs_that_ended_since_priorities_were_worked_out_count_the_next_time() -> None:
    """Multifactor Priority Plugin: usage is added when a job ends, and at each ``PriorityCalcPeriod``."""
    users = tuple(Association("lab", user, parent="lab") for user in ("u", "v"))
    keys = {
        "PriorityType": "priority/multifactor",
        "PriorityWeightFairshare": "1000",
        "PriorityCalcPeriod": "1",
    }
    site = site_of(1, associations=(Association("lab", parent="root"), *users), keys=keys)
    whose: dict[str, Any] = {"account": "lab", "state": "COMPLETED"}
    ended = (
        job(1, user="u", start=0.0, end=50.0, held={"cpu": 1.0}, **whose),
        job(2, user="v", start=100.0, end=190.0, held={"cpu": 1.0}, **whose),
    )
    past = past_of(site, Snapshot(200.0, ended))
    assert past.calculated == 170.0
    controller = controller_of(site, now=200.0)
    controller.begin(past)
    before = controller.priorities.fair.usage["lab", "v"]
    assert before == pytest.approx(90.0, rel=0.01), "20 s of it after 170 s"
    assert controller.priorities.factors["lab", "u"] > 0.0
    controller.now = 231.0
    controller.recalculate()
    assert controller.priorities.fair.usage["lab", "v"] == pytest.approx(before, rel=0.01)
