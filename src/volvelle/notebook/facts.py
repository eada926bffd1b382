"""A report's account of how its runs were made."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from volvelle.model.cluster import Cluster
    from volvelle.simulate.run_directory import RunRecord


def workload_line(workload: dict[str, Any]) -> str:
    """Where the jobs come from and how many there are."""
    jobs = f"{(number := workload.get('jobs', 0)):,} job{'s' * (number != 1)}"
    if "generator" in workload:
        load = _load(workload)
        return f"generator {workload['generator']}, {jobs}{load}, seed {workload.get('seed')}"
    if "snapshot" in workload:
        return f"snapshot {workload['snapshot']}, {jobs}"
    rate = _load(workload) + f", seed {workload['seed']}" if "jobs_per_hour" in workload else ""
    return (
        f"{workload.get('trace')} ({workload.get('format')}), {workload.get('rows') or jobs}{rate}"
    )


def _load(workload: dict[str, Any]) -> str:
    """How much is submitted: the rate that was asked for, or the generator's load."""
    if "jobs_per_hour" in workload:
        return f", {workload['jobs_per_hour']} jobs/h"
    load = workload.get("parameters", {}).get("load")
    return f", load {load:g}" if load is not None else ""


def several(values: Iterable[float]) -> str:
    """Different values in a few words: ``1, 2, 3``, or of many the first and the last."""
    listed = [f"{value:g}" for value in dict.fromkeys(values)]
    return ", ".join(listed) if len(listed) <= 4 else f"{listed[0]} to {listed[-1]}"


def cluster_line(cluster: "Cluster") -> str:
    """The cluster in its short form."""
    short = str(cluster)
    kinds = short if len(short) <= 60 else f"{len(cluster.nodes):,} nodes"
    changes = ", whose nodes change" if cluster.nodes_change else ""
    profiling = cluster.profiling
    if profiling is None:
        return f"{cluster.gpus:,} GPUs ({kinds}){changes}"
    size = f"{profiling.nodes}"
    if profiling.most > profiling.nodes:
        size += f" to {profiling.most}"
    nodes = "node" if profiling.most == 1 else "nodes"
    return f"{cluster.gpus:,} GPUs ({kinds}), {size} {nodes} of it for profiling{changes}"


def facts_of(records: Iterable["RunRecord"]) -> dict[str, str]:
    """The values that all of ``records`` have in common, name by name; where they differ, all values."""
    facts: dict[str, dict[str, None]] = {}
    for record in records:
        for name, value in _facts(record).items():
            facts.setdefault(name, {})[value] = None
    return {name: "; ".join(values) for name, values in facts.items()}


def _facts(record: "RunRecord") -> dict[str, str]:
    composition = record.composition
    costs = ", ".join(f"{key} {value:g} s" for key, value in record.overheads.items() if value)
    facts = {
        "Jobs": workload_line(record.workload),
        "Cluster": cluster_line(record.cluster),
        "Policy": composition.policy if record.synthesis is None else str(record.synthesis),
        "Placement": composition.placement,
        "Admission": record.composition_parts["admission"],
        "Estimator": composition.estimator,
        "Termination": composition.termination,
        "Overheads": costs or "none",
        "Seed": str(record.seed),
    }
    if record.tracked is not None:
        facts["Measured"] = f"jobs {record.tracked[0]:,} to {record.tracked[1]:,}"
    if record.predict:
        facts["Predictions"] = (
            "at submission and every event" if record.refresh else "at submission"
        )
    if record.tick is not None:
        facts["Tick"] = f"{record.tick:g} s"
    if (power := record.power) is not None:
        watts = ", ".join(f"{name} {each:g} W" for name, each in power.busy.items())
        facts["Power"] = f"{watts}, idle {power.idle:g} W"
    if record.until is not None:
        facts["Until"] = f"{record.until:g} s"
    if record.status.value != "finished":
        facts["Status"] = record.status.value
    return facts
