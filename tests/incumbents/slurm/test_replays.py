"""A trace under a site's rules: what passes leave out changes no decision."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from volvelle.core.composition import WrittenComposition
from volvelle.core.decision import encode_array
from volvelle.incumbents.slurm import passes, planning
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.problems import Problem
from volvelle.simulate.run import Setting, simulate
from volvelle.workload.generators import make_generator
from volvelle.workload.workload import Workload

CONFIGURATION = """ClusterName=lab
SchedulerParameters=bf_max_job_test=40,bf_max_job_user=9
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityWeightQOS=3000
PreemptType=preempt/qos
PreemptMode=REQUEUE
SelectTypeParameters=CR_CPU_MEMORY
NodeName=node-[0-3] CPUs=64 RealMemory=512000 Gres=gpu:8
PartitionName=all Nodes=ALL Default=YES
PartitionName=some Nodes=node-[0-1] PriorityTier=2
"""
QOS = """Name|Priority|Preempt|PreemptMode|GrpTRES|MaxTRESPU|MaxJobsPU
low|0||requeue||gres/gpu=12|
normal|10||cluster|gres/gpu=24||6
high|100|low|cluster|||
"""


def journal(folder: Path, workload: Workload) -> list[bytes]:
    composition = WrittenComposition(f"slurm:site={folder}", placement="consolidated")
    setting = Setting(cluster=parse_cluster("4x8"), composition=composition)
    run = simulate(workload, setting, journal=True)
    assert run.journal is not None
    return [msgspec.json.encode(entry, enc_hook=encode_array) for entry in run.journal.entries]


def test_a_backfill_pass_that_ends_early_starts_what_a_whole_one_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slurm.conf").write_text(CONFIGURATION)
    (tmp_path / "qos.txt").write_text(QOS)
    rng = np.random.default_rng(5)
    made = make_generator("demo", {"jobs": 60, "gpus": 32, "load": 3.0}).generate(rng)
    jobs = []
    for job in made.jobs:
        queues = (("all",), ("some",), ("some", "all"))[int(rng.integers(3))]
        qos = str(rng.choice(["low", "normal", "high"]))
        jobs.append(Job(msgspec.structs.replace(job.spec, qos=qos, queues=queues), job.truth))
    workload = Workload(tuple(jobs))
    short = journal(tmp_path, workload)
    monkeypatch.setattr(passes, "last_that_fits", lambda ground, lines, *_: len(lines.rows) - 1)
    monkeypatch.setattr(passes, "next_start", planning.next_start.py_func)
    monkeypatch.setattr(planning, "_may_start", lambda *_: True)
    assert journal(tmp_path, workload) == short


REQUESTS = """JobIDRaw|JobID|ReqTRES|SubmitLine
11|10_0|cpu=1,gres/gpu=1|sbatch --array=0-2%1 sweep.sh
12|10_1|cpu=1,gres/gpu=1|sbatch --array=0-2%1 sweep.sh
12.batch|10_1.batch||
13|10_2|cpu=1,gres/gpu=1|sbatch --array=0-2%1 sweep.sh
21|21|cpu=1,gres/gpu=1,license/sim=1|sbatch -L sim sim.sh
22|22|cpu=1,gres/gpu=1,license/sim=1,license/gone=1|sbatch sim.sh
"""


def test_throttles_and_licences_of_sacct_bind_in_a_replay(tmp_path: Path) -> None:
    """sacct(1), SubmitLine, ReqTRES; slurm.conf(5), AccountingStorageTRES, Licenses."""
    (tmp_path / "slurm.conf").write_text(CONFIGURATION + "DefMemPerCPU=1000\nLicenses=sim:1\n")
    requests = tmp_path.with_suffix(".txt")
    requests.write_text(REQUESTS)
    specs = [JobSpec(id=one, submit_time=0.0) for one in ("11", "12", "13", "21", "22", "31")]
    workload = Workload(tuple(Job(spec, Truth(work=100.0)) for spec in specs))

    def starts(policy: str) -> Any:
        composition = WrittenComposition(policy, placement="consolidated")
        run = simulate(workload, Setting(cluster=parse_cluster("4x8"), composition=composition))
        started: list[float] = run.outcomes.first_start.tolist()
        return started

    assert starts(f"slurm:site={tmp_path}") == [0.0] * 6
    found = starts(f"slurm:site={tmp_path},jobs={requests}")
    assert found[0] + 100.0 <= found[1]
    assert found[1] + 100.0 <= found[2]
    assert found[3] + 100.0 <= found[4] < 200.0, "licences that the site does not have are left out"
    assert found[5] == 0.0
    with pytest.raises(Problem, match=r"gone.txt cannot be read"):
        starts(f"slurm:site={tmp_path},jobs=gone.txt")
    with pytest.raises(Problem, match="has no job of Slurm's accounting"):
        starts(f"slurm:site={tmp_path},jobs={tmp_path / 'slurm.conf'}")


DATED = """JobIDRaw|JobID|Submit|Eligible|Reservation|ReqTRES|SubmitLine
1|1|2026-11-02T08:00:00|2026-11-02T08:00:00||gres/gpu=1|sbatch a.sh
2|2|2026-11-02T08:00:00|2026-11-02T08:00:10|course|gres/gpu=1|sbatch a.sh
3|3|2026-11-02T08:01:00|2026-11-02T08:01:00|forgotten|gres/gpu=1|sbatch a.sh
4|4|2026-11-02T08:02:00|2026-11-02T08:02:00||gres/gpu=1|sbatch a.sh
1|1|2026-11-02T09:00:00|2026-11-02T09:00:00||gres/gpu=1|sbatch a.sh
"""
KEPT = """Name|TimeStart|TimeEnd|NodeName
course|2026-11-02T07:00:00|2026-11-02T07:30:00|node-[0-3]
course|2026-11-02T08:30:00|2026-11-02T08:40:00|node-[0-3]
upgrade|2026-11-02T09:00:00|2026-11-02T10:00:00|node-[0-3]
"""


def test_reservations_of_the_time_are_kept_in_a_replay(tmp_path: Path) -> None:
    """sacct(1), Reservation; sacctmgr(1), show reservation: times are on the clock of Submit and Eligible."""
    (tmp_path / "slurm.conf").write_text(CONFIGURATION + "DefMemPerCPU=1000\n")
    asked, kept = tmp_path.with_suffix(".asked"), tmp_path.with_suffix(".kept")
    asked.write_text(DATED)
    kept.write_text(KEPT)
    limits = {"1": 60.0, "2": 300.0, "3": 1740.0, "4": 1681.0}
    comes = {"1": 0.0, "2": 10.0, "3": 60.0, "4": 120.0}
    specs = [
        JobSpec(id=one, submit_time=comes[one], estimate_seconds=limit)
        for one, limit in limits.items()
    ]
    workload = Workload(tuple(Job(spec, Truth(work=50.0)) for spec in specs))

    def starts(**more: Path) -> Any:
        named = "".join(f",{name}={path}" for name, path in more.items())
        composition = WrittenComposition(f"slurm:site={tmp_path}{named}", placement="consolidated")
        run = simulate(workload, Setting(cluster=parse_cluster("4x8"), composition=composition))
        return run.outcomes.first_start.tolist()

    assert starts(jobs=asked) == [0.0, 10.0, 60.0, 120.0]
    one, course, before, after = starts(jobs=asked, reservations=kept)
    assert (one, before) == (0.0, 60.0), "they end, by limit, when the course begins"
    assert 1800.0 <= course < 1860.0
    assert 7200.0 <= after < 7260.0, "it would run into the course, and then into the upgrade"
    with pytest.raises(Problem, match="jobs= lacks Submit"):
        starts(reservations=kept)
    with pytest.raises(Problem, match="has no reservation of Slurm's accounting"):
        starts(jobs=asked, reservations=asked)
