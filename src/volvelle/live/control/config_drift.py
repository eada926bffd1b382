"""Configuration drift: where a configuration differs from the journal in the store, and what that means.

Policy and admission change with the next start. Changing another part of the scheduler under running jobs is
an error. Everything else that the journal fixed stays as it is, with a warning.
"""

from collections.abc import Iterable, Iterator

import msgspec

from volvelle.core.journal import Header
from volvelle.live.control.composition_checks import CHANGEABLE
from volvelle.live.control.state import ControllerState
from volvelle.model.cluster import NodeState, Pool
from volvelle.model.node import Node
from volvelle.model.overheads import Overheads
from volvelle.model.problems import Problem

_FIXED_PARTS = ("placement", "estimator", "termination")
_HINT = "begin a new store to change it"


def config_drift(state: ControllerState, configured: Header, where: str) -> tuple[str, ...]:
    """A warning for each key that differs; none for a new store. ``where``: the store's URL.

    Raises `Problem` if something differs that cannot change under running jobs.
    """
    stored = state.header
    _check_fixed_parts(state, configured, where)
    return (
        *_changed_parts(state, configured),
        *_overheads(stored, configured, where),
        *_fixed("seed", stored.seed, configured.seed, where),
        *_profiling(stored, configured, where),
        *_pools(stored, configured, where),
        *_fixed("levels", _levels(stored), _levels(configured), where),
        *_nodes(state, configured, where),
    )


def _check_fixed_parts(state: ControllerState, configured: Header, where: str) -> None:
    was, wanted = state.scheduler.composition.written, configured.composition.build().written
    for part in _FIXED_PARTS:
        began = getattr(state.header.composition, part), getattr(configured.composition, part)
        if getattr(was, part) != getattr(wanted, part) and began[0] != began[1]:
            raise Problem(
                f"the jobs in {where} were placed and predicted under {part} {getattr(was, part)!r}, "
                f"not {getattr(wanted, part)!r}",
                mend=f"write {part} = {getattr(was, part)!r}, or begin a new store",
            )


def _changed_parts(state: ControllerState, configured: Header) -> Iterator[str]:
    was, wanted = state.scheduler.composition.written, configured.composition.build().written
    for part in CHANGEABLE:
        before, after = getattr(was, part), getattr(wanted, part)
        if before != after:
            yield f"{part}: {before} until now, {after} from now on, as the configuration says"


def _overheads(stored: Header, configured: Header, where: str) -> Iterator[str]:
    was, wanted = (
        Overheads.model_validate(each.overheads).model_dump() for each in (stored, configured)
    )
    for key, value in was.items():
        yield from _fixed(f"overheads.{key}", value, wanted[key], where)


def _profiling(stored: Header, configured: Header, where: str) -> Iterator[str]:
    was, wanted = (
        None
        if each.whole is None or each.whole.profiling is None
        else msgspec.structs.asdict(each.whole.profiling) | {"on": _names(each.whole.partition)}
        for each in (stored, configured)
    )
    if was is None or wanted is None:
        yield from _fixed("profiling", was, wanted, where)
        return
    for key, value in was.items():
        yield from _fixed(f"profiling.{key}", value, wanted[key], where)


def _names(nodes: Iterable[Node]) -> str:
    return ", ".join(node.name for node in nodes)


def _pools(stored: Header, configured: Header, where: str) -> Iterator[str]:
    was, wanted = (
        {pool.name: _said(pool) for pool in each.cluster.pools} for each in (stored, configured)
    )
    yield from _fixed("pools", was, wanted, where)


def _levels(header: Header) -> dict[str, float]:
    return {level.name: level.weight for level in header.cluster.levels}


def _said(pool: Pool) -> str:
    weight = "" if pool.weight is None else f" weight {pool.weight:g}"
    return f"{pool.quota:g}{' lent' * pool.lends}{weight}"


def _fixed(key: str, stored: object, configured: object, where: str) -> Iterator[str]:
    if stored != configured:
        was = "nothing" if stored is None else stored
        wanted = "nothing" if configured is None else configured
        yield (
            f"{key}: {where} has {was}, the configuration {wanted}; {was} goes on to hold, {_HINT}"
        )


def _nodes(state: ControllerState, configured: Header, where: str) -> Iterator[str]:
    resources = state.scheduler.resources
    wanted = {node.name: node for node in configured.cluster.nodes}
    for node, node_state in zip(resources.nodes, resources.node_states, strict=True):
        if node.name in wanted:
            yield from _changed_node(node, wanted[node.name], where)
        elif state.next_seq and node_state is not NodeState.DOWN:
            yield (
                f"node {node.name} is not in the configuration any more: it takes no new jobs, "
                "and what runs there runs to its end"
            )


def _changed_node(stored: Node, configured: Node, where: str) -> Iterator[str]:
    was, wanted = msgspec.structs.asdict(stored), msgspec.structs.asdict(configured)
    for key, value in was.items():
        if value != wanted[key]:
            what = "it takes no jobs" if key == "gpus" else f"{value!r} goes on to hold"
            yield (
                f"node {stored.name}: {where} has {key} = {value!r}, the configuration "
                f"{wanted[key]!r}; {what}, give the node another name to change it"
            )
