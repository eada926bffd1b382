"""The rules of a scheduling cycle, each in a cluster that is small enough to be worked out by hand."""

from typing import Any

import pytest

from volvelle.incumbents.kueue.amounts import amount, seconds
from volvelle.incumbents.kueue.api import by_key, read
from volvelle.incumbents.kueue.cycle import Configuration, Cycle, Entry
from volvelle.incumbents.kueue.quota import Ledger, share_of
from volvelle.incumbents.kueue.site import Site
from volvelle.model.problems import Problem

GPU = "nvidia.com/gpu"


def queue(name: str, cohort: str = "", quota: Any = 4, **spec: Any) -> dict[str, Any]:
    """A ClusterQueue; ``quota`` by flavour, or of the flavour ``a100``: a number, or with limits."""
    by_flavor = (
        quota if isinstance(quota, dict) and "nominalQuota" not in quota else {"a100": quota}
    )
    flavors = [
        {
            "name": flavor,
            "resources": [{"name": GPU} | (q if isinstance(q, dict) else {"nominalQuota": q})],
        }
        for flavor, q in by_flavor.items()
    ]
    group = {"coveredResources": [GPU], "flavors": flavors}
    spec = {"cohortName": cohort, "namespaceSelector": {}, "resourceGroups": [group]} | spec
    return {"metadata": {"name": name}, "spec": spec}


def workload(name: str, queue: str, gpus: int, held: str = "", **spec: Any) -> dict[str, Any]:
    """A workload of as many pods as GPUs; ``held``: the flavour on which it runs. Its name says its age."""
    pods = {"name": "main", "count": gpus} | spec.pop("pods", {})
    pods["template"] = {"spec": {"containers": [{"resources": {"requests": {GPU: 1}}}]}}
    created = f"2026-11-23T00:00:{int(name.strip('abcdefgh') or 0):02}Z"
    meta = {"name": name, "namespace": "ml", "creationTimestamp": created, "uid": name}
    status: dict[str, Any] = {}
    if held:
        usage = {"flavors": {GPU: held}, "resourceUsage": {GPU: gpus}, "count": gpus}
        condition = {"type": "QuotaReserved", "status": "True", "lastTransitionTime": created}
        status = {
            "admission": {"clusterQueue": queue, "podSetAssignments": [usage]},
            "conditions": [condition],
        }
    return {
        "metadata": meta,
        "spec": {"queueName": queue, "podSets": [pods]} | spec,
        "status": status,
    }


def site(
    queues: list[dict[str, Any]],
    workloads: list[dict[str, Any]] = [],  # noqa: B006 - never written to
    cohorts: list[dict[str, Any]] = [],  # noqa: B006
    **configuration: Any,
) -> Site:
    """A site with a local queue of its name for each queue, and the flavours ``a100`` and ``h100``."""
    local = [
        {
            "metadata": {"name": one["metadata"]["name"], "namespace": "ml"},
            "spec": {"clusterQueue": one["metadata"]["name"]},
        }
        for one in queues
    ]
    return Site(
        queues=by_key(read("ClusterQueue", one, "here") for one in queues),
        cohorts=by_key(read("Cohort", one, "here") for one in cohorts),
        local_queues=by_key(read("LocalQueue", one, "here") for one in local),
        flavors=by_key(
            read("ResourceFlavor", {"metadata": {"name": name}}, "here")
            for name in ("a100", "h100")
        ),
        workloads=tuple(read("Workload", one, "here") for one in workloads),
        configuration=Configuration(**configuration),
    )


def cycle(of: Site) -> dict[str, Entry]:
    """What becomes of the heads in one cycle, by name."""
    ledger = of.ledger()
    entries = Cycle(ledger, of.flavors, of.configuration).run(of.waiting(ledger).heads())
    return {one.workload.key.removeprefix("ml/"): one for one in entries}


def admitted(of: Site) -> list[str]:
    """The workloads that a cycle admits, in order."""
    return [name for name, one in cycle(of).items() if one.admitted]


