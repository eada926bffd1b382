"""A site is read from what Slurm's commands said, and what is missing is said in a sentence."""

from pathlib import Path

import pytest
from slurm_runs import snapshots

from volvelle.incumbents.slurm.read_jobs import read_snapshot
from volvelle.incumbents.slurm.read_site import kind_of, read_site, texts_of
from volvelle.model.problems import Problem

CONF = """ClusterName=small
AccountingStorageType=accounting_storage/slurmdbd
SchedulerParameters=bf_interval=10,bf_continue
NodeName=DEFAULT CPUs=32 RealMemory=100000
NodeName=a[1-2] Gres=gpu:a100:4 Feature=big # fast
NodeName=b1 Sockets=2 CoresPerSocket=8 ThreadsPerCore=2
PartitionName=all Nodes=ALL Default=YES MaxTime=1-0 \\
  PriorityTier=3
"""
QOS = (
    "Name|Priority|Preempt|PreemptMode|MaxTRESPU|MaxWall\nhigh|10|low|requeue|gres/gpu=8|2:00:00\n"
)


def test_slurm_conf_alone_makes_a_site() -> None:
    site = read_site({"slurm.conf": CONF})
    assert [node.name for node in site.nodes] == ["a1", "a2", "b1"]
    assert site.nodes[0].gpus == {"a100": 4}
    assert site.nodes[0].cpus == site.nodes[2].cpus == 32
    [partition] = site.partitions
    assert partition.nodes == ("a1", "a2", "b1")
    assert (partition.tier, partition.max_seconds, partition.default) == (3, 86400.0, True)
    assert site.config.scheduler_number("bf_interval", 30) == 10
    assert any("No QOS was read" in one for one in site.remarks)
    assert any("No accounts were read" in one for one in site.remarks)


def test_qos_says_whom_it_preempts_and_what_it_limits() -> None:
    [high] = read_site({"slurm.conf": CONF, "qos": QOS}).qos
    assert high.preempts == {"low"}
    assert high.preempt_mode == "REQUEUE"
    assert high.limits.per_user == {"gres/gpu": 8.0}
    assert high.limits.max_seconds == 7200


def test_a_dump_of_accounts_is_read_as_the_table_is() -> None:
    dump = (
        "Cluster - 'small':Fairshare=1\nParent - 'root'\n"
        "Account - 'vision':Fairshare=50:GrpTRES=gres/gpu=8\n"
        "Parent - 'vision'\nUser - 'u1':DefaultAccount='vision':Fairshare=2\n"
    )
    account, user = read_site({"slurm.conf": CONF, "dump": dump}).associations
    assert (account.account, account.parent, account.shares) == ("vision", "root", 50.0)
    assert account.limits.group == {"gres/gpu": 8.0}
    assert (user.user, user.parent, user.shares) == ("u1", "vision", 2.0)


@pytest.mark.parametrize(
    ("added", "said"),
    [
        ("PrivateData=jobs,users\n", "PrivateData hides jobs, users"),
        ("AccountingStorageType=accounting_storage/none\n", "keeps no accounting"),
        ("SLURM_VERSION=20.11.9\n", "older than 22.05"),
    ],
)
def test_what_is_hidden_or_missing_is_said(added: str, said: str) -> None:
    assert any(said in one for one in read_site({"slurm.conf": CONF + added}).remarks)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "SchedulerTyp=sched/backfill",
            "'SchedulerTyp' is no parameter that is known here (did you mean",
        ),
        (
            "QuantumScheduling=yes",
            "'QuantumScheduling' is no parameter that is known here; it is not heeded",
        ),
        (
            "NodeName=b2 CPUs=4 Weigth=3",
            "'Weigth' is no parameter of a node that is known here (did",
        ),
        ("partitionname=x Nodes=b1 MaxTim=1-0", "'MaxTim' is no parameter of a partition"),
        ("include gpus.conf", "Include is not heeded, the file that it includes is not read"),
        ("NodeSet=fast Feature=fast", "NodeSet is not heeded"),
        (
            "SchedulerType sched/builtin",
            "'SchedulerType sched/builtin' is not heeded: a line is written",
        ),
    ],
)
def test_what_slurm_conf_says_and_nothing_reads_is_named_with_its_line(
    tmp_path: Path, line: str, said: str
) -> None:
    (tmp_path / "site.conf").write_text(f"{CONF}\n# a remark\n{line} # so\n")
    [remark] = [one for one in read_site(texts_of(tmp_path)).remarks if "heeded" in one]
    assert remark.startswith(f"site.conf, line 11: {said}")


