"""The parts of a site that the policy does not model, each with the jobs that it touches (decision 72)."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from volvelle.incumbents.slurm.site import Association, Limits, Partition, Qos, Site
from volvelle.incumbents.slurm.snapshot import Job
from volvelle.incumbents.slurm.text import counted, moment, number, table, tres, whole

Touches = Callable[[Job], bool]


class Unmodelled(NamedTuple):
    """A part of the configuration or of jobs' requests: a sentence, and how many jobs it touches."""

    what: str
    jobs: int


def unmodelled(site: Site, jobs: Iterable[Job]) -> list[Unmodelled]:
    """The parts of a site that are not modelled, those that touch most of ``jobs`` first."""
    known = list(jobs)
    found = [Unmodelled(what, sum(map(touches, known))) for what, touches in _parts(site)]
    asked = [Unmodelled(what, sum(map(touches, known))) for what, touches in _REQUESTS.items()]
    return sorted([*found, *(one for one in asked if one.jobs)], key=lambda one: -one.jobs)


_REQUESTS: dict[str, Touches] = {
    "Jobs without GPUs are left out of a trace: the CPUs and memory that they hold are free": (
        lambda job: not job.gpus
    ),
    "Sets of contiguous nodes are not looked for": lambda job: job.contiguous,
    "Reservations are kept where a trace is simulated with slurm:jobs=FILE,reservations=FILE only": (
        lambda job: bool(job.reservation)
    ),
    "Tasks of arrays come at once where a trace is simulated; throttles (%N) of SubmitLine are heeded with"
    " slurm:jobs=FILE, those written in scripts are recorded nowhere": lambda job: (
        job.array is not None
    ),
    "Licences are counted where a trace is simulated with slurm:jobs=FILE only": (
        lambda job: bool(job.licences)
    ),
    "Features that jobs ask for (--constraint) are not heeded where a trace is simulated": (
        lambda job: bool(job.features)
    ),
    "GPUs that are divided (shard, mps) count as none": (
        lambda job: any(re.match(r"gres/(shard|mps)", name) for name in job.asked)
    ),
}
"""By sentence, the jobs that ask for it; not said where none does."""


def _parts(site: Site) -> Iterator[tuple[str, Touches]]:
    """The parts that are configured, by sentence, with the jobs that they touch."""
    config = site.config
    modes = sorted(config.words("PreemptMode") & {"GANG", "SUSPEND"})
    if modes and not config.text("PreemptType", "preempt/none").endswith("none"):
        yield f"PreemptMode {','.join(modes)} is refused: two jobs would share nodes", _any
    for flag in sorted(config.words("PriorityFlags") & _FLAGS):
        yield f"PriorityFlags {flag} is not heeded", _any
    if unread := ", ".join(sorted(config.scheduler_parameters.keys() - _PARAMETERS)):
        yield f"SchedulerParameters {unread}: not heeded", _none
    if config.text("PriorityWeightTRES"):
        yield "PriorityWeightTRES is not part of priorities", _any
    topology = config.text("TopologyPlugin", "topology/flat").rpartition("/")[2]
    if topology not in ("flat", "default", "none"):
        yield f"Switches are not modelled (TopologyPlugin {topology})", _several_nodes
    if config.text("JobSubmitPlugins"):
        yield "JobSubmitPlugins are not run: requests count as Slurm recorded them", _none
    for partition in site.partitions:
        if names := _of_partition(partition):
            yield f"Partition {partition.name}: {names} not heeded", _within(partition.name)
    for qos in site.qos:
        if names := ", ".join((*_of_limits(qos.limits), *_of_qos(qos))):
            yield f"QOS {qos.name}: {names} not heeded", _of_qos_called(qos.name)
    for one in site.associations:
        if names := ", ".join(_of_limits(one.limits)):
            yield f"Association {one.user or one.account}: {names} not heeded", _of(one)
    if several := [node.name for node in site.nodes if len(node.gpus) > 1]:
        yield f"Nodes with several GPU types ({several[0]}) count as of the first", _none
    down = [node.name for node in site.nodes if not node.usable]
    if down:
        yield (
            (
                f"{len(down)} nodes took no jobs at the import ({down[0]}); they count as up where a trace is"
                " simulated"
            ),
            _none,
        )


