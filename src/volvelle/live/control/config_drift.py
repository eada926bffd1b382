"""Where a configuration differs from what the journal in the store began with, and what becomes of that.

Policy and admission change with the next start. The other parts of the scheduler cannot under running jobs:
that is an error. All else that the journal fixed goes on to hold, and it is said that it does.
"""

from collections.abc import Iterator

import msgspec

from volvelle.core.journal import Header
from volvelle.live.control.state import Books
from volvelle.model.cluster import NodeState
from volvelle.model.node import Node
from volvelle.model.overheads import Overheads
from volvelle.model.problems import Problem

_RECOMPOSED = ("policy", "admission")
_FIXED = ("placement", "estimator", "termination")
_MEND = "begin a new store to change it"


def differences(books: Books, now: Header, where: str) -> tuple[str, ...]:
    """A line for each key that differs, said of the store ``where``; none for a store that begins.

    Raises `Problem` where what cannot change under running jobs has changed.
    """
    before = books.header
    _check_same(before, now, where)
    return (
        *_recomposed(books, now),
        *_overheads(before, now, where),
        *_held("seed", before.seed, now.seed, where),
        *_pools(before, now, where),
        *_nodes(books, now, where),
    )


def _check_same(before: Header, now: Header, where: str) -> None:
    was, wished = before.composition.build().written, now.composition.build().written
    for part in _FIXED:
        if getattr(was, part) != getattr(wished, part):
            raise Problem(
                f"the jobs in {where} were placed and predicted under {part} {getattr(was, part)!r}, "
                f"not {getattr(wished, part)!r}",
                mend=f"write {part} = {getattr(was, part)!r}, or begin a new store",
            )


def _recomposed(books: Books, now: Header) -> Iterator[str]:
    was, wished = books.scheduler.composition.written, now.composition.build().written
    for part in _RECOMPOSED:
        before, after = getattr(was, part), getattr(wished, part)
        if before != after:
            yield f"{part}: {before} until now, {after} from now on, as the configuration says"


def _overheads(before: Header, now: Header, where: str) -> Iterator[str]:
    was, wished = (Overheads.model_validate(each.overheads).model_dump() for each in (before, now))
    for key, value in was.items():
        yield from _held(f"overheads.{key}", value, wished[key], where)


def _pools(before: Header, now: Header, where: str) -> Iterator[str]:
    was, wished = ({p.name: p.quota for p in each.cluster.pools} for each in (before, now))
    yield from _held("pools", was, wished, where)


def _held(key: str, before: object, now: object, where: str) -> Iterator[str]:
    if before != now:
        shown = "nothing" if before is None else before
        wished = "nothing" if now is None else now
        yield (
            f"{key}: {where} has {shown}, the configuration {wished}; "
            f"{shown} goes on to hold, {_MEND}"
        )


def _nodes(books: Books, now: Header, where: str) -> Iterator[str]:
    resources = books.scheduler.resources
    wished = {node.name: node for node in now.cluster.nodes}
    for node, state in zip(resources.nodes, resources.state, strict=True):
        if node.name in wished:
            yield from _redescribed(node, wished[node.name], where)
        elif books.seq and state is not NodeState.DOWN:
            yield (
                f"node {node.name} is not in the configuration any more: it takes no new jobs, "
                "and what runs there runs to its end"
            )


def _redescribed(before: Node, now: Node, where: str) -> Iterator[str]:
    was, wished = msgspec.structs.asdict(before), msgspec.structs.asdict(now)
    for key, value in was.items():
        if value != wished[key]:
            what = "it takes no jobs" if key == "gpus" else f"{value!r} goes on to hold"
            yield (
                f"node {before.name}: {where} has {key} = {value!r}, the configuration "
                f"{wished[key]!r}; {what}, give the node another name to change it"
            )