def test_parameters_that_cannot_matter_and_those_of_any_case_need_no_remark() -> None:
    more = (
        'slurmctldport=6817\nMailProg=/bin/mail\nNodename=c1 cpus=4 reason="a b=c" MemSpecLimit=9\n'
    )
    read = read_site({"slurm.conf": f"{CONF}{more}PARTITIONNAME=fast nodes=c1 QOS=high\n"})
    assert not any("heeded" in one for one in read.remarks)
    assert (read.nodes[-1].cpus, read.nodes[-1].memory) == (4.0, 99_991.0)
    assert (read.partitions[-1].nodes, read.partitions[-1].qos) == (("c1",), "high")


def test_fields_that_a_newer_slurm_adds_are_named() -> None:
    partition = "PartitionName=all AllowGroups=ALL Nodes=a1 Exclusive=NODE MaxJoules=9\n"
    qos = QOS.replace("MaxWall", "MaxWall|MaxJoules").replace("2:00:00", "2:00:00|9")
    read = read_site({"slurm.conf": CONF, "partition": partition, "qos": qos})
    assert [one for one in read.remarks if "heeded" in one] == [
        "'scontrol -o show partition' says MaxJoules, which is not known here; it is not heeded.",
        "'sacctmgr -P show qos' says MaxJoules, which is not known here; it is not heeded.",
    ]
    assert read.partitions[0].exclusive


def test_a_partition_is_without_nodes_that_nothing_describes() -> None:
    read = read_site({"slurm.conf": f"{CONF}NodeName=c1 CPUs=4\nPartitionName=more Nodes=c[1-3]\n"})
    assert read.partitions[-1].nodes == ("c1",)
    assert "nothing else is said of 2 of its nodes (c2)" in read.remarks[0]


def test_without_nodes_there_is_no_site() -> None:
    with pytest.raises(Problem, match="which nodes the site has"):
        read_site({"slurm.conf": "ClusterName=x\n"})


def test_a_folder_without_slurm_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    with pytest.raises(Problem, match="describes a site of Slurm"):
        texts_of(tmp_path)


def test_an_answer_that_was_cut_is_said_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(CONF.rstrip())  # a person's file may end so
    (tmp_path / "qos.txt").write_text(QOS[:-3])
    assert read_site(texts_of(tmp_path)).remarks[0].startswith("Half an answer: qos.txt ended")
    (tmp_path / "qos.txt").write_text(QOS)
    assert not any("Half" in one for one in read_site(texts_of(tmp_path)).remarks)


def test_no_answer_for_jobs_is_said() -> None:
    assert any("no job is known" in one for one in read_snapshot({}, 0.0).remarks)


def test_recorded_runs_are_read_whole(shared: Path) -> None:
    agree = []
    for name in ("run1", "run3", "run5"):
        run = shared / "golden" / "slurm" / name
        texts = texts_of(run)
        assert {"config", "qos", "assoc", "slurm.conf", "sacct"} <= set(texts)
        from_conf = read_site(texts)
        assert not from_conf.remarks
        for record in snapshots(run):
            now = {"job": record["jobs"], "node": record["nodes"], "reservation": record["res"]}
            seen = read_snapshot(now, record["t"])
            assert len({job.key for job in seen.jobs}) == len(seen.jobs)
            on_nodes = sum(node.held.get("gres/gpu", 0.0) for node in seen.nodes)
            agree.append(on_nodes == sum(job.gpus for job in seen.jobs if job.running))
            if "part" in record:
                said = read_site(
                    texts | now | {"partition": record["part"], "assoc_mgr": record["assoc"]}
                )
                assert [p.nodes for p in said.partitions] == [p.nodes for p in from_conf.partitions]
                assert [p.max_seconds for p in said.partitions] == [
                    p.max_seconds for p in from_conf.partitions
                ]
                assert all(one.usage is not None for one in said.associations)
                assert kind_of(record["sshare"]) == "sshare"
    assert sum(agree) > 0.8 * len(agree)  # jobs and nodes are asked for one after the other
