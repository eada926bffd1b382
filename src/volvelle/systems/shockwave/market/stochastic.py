"""Welfare in expectation, where what comes is uncertain (NSDI'23, appendix F, program 6).

Each buyer is in one of a few states (a batch size and an epoch), which changes from round to round by
chance, and may depend on what it has. A policy says with which probability which allocation is made in
which joint state. Variables pi_t(s, x) are how likely it is that round t finds state s and allocation x is
made::

    maximise  sum over buyers i of B_i log E[U_i]
    sum over x of pi_1(s, x) = b(s)
    sum over x of pi_t(s, x) = sum over s', x' of P(s | s', x') pi_t-1(s', x')

States and allocations of all buyers together are enumerated, so that this is for a few buyers with a few
states. (The paper asks for policies without chance; a program in pi cannot, and what it finds is as good or
better.)
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volvelle.model.arrays import Floats
from volvelle.model.tolerances import SAME_SHARE
from volvelle.systems.shockwave.market.program import most_welfare, sparse_matrices


@dataclass(frozen=True, init=False, eq=False)
class Chance:
    """A buyer whose utility changes by chance.

    start: (states,) probabilities. transition, gain: (choices, states, states) with what it has (by place in
    ``shares``), from a state to the next: probability, utility. Raises ValueError where these are not such.
    """

    start: Floats
    transition: Floats
    gain: Floats

    def __init__(self, start: ArrayLike, transition: ArrayLike, gain: ArrayLike) -> None:
        for name, value in (("start", start), ("transition", transition), ("gain", gain)):
            object.__setattr__(self, name, np.array(value, dtype=np.float64))
        states = len(self.start)
        if self.transition.ndim != 3 or self.transition.shape[1:] != (states, states):
            raise ValueError(f"transitions of {states} states, not {self.transition.shape}")
        if self.gain.shape != self.transition.shape:
            raise ValueError(f"gains like transitions are expected, not {self.gain.shape}")
        for name, sums in (
            ("start", self.start.sum()),
            ("transition", self.transition.sum(axis=2)),
        ):
            if (getattr(self, name) < 0.0).any() or not np.allclose(sums, 1.0):
                raise ValueError(f"{name}: probabilities sum to 1")
        if not (np.isfinite(self.gain) & (self.gain >= 0.0)).all():
            raise ValueError("gains have to be finite and not negative")


class ExpectedShares(NamedTuple):
    """A policy. states, allocations: (.., buyers) joint ones, by places in `Chance` and ``shares``.

    likely: (rounds, states, allocations) pi. utility: (buyers,) in expectation.
    """

    states: NDArray[np.int64]
    allocations: NDArray[np.int64]
    likely: Floats
    utility: Floats


def best_policy(
    buyers: Sequence[Chance],
    budgets: ArrayLike,
    shares: Sequence[float],
    rounds: int,
    *,
    tolerance: float = 1e-9,
) -> ExpectedShares:
    """The policy of the largest welfare in expectation over ``rounds`` rounds.

    shares: what a buyer can have of the one resource; no more than all of it is given. Raises ValueError
    where these do not belong together, `Problem` where the solver is not installed.
    """
    money = np.array(budgets, dtype=np.float64)
    if money.shape != (len(buyers),) or not (money > 0.0).all():
        raise ValueError(f"{len(buyers)} buyers need as many budgets, none of 0")
    if rounds < 1 or any(len(one.transition) != len(shares) for one in buyers):
        raise ValueError("at least one round, and transitions for each share, are needed")
    sparse = sparse_matrices()
    kinds = [range(len(one.start)) for one in buyers]
    states = np.array(list(itertools.product(*kinds)), dtype=np.int64)
    every = itertools.product(range(len(shares)), repeat=len(buyers))
    fits = [one for one in every if sum(shares[each] for each in one) <= 1.0 + SAME_SHARE]
    if not fits:
        raise ValueError("shares: no allocation is within the resource")
    allocations = np.array(fits, dtype=np.int64)
    shape = (len(states), len(allocations))
    start = np.ones(len(states))
    move = np.ones((*shape, len(states)))
    gain = np.zeros((len(buyers), *shape))
    for row, one in enumerate(buyers):
        own, has = states[:, row], allocations[:, row]
        start *= one.start[own]
        move *= one.transition[has[None, :, None], own[:, None, None], own[None, None, :]]
        gain[row] = (one.transition * one.gain).sum(axis=2)[has[None, :], own[:, None]]
    cells = shape[0] * shape[1]
    stays = sparse.kron(sparse.identity(len(states)), np.ones((1, len(allocations))))
    comes = sparse.csc_matrix(move.reshape(cells, len(states)).T)
    flow = sparse.kron(sparse.identity(rounds), stays)
    if rounds > 1:
        flow = flow - sparse.kron(sparse.eye(rounds, k=-1), comes)
    right = np.concatenate([start, np.zeros((rounds - 1) * len(states))])
    worth = sparse.csr_matrix(np.tile(gain.reshape(len(buyers), cells), rounds))
    nothing = sparse.csc_matrix((0, rounds * cells)), np.zeros(0)
    x, _ = most_welfare(worth, money, (flow, right), nothing, tolerance)
    return ExpectedShares(states, allocations, x.reshape(rounds, *shape), worth @ x)
