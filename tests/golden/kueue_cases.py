"""Cases of Kueue's own scheduler tests: objects in, decision out (``../shared/golden/kueue``)."""

import gzip
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from volvelle.incumbents.kueue.amounts import Amounts, amount, seconds
from volvelle.incumbents.kueue.api import by_key, read
from volvelle.incumbents.kueue.cycle import Configuration, Cycle, Entry
from volvelle.incumbents.kueue.fair_sharing import STRATEGIES, fair_victims
from volvelle.incumbents.kueue.objects import Namespace
from volvelle.incumbents.kueue.preemption import Preemptor, Victim, classical_victims
from volvelle.incumbents.kueue.quota import Ledger
from volvelle.incumbents.kueue.site import Site
from volvelle.incumbents.kueue.workloads import Pending, holder, pending

Case = dict[str, Any]
FOLDER = Path(__file__).parents[3] / "shared" / "golden" / "kueue"
_SKIPPED_GATES = {"ConcurrentAdmission", "ElasticJobsViaWorkloadSlices"}
_DEPARTMENTS = {"eng": "eng", "sales": "sales", "lend": "lend"}
"""Labels ``dep`` of namespaces, which Kueue's tests set up and the cases do not repeat, by first word."""


def cases() -> list[Case]:
    """All cases, those of preemption first."""
    found: list[Case] = []
    for name in ("preemption", "schedule"):
        path = FOLDER / f"{name}.jsonl.gz"
        if path.exists():
            with gzip.open(path, "rt", encoding="utf-8") as file:
                found += [json.loads(line) for line in file]
    return found


def suite(case: Case) -> str:
    """The test of Kueue to which a case belongs."""
    return str(case["name"]).partition("/")[0]


def why_skipped(case: Case) -> str:
    """Why a case is left out; empty where it is not."""
    if case.get("admissionError"):
        return "its API server fails on purpose"
    gates = _SKIPPED_GATES & {name for name, on in (case.get("featureGates") or {}).items() if on}
    if gates:
        return f"{gates.pop()} is not modelled"
    if "LimitRange" in json.dumps(case.get("wantWorkloads")):
        return "it depends on a LimitRange, which the case does not repeat"
    return ""


def differences(case: Case) -> list[str]:
    """What we decide otherwise, in words."""
    return _preemption(case) if case["kind"] != "schedule" else _schedule(case)


def table() -> dict[str, Counter[str]]:
    """By suite, how many cases are equal, different and skipped."""
    found: dict[str, Counter[str]] = {}
    for case in cases():
        state = "skipped" if why_skipped(case) else "different" if differences(case) else "equal"
        found.setdefault(suite(case), Counter())[state] += 1
    return found


def _objects(case: Case, key: str, kind: str) -> list[Any]:
    return [read(kind, one, f"{key} of the case") for one in case.get(key) or []]


def _ledger(case: Case) -> Ledger:
    queues = _objects(case, "clusterQueues", "ClusterQueue")
    return Ledger(queues, _objects(case, "cohorts", "Cohort"))


# ---------------------------------------------------------------------- preemption


def _preemption(case: Case) -> list[str]:
    ledger, now = _ledger(case), seconds(case["now"])
    for one in _objects(case, "admitted", "Workload"):
        if (held := holder(one, {}, now)) is not None:
            ledger.add(held)
    workload = pending(read("Workload", case["incoming"], "incoming"), case["targetCQ"], {})
    by_name = {one.name: one.template.spec.requests for one in workload.pod_sets}
    usage: Amounts = {}
    needed = set()
    assigned = case.get("assignment") or [
        {
            "name": one.name,
            "count": one.count,
            "flavors": {
                name: {"flavor": case["flavorName"], "mode": 1} for name in by_name[one.name]
            },
        }
        for one in workload.pod_sets
    ]
    for one in assigned:
        for resource, choice in one["flavors"].items():
            of = choice["flavor"], resource
            requested = by_name[one["name"]].get(resource, 0) * one["count"]
            if requested:
                usage[of] = usage.get(of, 0) + requested
            if choice["mode"] == 1:
                needed.add(of)
    queue = ledger.queues[case["targetCQ"]]
    preemptor = Preemptor(queue, workload.priority, workload.queued, usage, frozenset(needed))
    if case["kind"] == "fair":
        victims = fair_victims(ledger, preemptor, tuple(case.get("strategies") or STRATEGIES))
    else:
        victims = classical_victims(ledger, preemptor)
    ours = sorted((_name(one), one.reason) for one in victims)
    theirs = sorted((one["name"], one["reason"]) for one in case.get("targets") or [])
    return [f"victims {ours} instead of {theirs}"] if ours != theirs else []


def _name(victim: Victim) -> str:
    return victim.holder.key.rpartition("/")[2]


# ---------------------------------------------------------------------- a cycle


