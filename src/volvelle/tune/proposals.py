"""Proposals of a search: by an algorithm, in gaps of the front, and beside its points.

Three sources of points, all seeded. An evolutionary algorithm (pymoo's) over a policy's own space. Points
put between neighbours on the front, the farthest apart first. And, to refine what was found, variations of
the front's points in the finer space around each (`volvelle.core.space`): some of its numbers moved, by steps
small and large, since one weight wants a touch where another queue belongs elsewhere; or all of them some way
towards a neighbour that has the same.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from volvelle.core.space import Point, Space
from volvelle.model.arrays import FloatColumn
from volvelle.model.extras import install
from volvelle.model.problems import Problem

_JITTER = 0.03
"""Distance of a point that is put between two others from their line, as a share of each dimension."""

_STEPS = (-2.5, -0.5)
"""Powers of ten between which the step of a variation is drawn, of each dimension's range."""

_MOVED = 0.3
"""Share of the dimensions that a variation moves; 1.5 of them where they are few."""

_REDRAWN = 0.1
"""Share of the moved that are drawn anew from all of their range."""

_ELSEWHERE = 0.25
"""Share of the variations that begin at another start of the finer space, where there are some."""

_TOWARDS = 0.33
"""Share of the variations that are put between a point and its neighbour."""

_SMALL = 1e-4
"""Costs below this share of the front's highest are as good as none."""


def evolution(algorithm: str, space: Space, *, population: int, objectives: int, seed: int) -> Any:
    """pymoo's algorithm over the unit cube; it begins where the space starts, and at random points."""
    try:
        from pymoo.algorithms.moo.nsga2 import NSGA2  # noqa: PLC0415 - an extra
        from pymoo.algorithms.moo.spea2 import SPEA2, SPEA2Survival  # noqa: PLC0415
        from pymoo.core.problem import Problem as Searched  # noqa: PLC0415
        from pymoo.core.termination import NoTermination  # noqa: PLC0415
    except ImportError:
        raise Problem(
            "tune needs the package pymoo", mend=f"install it: {install('tune')}"
        ) from None
    width = len(space.dimensions)
    first = np.random.default_rng([seed, 0x7E]).random((population, width))
    for row, start in enumerate(space.starts[:population]):
        first[row] = space.shares(start)
    chosen = {"pop_size": population, "sampling": np.clip(first, 0.0, 1.0)}
    made = (
        SPEA2(**chosen, survival=SPEA2Survival(normalize=True))  # pymoo's is shared by all searches
        if algorithm == "spea2"
        else NSGA2(**chosen)
    )
    problem = Searched(n_var=width, n_obj=objectives, xl=np.zeros(width), xu=np.ones(width))
    made.setup(problem, termination=NoTermination(), seed=seed, verbose=False)
    return made


def into_gaps(
    proposed: FloatColumn, costs: FloatColumn, places: FloatColumn, rng: np.random.Generator
) -> FloatColumn:
    """``proposed``, the last third of it put between neighbours on the front, the farthest first.

    Of the front's points: costs, (points, objectives), ascending by the first; places in the unit cube.
    """
    if len(costs) < 2:
        return proposed
    gaps = _distances(costs)
    moved = proposed.copy()
    widest = np.argsort(-gaps, kind="stable")[: len(moved) // 3]
    for row, gap in enumerate(widest.tolist(), start=len(moved) - len(widest)):
        between = places[gap] + rng.random() * (places[gap + 1] - places[gap])
        moved[row] = np.clip(between + rng.normal(0.0, _JITTER, places.shape[1]), 0.0, 1.0)
    return moved


def variations(
    costs: FloatColumn, around: Sequence[Space], count: int, rng: np.random.Generator
) -> Iterator[tuple[Space, Point]]:
    """``count`` points beside those of a front, each with the space it is a point of.

    Half of them beside any, half beside those that are far from their neighbours in ratios of cost: from 2 to
    1 % of error is as far as from 20 to 10. A third lies between the point and the neighbour that is farther
    away, where numbers of the same names stand for both. costs: as for `into_gaps`; around: the finer space
    of each.
    """
    chances = np.full(len(costs), 1.0 / len(costs))
    gaps = np.concatenate([[0.0], _distances(_as_ratios(costs)), [0.0]])
    if gaps.any():
        lonely = gaps[:-1] + gaps[1:]
        chances = 0.5 * chances + 0.5 * lonely / lonely.sum()
    for at in rng.choice(len(costs), count, p=chances).tolist():
        space = around[at]
        other = around[at - 1 if gaps[at] > gaps[at + 1] else min(at + 1, len(around) - 1)]
        if rng.random() < _TOWARDS and _names(other) == _names(space):
            yield space, _between(space, other, rng)
        else:
            yield space, _varied(space, rng)


def _names(space: Space) -> list[str]:
    return [dimension.name for dimension in space.dimensions]


def _between(space: Space, other: Space, rng: np.random.Generator) -> Point:
    """Somewhere between what ``space`` is around and what ``other`` is, of the same dimensions."""
    here, there = (np.array(space.shares(one.starts[0])) for one in (space, other))
    return space.point(np.clip(here + rng.random() * (there - here), 0.0, 1.0).tolist())


def _varied(space: Space, rng: np.random.Generator) -> Point:
    """A place where ``space`` starts, some numbers moved by a step or, few of them, drawn anew."""
    width = len(space.dimensions)
    moved = rng.random(width) < max(_MOVED, 1.5 / width)
    moved[rng.integers(width)] = True
    redrawn = moved & (rng.random(width) < _REDRAWN)
    step = rng.normal(0.0, 10.0 ** rng.uniform(*_STEPS), width)
    first, *others = space.starts
    start = others[rng.integers(len(others))] if others and rng.random() < _ELSEWHERE else first
    beside = np.clip(np.array(space.shares(start)) + moved * step, 0.0, 1.0)
    return space.point(np.where(redrawn, rng.random(width), beside).tolist())


def _distances(costs: FloatColumn) -> FloatColumn:
    """From each point to the next, every cost from 0 to 1 over the front."""
    span = np.ptp(costs, axis=0)
    gaps: FloatColumn = np.linalg.norm(
        np.diff(costs, axis=0) / np.where(span > 0.0, span, 1.0), axis=1
    )
    return gaps


def _as_ratios(costs: FloatColumn) -> FloatColumn:
    """Logarithms of costs, where all of an objective's are positive or 0."""
    columns = [
        np.log(np.maximum(column, _SMALL * column.max()))
        if column.max() > 0.0 and column.min() >= 0.0
        else column
        for column in costs.T
    ]
    return np.stack(columns, axis=1)