def victims(of: Site, name: str) -> list[tuple[str, str]]:
    """The victims of a workload, with the reasons."""
    found = [(v.holder.key.removeprefix("ml/"), v.reason) for v in cycle(of)[name].victims]
    return sorted(found)


# ---------------------------------------------------------------------- quota


@pytest.mark.parametrize(
    ("resource", "written", "thousandths"),
    [
        ("cpu", "2500m", 2500),
        ("cpu", "0.1", 100),
        ("memory", "1Gi", 1024**3 * 1000),
        ("memory", "1e3", 1_000_000),
        (GPU, 8, 8000),
        (GPU, "1500m", 1500),
        ("cpu", "10k", 10_000_000),
    ],
)
def test_quantities_are_read(resource: str, written: str | int, thousandths: int) -> None:
    assert amount(resource, written) == thousandths


def test_what_is_lent_is_counted_in_the_cohort_and_what_is_kept_is_not() -> None:
    ledger = site(
        [
            queue("keeps", "c", {"nominalQuota": 6, "lendingLimit": 2}),
            queue("borrows", "c", {"nominalQuota": 1, "borrowingLimit": 5}),
        ]
    ).ledger()
    of, (keeps, borrows) = ("a100", GPU), ledger.queues.values()
    assert borrows.available(of) == 3000  # its own, and 2 that are lent
    assert keeps.available(of) == 7000
    keeps.add({of: 4000})  # all that it keeps
    assert borrows.available(of) == 3000
    keeps.add({of: 1000})
    assert borrows.available(of) == 2000
    keeps.add({of: 5000}, -1)
    assert keeps.usage[of] == borrows.root.usage[of] == 0


def test_a_borrowing_limit_holds_however_much_is_free() -> None:
    rich, poor = (
        queue("rich", "c", 10),
        queue("poor", "c", {"nominalQuota": 1, "borrowingLimit": 2}),
    )
    for gpus, served in ((3, ["1"]), (4, [])):
        assert admitted(site([rich, poor], [workload("1", "poor", gpus)])) == served


def test_cohorts_of_cohorts_lend_up_and_down() -> None:
    tree = [
        {"metadata": {"name": "left"}, "spec": {"parentName": "root"}},
        {"metadata": {"name": "right"}, "spec": {"parentName": "root"}},
    ]
    queues = [queue("a", "left", 2), queue("b", "right", 2)]
    there = site(queues, [workload("1", "a", 4)], tree)
    assert admitted(there) == ["1"]
    assert cycle(there)["1"].assignment.borrowing == 2  # the height of the root


def test_cohorts_in_a_circle_are_refused() -> None:
    circle = [
        {"metadata": {"name": "x"}, "spec": {"parentName": "y"}},
        {"metadata": {"name": "y"}, "spec": {"parentName": "x"}},
    ]
    with pytest.raises(Problem, match="cohort x is its own ancestor"):
        site([queue("a", "x")], cohorts=circle).ledger()


# ---------------------------------------------------------------------- order


def test_a_head_that_does_not_fit_stops_others_only_under_strict_fifo() -> None:
    jobs = [workload("1", "q", 9), workload("2", "q", 1)]
    for strategy, next_head in (("StrictFIFO", "ml/1"), ("BestEffortFIFO", "ml/2")):
        there = site([queue("q", queueingStrategy=strategy)], jobs)
        ledger = there.ledger()
        queues = there.waiting(ledger)
        (entry,) = Cycle(ledger, there.flavors).run(queues.heads())
        assert entry.reason == "ExceedsMaxQuota"
        queues.settle([entry])
        assert [one.key for one in queues.heads()] == [next_head]
        queues.freed("q")
        assert [one.key for one in queues.heads()] == ["ml/1"]


