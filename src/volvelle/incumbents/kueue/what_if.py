"""A change of a site with Kueue, to ask what if.

It names an object, then fields of it::

    ClusterQueue=team-a nominalQuota=16 flavor=h100      Cohort=research lendingLimit=-1 flavor=h100
    ClusterQueue=team-a weight=2                         ResourceFlavor=h100 nodes=+2

Quotas are of GPUs where ``resource=`` names no other resource; ``flavor=`` may be left out where a queue has
one. -1 takes a limit away. Nodes that join a flavour, or leave it, scale all of its quotas alike: Kueue knows
quotas, not nodes.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

from msgspec.structs import replace as changed_struct

from volvelle.incumbents.kueue.amounts import Quantity, amount, is_gpu
from volvelle.incumbents.kueue.attached_jobs import AttachedSite, Snapshot
from volvelle.incumbents.kueue.objects import Quotas, ResourceQuota
from volvelle.incumbents.kueue.site import Site
from volvelle.model.problems import Problem, nearest

_LIMITS = {
    "nominalquota": "nominal_quota",
    "borrowinglimit": "borrowing_limit",
    "lendinglimit": "lending_limit",
}

QuotasT = TypeVar("QuotasT", bound=Quotas)
Change = Callable[[ResourceQuota], ResourceQuota]


def changed(
    site: AttachedSite, snapshot: Snapshot, changes: Sequence[str]
) -> tuple[AttachedSite, Snapshot]:
    """The site after changes. Raises `Problem` for one that is none."""
    for written in changes:
        site = replace(site, site=_changed(site.site, written))
    return site, snapshot


def examples(site: AttachedSite) -> Iterator[tuple[str, str]]:
    """A change of each kind, of what the site has."""
    queues, flavors = site.site.queues.values(), site.site.flavors.values()
    for one, flavor, quota in islice(_gpu_quotas(queues), 1):
        of = f"flavor={flavor} resource={quota.name}"
        more = amount(quota.name, quota.nominal_quota) / 1000.0 + 8.0
        yield "A queue's quota, 8 GPUs more", f"ClusterQueue={one.name} nominalQuota={more:g} {of}"
        yield "What a queue may borrow", f"ClusterQueue={one.name} borrowingLimit=0 {of}"
        yield "What a queue lends", f"ClusterQueue={one.name} lendingLimit=0 {of}"
        yield "A queue's weight", f"ClusterQueue={one.name} weight=2"
    for cohort, flavor, quota in islice(_gpu_quotas(site.site.cohorts.values()), 1):
        of = f"flavor={flavor} resource={quota.name}"
        yield "A cohort's quota", f"Cohort={cohort.name} nominalQuota=16 {of}"
    for name in islice((one.name for one in flavors if site.site.nodes_of(one)), 1):
        yield "A node more", f"ResourceFlavor={name} nodes=+1"
        yield "A node less", f"ResourceFlavor={name} nodes=-1"


def _gpu_quotas(owners: Iterable[QuotasT]) -> Iterator[tuple[QuotasT, str, ResourceQuota]]:
    """Quotas of GPUs of queues or cohorts, each with its flavour."""
    for owner in owners:
        for flavor, quota in _quotas(owner):
            if is_gpu(quota.name):
                yield owner, flavor, quota


def _quotas(owner: Quotas) -> Iterator[tuple[str, ResourceQuota]]:
    for group in owner.resource_groups:
        for flavor in group.flavors:
            for quota in flavor.resources:
                yield flavor.name, quota


def _changed(site: Site, written: str) -> Site:
    record = dict(re.findall(r"([\w.]+)=(\S+)", written))
    kind = next(iter(record), "")
    name = record.pop(kind, "")
    fields = {field.lower(): value for field, value in record.items()}
    if not fields:
        raise Problem(
            f"{written!r} changes nothing",
            mend="write ClusterQueue=team-a nominalQuota=16, or ResourceFlavor=h100 nodes=+2",
            usage=True,
        )
    match kind.lower():
        case "clusterqueue":
            return replace(site, queues=_with(site.queues, kind, name, fields, written))
        case "cohort":
            return replace(site, cohorts=_with(site.cohorts, kind, name, fields, written))
        case "resourceflavor":
            return _with_nodes(site, name, fields, written)
    raise Problem(
        f"{written!r} names nothing that can be changed",
        mend="begin with ClusterQueue=, Cohort= or ResourceFlavor=",
        usage=True,
    )


def _with(
    known: Mapping[str, QuotasT], kind: str, name: str, fields: dict[str, str], written: str
) -> dict[str, QuotasT]:
    """Queues or cohorts, one of them with other fields."""
    if name not in known:
        raise Problem(f"there is no {kind} {name!r}{nearest(name, known)}")
    one, flavor, resource = known[name], fields.pop("flavor", ""), fields.pop("resource", "")
    for field, value in fields.items():
        if field == "weight":
            _quantity("cpu", value, written)
            one = changed_struct(one, fair_sharing={"weight": value})
        elif field in _LIMITS:
            one = _with_limit(one, _LIMITS[field], value, (flavor, resource), written)
        else:
            known_fields = ("nominalQuota", "borrowingLimit", "lendingLimit", "weight")
            raise Problem(
                f"{written!r}: {field} is no field that is modelled{nearest(field, known_fields)}"
            )
    return {**known, name: one}


def _with_limit(one: QuotasT, field: str, value: str, of: tuple[str, str], written: str) -> QuotasT:
    """A queue or cohort whose quota has another amount."""
    flavor, resource = of
    there = [
        (name, quota.name)
        for name, quota in _quotas(one)
        if flavor in ("", name)
        and (quota.name == resource or (not resource and is_gpu(quota.name)))
    ]
    if len(there) != 1:
        said = ", ".join(f"{name} of {flavor}" for flavor, name in there) or "no such quota"
        raise Problem(
            f"{written!r}: {one.name} has {said}",
            mend="name one: flavor=h100 resource=nvidia.com/gpu",
        )
    new: Quantity | None = None if value == "-1" else value
    if new is None and field == "nominal_quota":
        new = 0
    if new is not None:
        _quantity(there[0][1], new, written)
    return _each_quota(
        one,
        lambda name, quota: name == there[0][0] and quota.name == there[0][1],
        lambda quota: changed_struct(quota, **{field: new}),
    )


def _with_nodes(site: Site, name: str, fields: Mapping[str, str], written: str) -> Site:
    """A site with more or fewer nodes of a flavour, and quotas to match; nodes join where the last one is."""
    if name not in site.flavors:
        raise Problem(f"there is no ResourceFlavor {name!r}{nearest(name, site.flavors)}")
    there = site.nodes_of(site.flavors[name])
    more = fields.get("nodes", "")
    if not re.fullmatch(r"[+-]?\d+", more) or len(fields) != 1:
        raise Problem(
            f"{written!r} is no change of nodes", mend="write nodes=+2, nodes=-1 or nodes=12"
        )
    if not there:
        raise Problem(
            f"no node of flavour {name} is known",
            mend="let the service account list nodes, or change nominalQuota",
        )
    after = max(len(there) + int(more), 0) if more[0] in "+-" else int(more)
    share = after / len(there)
    gone = {node.name for node in there[after:]}
    nodes = {key: node for key, node in site.nodes.items() if node.name not in gone}
    for at in range(len(there), after):
        nodes[f"{name}+{at}"] = changed_struct(there[-1], name=f"{name}+{at}")

    def scaled(quota: ResourceQuota) -> ResourceQuota:
        def times(one: Quantity | None) -> Quantity | None:
            return None if one is None else amount(quota.name, one) * share / 1000.0

        return ResourceQuota(
            quota.name,
            times(quota.nominal_quota) or 0,
            times(quota.borrowing_limit),
            times(quota.lending_limit),
        )

    def all_of(known: Mapping[str, QuotasT]) -> dict[str, QuotasT]:
        return {
            key: _each_quota(one, lambda flavor, _: flavor == name, scaled)
            for key, one in known.items()
        }

    return replace(site, nodes=nodes, queues=all_of(site.queues), cohorts=all_of(site.cohorts))


def _each_quota(
    one: QuotasT, which: Callable[[str, ResourceQuota], bool], change: Change
) -> QuotasT:
    """A queue or cohort with some of its quotas changed."""
    groups = [
        changed_struct(
            group,
            flavors=[
                changed_struct(
                    flavor,
                    resources=[
                        change(quota) if which(flavor.name, quota) else quota
                        for quota in flavor.resources
                    ],
                )
                for flavor in group.flavors
            ],
        )
        for group in one.resource_groups
    ]
    return changed_struct(one, resource_groups=groups)


def _quantity(resource: str, value: Any, written: str) -> None:
    try:
        amount(resource, value)
    except Problem as problem:
        raise Problem(f"{written!r}: {problem}", mend=problem.mend) from None
