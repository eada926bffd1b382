"""What Slurm's scheduler as a policy costs, beside `easy` on the same jobs: python benchmarks/slurm.py [JOBS]

CPU seconds of the simulation of a generated month: 504 GPUs on 63 nodes, load 0.9, with limits that users
over-ask. ``slurm`` has one partition, first come; ``slurm, a site`` has multifactor priorities with fair
shares and limits by user. With ``--attach`` a poll of a cluster of 1,000 nodes with 20,000 waiting jobs and
the forecast of all of them. Each line has its limit.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from measure import peak_megabytes, warm_up

from volvelle.core.composition import WrittenComposition
from volvelle.incumbents.attach.session import Replay
from volvelle.incumbents.slurm.attach import incumbent
from volvelle.model.cluster import parse_cluster
from volvelle.simulate.run import Setting, simulate
from volvelle.workload.generators import make_generator
from volvelle.workload.workload import Workload

NODES, GPUS_PER_NODE, LOAD = 63, 8, 0.9
REPLAY_LIMIT, POLL_LIMIT = 60.0, 5.0
"""Seconds of CPU: for 50,000 jobs, and for a poll with its forecast."""
NOON = 1793534400.0
"""2026-11-01 12:00 UTC."""
CONFIGURATION = """ClusterName=lab
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=30,bf_window=2880,bf_max_job_test=500
PriorityType=priority/multifactor
PriorityDecayHalfLife=7-0
PriorityWeightAge=1000
PriorityWeightFairshare=10000
PriorityWeightJobSize=500
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_MEMORY
DefMemPerCPU=8000
AccountingStorageType=accounting_storage/slurmdbd
GresTypes=gpu
NodeName=node-[00-{last}] CPUs=64 RealMemory=512000 Gres=gpu:{gpus}
PartitionName=all Nodes=ALL MaxTime=30-00:00:00 Default=YES
"""


def site(folder: Path, workload: Workload) -> str:
    """The policy with a site of users who may hold a quarter of the GPUs each, written to a folder."""
    config, accounts = folder / "slurm.conf", folder / "assoc.txt"
    config.write_text(CONFIGURATION.format(last=NODES - 1, gpus=GPUS_PER_NODE))
    head = "Cluster|Account|User|Partition|ParentName|Share|Priority|GrpTRES|QOS|Def QOS"
    most = f"gres/gpu={NODES * GPUS_PER_NODE // 4}"
    belongs = sorted({(job.spec.pool, job.spec.user) for job in workload.jobs})
    rows = [f"lab|{account}|||root|1||||" for account in sorted({one for one, _ in belongs})]
    rows += [f"lab|{account}|{user}||{account}|1||{most}||" for account, user in belongs]
    accounts.write_text("\n".join([head, *rows]) + "\n")
    return f"slurm:site={folder}"


def attached() -> tuple[dict[str, str], dict[str, str]]:
    """What describes a cluster of 1,000 nodes, and a poll of it: 2,000 jobs run, 20,000 wait."""
    names = [f"n{at:04d}" for at in range(1000)]
    nodes = "".join(
        f"NodeName={name} CPUTot=64 Gres=gpu:8 RealMemory=512000 State=MIXED Partitions=all\n"
        for name in names
    )
    site = {"slurm.conf": CONFIGURATION.format(last="62", gpus=8), "node": nodes}
    site["partition"] = (
        "PartitionName=all AllowGroups=ALL Default=YES MaxTime=30-00:00:00 Nodes=n[0000-0999] State=UP\n"
    )
    rng = np.random.default_rng(0)
    jobs = []
    for number in range(22_000):
        runs, gpus = number < 2000, int(rng.choice([1, 2, 4, 8]) if number >= 2000 else 4)
        hours, user = int(rng.choice([1, 4, 12, 24, 48][3 * runs :])), int(rng.integers(0, 200))
        times = "StartTime=Unknown NodeList="
        if runs:
            begun = f"2026-11-01T{number % 12:02d}:{number % 60:02d}:00"
            times = f"StartTime={begun} NodeList={names[number // 2]}"
        asked = f"cpu={gpus * 4},mem={gpus * 8}G,node=1,gres/gpu={gpus}"
        jobs.append(
            f"JobId={number + 1} JobName=train{user % 7} UserId=u{user}({user}) Account=a{user % 10}"
            f" Priority={30_000 - number} JobState={'RUNNING' if runs else 'PENDING'}"
            f" Reason={'None' if runs else 'Priority'} Dependency=(null) TimeLimit={hours}:00:00"
            f" SubmitTime=2026-11-01T00:00:00 EligibleTime=2026-11-01T00:00:00 {times} Partition=all"
            f" NumNodes=1 NumCPUs={gpus * 4} NumTasks=1 CPUs/Task={gpus * 4} MinMemoryNode={gpus * 8}G"
            f" ReqTRES={asked} AllocTRES={asked} TresPerNode=gres/gpu:{gpus}\n"
        )
    return site, {"job": "".join(jobs), "node": nodes, "reservation": ""}


def tell(polls: int) -> None:
    """Print what a poll and the forecast of all its jobs cost, for each of some polls."""
    site, answers = attached()
    leads = Replay(incumbent())
    leads.feed({"t": 0.0, "site": site})
    for poll in range(polls):
        begun, now = time.process_time(), NOON + 60.0 * poll
        leads.feed({"t": now, "poll": answers})
        read = time.process_time()
        assert leads.follower is not None
        told = leads.follower.tell()
        print(
            f"poll {poll}: {read - begun:.2f} s CPU to read, {time.process_time() - read:.2f} s to tell"
            f" {len(told):,} jobs, {time.process_time() - begun:.2f} of at most {POLL_LIMIT:g} s,"
            f" {peak_megabytes():.0f} MB peak",
            flush=True,
        )


def main() -> None:
    """Print a line for each policy, or with --attach for each poll."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("jobs", nargs="?", type=int, default=50_000)
    parser.add_argument("--generate", default="demo", help="the jobs' generator")
    parser.add_argument(
        "--attach", type=int, metavar="POLLS", help="of 1,000 nodes, 20,000 waiting"
    )
    asked = parser.parse_args()
    if asked.attach:
        tell(asked.attach)
        return
    given = {"jobs": asked.jobs, "gpus": NODES * GPUS_PER_NODE, "load": LOAD}
    workload = make_generator(asked.generate, given).generate(np.random.default_rng(0))
    with tempfile.TemporaryDirectory() as folder:
        policies = {"easy": "easy", "slurm": "slurm", "slurm, a site": site(Path(folder), workload)}
        for name, policy in policies.items():
            composition = WrittenComposition(policy, placement="consolidated")
            cluster = parse_cluster(f"{NODES}x{GPUS_PER_NODE}")
            setting = Setting(cluster=cluster, composition=composition)
            if name == "slurm":  # a site is of its own nodes
                warm_up(workload, setting)
            run = simulate(workload, setting)
            print(
                f"{name:16} {asked.jobs:,} jobs {run.cpu_seconds:8.2f} s CPU "
                f"({REPLAY_LIMIT:g} s for 50,000) "
                f"{1e6 * run.cpu_seconds / run.events:8.1f} us/event {peak_megabytes():6.0f} MB peak, "
                f"mean completion {np.nanmean(run.outcomes.jct) / 3600.0:.2f} h",
                flush=True,
            )


if __name__ == "__main__":
    main()