_PARAMETERS = frozenset(
    {
        "bf_interval",
        "bf_resolution",
        "bf_window",
        "bf_max_job_test",
        "bf_max_job_user",
        "bf_continue",
    }
    | {"bf_max_job_part", "bf_max_job_array_resv", "sched_interval", "default_queue_depth"}
    | {
        "preempt_reorder_count",
        "preempt_strict_order",
        "preempt_youngest_first",
        "assoc_limit_stop",
    }
)
"""``SchedulerParameters`` that `volvelle.incumbents.slurm.rules` reads, and one that always holds."""
_FLAGS = frozenset(
    {"NO_FAIR_TREE", "SMALL_RELATIVE_TO_TIME", "MAX_TRES", "ACCRUE_ALWAYS", "CALCULATE_RUNNING"}
    | {"INCR_ONLY", "DEPTH_OBLIVIOUS", "NO_NORMAL_ALL", "NO_NORMAL_QOS", "NO_NORMAL_PART"}
)


_THROTTLE = re.compile(r"(?:--array[= ]|\s-a\s*)\S*%(\d+)")


def _licences(asked: Mapping[str, float]) -> Mapping[str, float]:
    prefix = "license/"
    return {n.removeprefix(prefix): many for n, many in asked.items() if n.startswith(prefix)}


def _of_partition(one: Partition) -> str:
    limits = {
        "AllowGroups": one.allow_groups is not None,
        "MaxCPUsPerNode": one.max_cpus_per_node is not None,
        "GraceTime": one.grace_seconds > 0.0,
    }
    return ", ".join(name for name, there in limits.items() if there)


def _of_limits(limits: Limits) -> list[str]:
    there = {
        "GrpSubmit": limits.group_submit is not None,
        "GrpTRESMins": bool(limits.group_minutes),
        "GrpTRESRunMins": bool(limits.group_run_minutes),
    }
    return [name for name, limited in there.items() if limited]


def _of_qos(qos: Qos) -> list[str]:
    there = {"GraceTime": qos.grace_seconds > 0.0, "UsageFactor": qos.usage_factor != 1.0}
    return [name for name, given in there.items() if given] + sorted(
        flag for flag in qos.flags if flag.lower() not in _ENFORCED
    )


_ENFORCED = frozenset(("denyonlimit", "enforceusagethreshold", ""))
"""Flags of a QOS that change nothing for jobs that were accepted."""


def _any(job: Job) -> bool:
    return True


def _none(job: Job) -> bool:
    return False


def _several_nodes(job: Job) -> bool:
    return job.least_nodes > 1


def _within(partition: str) -> Touches:
    return lambda job: partition in job.partitions


def _of_qos_called(name: str) -> Touches:
    return lambda job: job.qos == name


def _of(one: Association) -> Touches:
    return lambda job: job.account == one.account and one.user in ("", job.user)


def jobs_of_sacct(text: str) -> Iterator[Job]:
    """The jobs of an answer of ``sacct -P``, as far as rules look at them; steps are left out.

    Licences are part of ``ReqTRES`` where AccountingStorageTRES has them. A throttle is in ``SubmitLine``,
    the command that submitted the job, and in no column of its own.
    """
    for row in table(text):
        key = row.get("JobIDRaw") or row.get("JobID", "")
        if not key[:1].isdigit() or "." in key:
            continue
        array, _, task = row.get("JobID", "").partition("_")
        throttle = _THROTTLE.search(row.get("SubmitLine", ""))
        asked = tres(row.get("ReqTRES") or row.get("AllocTRES"))
        nodes = whole(row.get("NNodes")) or int(asked.get("node", 1.0))
        yield Job(
            key=key,
            id=whole(key) or 0,
            array=whole(array) if task else None,
            task=whole(task) if task else None,
            throttle=int(throttle[1]) if throttle and task else None,
            submit=max(moment(row.get("Submit")) or 0.0, moment(row.get("Eligible")) or 0.0),
            user=row.get("User", ""),
            account=row.get("Account", ""),
            qos=row.get("QOS", ""),
            partitions=tuple(filter(None, row.get("Partition", "").split(","))),
            state=row.get("State", "").partition(" ")[0],
            least_nodes=nodes,
            cpus=number(row.get("ReqCPUS"), 1.0),
            asked=asked,
            licences=counted(row.get("Licenses")) or _licences(asked),
            features=row.get("Constraints", ""),
            reservation=row.get("Reservation", ""),
        )