def _schedule(case: Case) -> list[str]:
    site, now = _site(case), seconds(case["now"])
    ledger = site.ledger(now)
    queues = site.waiting(ledger)
    entries = Cycle(ledger, site.flavors, site.configuration).run(queues.heads())
    queues.settle(entries)
    found = _compare("holds", _assignments(case), _admitted(entries, site))
    found += _compare("left", _names(case["wantLeft"]), _keys(queues.left, site))
    found += _compare("aside", _names(case["wantInadmissibleLeft"]), _keys(queues.aside, site))
    found += _compare("victims", _evicted(case), _victims(entries))
    found += _compare("reasons", _reasons(case), _said(entries))
    skipped = Counter(one.workload.queue for one in entries if one.skipped_preemption)
    theirs = {name: n for name, n in (case["wantSkippedPreemptions"] or {}).items() if n}
    return found + _compare("skipped", theirs, dict(skipped))


def _site(case: Case) -> Site:
    gates = case.get("featureGates") or {}
    local = _objects(case, "localQueues", "LocalQueue")
    workloads = _objects(case, "workloads", "Workload")
    spaces = {one.namespace for one in (*local, *workloads)}
    labels = {name: _DEPARTMENTS.get(name.partition("-")[0], "") for name in spaces}
    return Site(
        queues=by_key(_objects(case, "clusterQueues", "ClusterQueue")),
        cohorts=by_key(_objects(case, "cohorts", "Cohort")),
        local_queues=by_key(local),
        flavors=by_key(_objects(case, "flavors", "ResourceFlavor")),
        namespaces={
            name: Namespace(name=name, labels={"dep": dep} if dep else {})
            for name, dep in labels.items()
        },
        workloads=tuple(workloads),
        configuration=Configuration(
            fair=bool(case["fairSharing"]),
            partial=gates.get("PartialAdmission", True),
            recompute=gates.get("RecomputeAssignmentUponPreemptionTargetsOverlap", True),
        ),
    )


def _compare(what: str, theirs: object, ours: object) -> list[str]:
    return [f"{what}: {ours} instead of {theirs}"] if ours != theirs else []


def _assignments(case: Case) -> dict[str, Any]:
    """The flavours, usage and pods of the workloads that hold quota after the cycle, by pod set."""
    return {
        key: (
            one["clusterQueue"],
            [
                (
                    pods["name"],
                    pods["count"],
                    {
                        name: (flavor, amount(name, pods["resourceUsage"].get(name, 0)))
                        for name, flavor in pods.get("flavors", {}).items()
                    },
                )
                for pods in one["podSetAssignments"]
            ],
        )
        for key, one in (case["wantAssignments"] or {}).items()
    }


def _admitted(entries: list[Entry], site: Site) -> dict[str, Any]:
    before = {
        one.key: to_builtins(one.admission) for one in site.workloads if one.admission is not None
    }
    found = _assignments({"wantAssignments": before})
    for entry in entries:
        if entry.admitted:
            found[entry.workload.key] = (
                entry.workload.queue,
                [
                    (
                        one.pod_set.name,
                        one.pods,
                        {
                            name: (choice.flavor, one.requests[name])
                            for name, choice in one.flavors.items()
                        },
                    )
                    for one in entry.assignment.sets
                ],
            )
    return found


def _names(by_queue: dict[str, list[str]] | None) -> dict[str, list[str]]:
    return {name: sorted(keys) for name, keys in (by_queue or {}).items() if keys}


def _keys(of: Callable[[str], list[Pending]], site: Site) -> dict[str, list[str]]:
    return _names({name: [one.key for one in of(name)] for name in site.queues})


def _condition(workload: Case, kind: str, status: str) -> str:
    conditions = workload["status"].get("conditions") or []
    found = [one["reason"] for one in conditions if (one["type"], one["status"]) == (kind, status)]
    return found[0] if found else ""


def _key(workload: Case) -> str:
    return f"{workload['metadata'].get('namespace', '')}/{workload['metadata']['name']}"


def _evicted(case: Case) -> dict[str, str]:
    before = {_key(one): _condition(one, "Preempted", "True") for one in case["workloads"]}
    after = {_key(one): _condition(one, "Preempted", "True") for one in case["wantWorkloads"]}
    return {key: one for key, one in after.items() if one and not before.get(key)}


def _victims(entries: list[Entry]) -> dict[str, str]:
    preempting = [one for one in entries if one.preempting]
    return {victim.holder.key: victim.reason for one in preempting for victim in one.victims}


def _reasons(case: Case) -> dict[str, str]:
    found = {_key(one): _condition(one, "QuotaReserved", "False") for one in case["wantWorkloads"]}
    return {key: reason for key, reason in found.items() if reason}


def _said(entries: list[Entry]) -> dict[str, str]:
    return {one.workload.key: one.reason for one in entries if not one.admitted}
