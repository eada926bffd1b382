"""What Slurm's scheduler as a policy costs, beside `easy` on the same jobs: python benchmarks/slurm.py [JOBS]

CPU seconds of the simulation of a generated month: 504 GPUs on 63 nodes, load 0.9, with limits that users
over-ask. ``slurm`` has one partition, first come; ``slurm, a site`` has multifactor priorities with fair
shares and limits by user. The goal for 50,000 jobs is 60 s.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from measure import peak_megabytes, warm_up

from volvelle.core.composition import WrittenComposition
from volvelle.model.cluster import parse_cluster
from volvelle.simulate.run import Setting, simulate
from volvelle.workload.generators import make_generator
from volvelle.workload.workload import Workload

NODES, GPUS_PER_NODE, LOAD = 63, 8, 0.9
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


def main() -> None:
    """Print a line for each policy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("jobs", nargs="?", type=int, default=50_000)
    parser.add_argument("--generate", default="demo", help="the jobs' generator")
    asked = parser.parse_args()
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
                f"{1e6 * run.cpu_seconds / run.events:8.1f} us/event {peak_megabytes():6.0f} MB peak, "
                f"mean completion {np.nanmean(run.outcomes.jct) / 3600.0:.2f} h",
                flush=True,
            )


if __name__ == "__main__":
    main()
