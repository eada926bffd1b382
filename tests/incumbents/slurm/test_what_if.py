"""What a change of the site would bring to those who wait, by queue and by user."""

from pathlib import Path

import pytest

from volvelle.incumbents.attach.effects import Effect, Present, effects
from volvelle.incumbents.attach.follow import Attached, Follower
from volvelle.incumbents.attach.session import at_the_end
from volvelle.incumbents.slurm.attach import incumbent
from volvelle.incumbents.slurm.site import Association, Config, Limits, Node, Partition, Qos, Site
from volvelle.incumbents.slurm.snapshot import Job, Snapshot
from volvelle.model.problems import Problem

RECORDED = Path(__file__).parents[3] / "examples" / "slurm-recording"


@pytest.fixture(scope="module")
def follower() -> Attached:
    """A recorded cluster of two nodes, with 57 jobs that wait."""
    return at_the_end(RECORDED)


def of_all(found: list[Effect]) -> Effect:
    return next(one for one in found if one.kind == "all")


def test_another_node_helps_and_one_less_harms(follower: Attached) -> None:
    found = effects(Present.of(follower), ["NodeName=n9 Like=n1"])
    assert [one.kind for one in found] == ["all", "queue", "user", "user", "user"]
    more = of_all(found)
    assert (more.jobs, more.never) == (57, 0)
    assert more.most < 0.0
    assert more.least <= more.after - more.before <= more.most
    less = of_all(effects(Present.of(follower), ["NodeName=n2 State=DOWN"]))
    assert 0 < less.never < 57, "jobs of both nodes do not start any more"


def test_a_reservation_keeps_jobs_away(follower: Attached) -> None:
    held = (
        "ReservationName=upgrade StartTime=2020-01-01T00:00:00 EndTime=2035-01-01T00:00:00 Nodes=n2"
    )
    assert of_all(effects(Present.of(follower), [held])).least > 0.0


def capped() -> Attached:
    """Four jobs of a GPU wait on a node of four, of which limits leave one."""
    gpu = {"gres/gpu": 1.0}
    site = Site(
        "lab",
        config=Config({"PriorityType": "priority/basic", "AccountingStorageType": "x/slurmdbd"}),
        nodes=(Node("n1", 16.0, 64_000.0, {"": 4}, partitions=("all",)),),
        partitions=(Partition("all", ("n1",), default=True),),
        qos=(Qos("normal", limits=Limits(per_user=gpu)),),
        associations=(
            Association("vision", parent="root", limits=Limits(group={"gres/gpu": 2.0})),
            Association("vision", "ada", parent="vision"),
        ),
    )
    jobs = (
        Job(
            key=str(at), id=at, submit=1000.0, user="ada", account="vision", qos="normal",
            partitions=("all",), limit_seconds=3600.0, asked={"cpu": 1.0, "node": 1.0} | gpu, per_node=gpu,
        )
        for at in range(1, 5)
    )  # fmt: skip
    found = Follower(site, incumbent())
    found.observe(Snapshot(1000.0, tuple(jobs)))
    return found


def test_limits_are_raised_and_taken_away_as_sacctmgr_writes_it() -> None:
    follower = capped()
    raised = of_all(effects(Present.of(follower), ["QOS=normal MaxTRESPU=gres/gpu=4"]))
    assert raised.after < raised.before, "two at once, by the account's limit"
    both = of_all(
        effects(
            Present.of(follower),
            ["QOS=normal MaxTRESPU=gres/gpu=-1", "Account=vision GrpTRES=gres/gpu=-1"],
        )
    )
    assert both.after < 60.0, "all at once"
    shorter = of_all(effects(Present.of(follower), ["PartitionName=all MaxTime=2:00:00"]))
    assert shorter.after == shorter.before
    assert follower.site.qos[0].limits.per_user == {"gres/gpu": 1.0}


def test_another_setting_decides_otherwise(follower: Attached) -> None:
    builtin = effects(Present.of(follower), ["SchedulerType=sched/builtin"])
    assert of_all(builtin).after > of_all(builtin).before, "without backfill jobs wait longer"
    sizes = "PriorityType=priority/multifactor PriorityWeightJobSize=100000"
    small = effects(Present.of(follower), [f"{sizes} PriorityFavorSmall=YES"])
    large = effects(Present.of(follower), [sizes])
    assert of_all(small).after < of_all(small).before < of_all(large).after


def test_what_is_no_change_is_said(follower: Attached) -> None:
    for written, said in {
        "PriorityTyp=x": "did you mean 'PriorityType'?",
        "Quality=normal": "names nothing that can be changed",
        "policy=easy": "asks for another scheduler",
        "--policy easy": "ompare a month of jobs",
        "SchedulerType=sched/easy": "rite sched/backfill or sched/builtin",
        "PriorityType=easy": "'easy' is no PriorityType of Slurm",
        "PartitionName=al MaxTime=1:00": "did you mean 'all'?",
        "PartitionName=all MaxTim=1:00": "MaxTim is no field that is modelled",
        "PartitionName=all": "nothing changes",
        "NodeName=n7 State=DOWN": "there is no node n7",
        "NodeName=n7 Like=m1": "there is no node m1",
        "NodeName=n7 Lik=n1": "Lik is no field of a node that can change (did you mean 'Like'?)",
        "ReservationName=x Nodes=n1": "is no reservation",
    }.items():
        with pytest.raises(Problem) as caught:
            effects(Present.of(follower), [written])
        assert said in str(caught.value), written