def test_those_within_quota_come_before_those_that_borrow() -> None:
    jobs = [workload("1", "a", 6, priority=9), workload("2", "b", 4)]
    there = site([queue("a", "c", 4), queue("b", "c", 4)], jobs)
    assert admitted(there) == ["2"]
    assert cycle(there)["1"].at_once


def test_a_held_queue_admits_nothing() -> None:
    there = site([queue("q", stopPolicy="Hold")], [workload("1", "q", 1)])
    assert cycle(there) == {}


def test_fewer_pods_are_admitted_where_all_do_not_fit() -> None:
    job = workload("1", "q", 8, pods={"minCount": 2})
    (one,) = cycle(site([queue("q")], [job])).values()
    assert one.admitted
    assert [pods.pods for pods in one.assignment.sets] == [4]
    assert not cycle(site([queue("q")], [job], partial=False))["1"].admitted


# ---------------------------------------------------------------------- flavours


def test_the_next_flavour_is_tried_before_preemption_or_as_the_queue_says() -> None:
    both = {"a100": 2, "h100": 2}
    low = workload("1", "q", 2, held="a100", priority=-1)
    for fungibility, flavor in (
        ({}, "h100"),
        ({"whenCanPreempt": "MayStopSearch"}, "a100"),
        ({"whenCanPreempt": "Preempt"}, "a100"),  # v1beta1's word
    ):
        spec: dict[str, Any] = {
            "flavorFungibility": fungibility,
            "preemption": {"withinClusterQueue": "LowerPriority"},
        }
        one = cycle(site([queue("q", quota=both, **spec)], [low, workload("2", "q", 2)]))["2"]
        assert one.assignment.sets[0].flavors[GPU].flavor == flavor
        assert one.preempting == (flavor == "a100")


# ---------------------------------------------------------------------- preemption


def test_in_its_own_queue_a_workload_preempts_the_lowest_and_latest() -> None:
    spec: dict[str, Any] = {"preemption": {"withinClusterQueue": "LowerPriority"}}
    held = [
        workload(str(n), "q", 1, held="a100", priority=p)
        for n, p in ((1, 1), (2, 0), (3, 0), (4, 5))
    ]
    there = site([queue("q", **spec)], [*held, workload("5", "q", 1, priority=5)])
    assert victims(there, "5") == [("3", "InClusterQueue")]


def test_quota_is_reclaimed_from_those_that_borrow_it() -> None:
    spec: dict[str, Any] = {"preemption": {"reclaimWithinCohort": "Any"}}
    queues = [queue("mine", "c", 4, **spec), queue("theirs", "c", 4)]
    held = [
        workload("1", "theirs", 4, held="a100"),
        workload("2", "theirs", 2, held="a100", priority=7),
    ]
    assert victims(site(queues, [*held, workload("3", "mine", 4)]), "3") == [
        ("1", "InCohortReclamation")
    ]
    lower: dict[str, Any] = {"preemption": {"reclaimWithinCohort": "LowerPriority"}}
    queues = [queue("mine", "c", 4, **lower), queue("theirs", "c", 4)]
    assert not victims(site(queues, [*held, workload("3", "mine", 4)]), "3")


@pytest.mark.parametrize(("threshold", "expected"), [(0, ["1"]), (-1, [])])
def test_below_a_threshold_others_are_preempted_to_borrow(
    threshold: int, expected: list[str]
) -> None:
    borrow = {"policy": "LowerPriority", "maxPriorityThreshold": threshold}
    spec: dict[str, Any] = {
        "preemption": {"reclaimWithinCohort": "LowerPriority", "borrowWithinCohort": borrow}
    }
    queues = [queue("mine", "c", 1, **spec), queue("theirs", "c", 1), queue("bank", "c", 2)]
    jobs = [workload("1", "theirs", 3, held="a100"), workload("2", "mine", 3, priority=5)]
    found = victims(site(queues, jobs), "2")
    assert found == [(name, "InCohortReclaimWhileBorrowing") for name in expected]


def test_two_heads_do_not_count_on_the_same_victim() -> None:
    spec: dict[str, Any] = {"preemption": {"reclaimWithinCohort": "Any"}}
    queues = [queue("a", "c", 2, **spec), queue("b", "c", 2, **spec), queue("z", "c", 0)]
    jobs = [workload(str(n), "z", 2, held="a100") for n in (1, 2)]
    jobs += [workload("3", "a", 2), workload("4", "b", 2)]
    found = cycle(site(queues, jobs))
    assert {v.holder.key for one in found.values() for v in one.victims} == {"ml/1", "ml/2"}
    found = cycle(site(queues, jobs, recompute=False))
    assert found["4"].skipped_preemption
    assert found["4"].reason == "WaitingForQuota"


# ---------------------------------------------------------------------- fair sharing


def test_a_share_is_what_is_borrowed_of_what_the_cohort_could_lend_by_weight() -> None:
    queues = [queue("a", "c", 2, fairSharing={"weight": 2}), queue("b", "c", 6)]
    ledger = site(queues, [workload("1", "a", 4, held="a100")]).ledger()
    share = share_of(ledger.queues["a"])
    assert (share.ratio, share.order) == (250.0, (False, 125.0))
    assert share_of(ledger.queues["b"]).order == (False, 0.0)
    free = [queue("a", "c", 2, fairSharing={"weight": 0}), queue("b", "c", 6)]
    ledger = site(free, [workload("1", "a", 4, held="a100")]).ledger()
    assert share_of(ledger.queues["a"]).order > (False, 1e9)


def test_the_queue_that_borrows_least_is_served_first_and_the_one_that_borrows_most_pays() -> None:
    spec: dict[str, Any] = {"preemption": {"reclaimWithinCohort": "Any"}}
    queues = [queue(name, "c", 0, **spec) for name in "ab"] + [queue("bank", "c", 6)]
    held = [workload(str(n), "a", 2, held="a100") for n in (1, 2)]
    jobs = [*held, workload("3", "a", 2), workload("4", "b", 2)]
    there = site(queues, jobs, fair=True)
    assert admitted(there) == ["4"]
    full = [*held, workload("5", "a", 2, held="a100"), workload("6", "b", 2)]
    assert victims(site(queues, full, fair=True), "6") == [("5", "InCohortFairSharing")]


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (
            {"apiVersion": "kueue.x-k8s.io/v9", "metadata": {"name": "q"}},
            "here: version 'v9' of Kueue's API is not known",
        ),
        (
            {"metadata": {"name": "q"}, "spec": {"resourceGroups": [{"flavors": [{}]}]}},
            "here: Object missing required field 'name' - at 'resourceGroups",
        ),
        ("text", "here is no object"),
    ],
)
def test_what_is_no_queue_is_said_in_a_sentence(document: Any, sentence: str) -> None:
    with pytest.raises(Problem, match=sentence.replace("(", r"\(")):
        read("ClusterQueue", document, "here")


def test_what_is_no_quantity_or_time_is_said_in_a_sentence() -> None:
    with pytest.raises(Problem, match="ClusterQueue q: 'much' is no quantity of nvidia"):
        Ledger([read("ClusterQueue", queue("q", quota="much"), "here")], [])
    with pytest.raises(Problem, match="'noon' is no time"):
        seconds("noon")


def test_only_heads_of_trees_in_which_something_changed_are_tried() -> None:
    there = site(
        [queue("a", "one"), queue("b", "one"), queue("c", "two"), queue("d")],
        [workload(f"{name}1", name, 8) for name in "abcd"],
    )
    queues = there.waiting(there.ledger())
    assert [one.queue for one in queues.heads()] == ["a", "b", "c", "d"]
    queues.rest()
    assert queues.heads() == []
    queues.freed("b")
    assert [one.queue for one in queues.heads()] == ["a", "b"]
    queues.enter(queues.left("d")[0])
    assert [one.queue for one in queues.heads()] == ["a", "b", "d"]
