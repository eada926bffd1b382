"""Gains of rounds in pieces of equal gain, and rounds given one by one to the jobs that gain most."""

import numpy as np

from volvelle.core.compiled import compiled
from volvelle.model.arrays import Bools, Floats, Ints
from volvelle.model.tolerances import WHOLE_NUMBER
from volvelle.systems.shockwave.exchange import gained


@compiled
def concave_pieces(gain: Floats, most: Ints) -> tuple[Ints, Floats]:
    """Each job's gains in pieces, (jobs, slots) each: how many rounds, and what each of them gains.

    The gains of a piece are averaged, so that later pieces gain less; pieces that are not needed have no
    rounds.
    """
    jobs, slots = gain.shape
    width = np.zeros((jobs, slots), dtype=np.int64)
    slope = np.zeros((jobs, slots))
    for job in range(jobs):
        last = -1
        for one in range(most[job]):
            last += 1
            width[job, last], slope[job, last] = 1, gain[job, one]
            while last > 0 and slope[job, last] >= slope[job, last - 1]:
                both = width[job, last - 1] + width[job, last]
                total = slope[job, last - 1] * width[job, last - 1]
                total += slope[job, last] * width[job, last]
                width[job, last - 1], slope[job, last - 1] = both, total / both
                width[job, last], slope[job, last] = 0, 0.0
                last -= 1
    return width, slope


@compiled
def top_up(rounds: Ints, gpus: Floats, most: Ints, width: Ints, slope: Floats, room: float) -> None:
    """Give ``room`` rounds on a GPU to jobs that gain by them, most for a GPU first; in place.

    Each gets one round more in turn, as far as there is room. A round gains the average of its piece.
    """
    key = np.zeros(len(rounds))
    while room > 0.0:
        able = 0
        for row in range(len(rounds)):
            key[row] = np.inf
            if rounds[row] >= most[row] or gpus[row] > room:
                continue
            piece, behind = 0, width[row, 0]
            while behind <= rounds[row] and piece < width.shape[1] - 1:
                piece += 1
                behind += width[row, piece]
            if slope[row, piece] > 0.0:
                key[row] = -slope[row, piece] / gpus[row]
                able += 1
        if able == 0:
            break
        for row in np.argsort(key, kind="mergesort")[:able]:
            if gpus[row] > room:
                break
            rounds[row] += 1
            room -= gpus[row]


@compiled
def spread_out(width: Ints, slope: Floats) -> Floats:
    """(jobs, slots) what each round gains by pieces of a concave envelope; 0 beyond them."""
    gain = np.zeros(slope.shape)
    for job in range(len(gain)):
        one = 0
        for piece in range(slope.shape[1]):
            for _ in range(width[job, piece]):
                gain[job, one] = slope[job, piece]
                one += 1
    return gain


@compiled
def fill_up(
    held: Bools, gpus: Floats, speed: Floats, gain: Floats, most: Ints, capacity: Floats
) -> None:
    """Give GPUs that are left in a slot to jobs that gain by them, most for a GPU first; in place.

    held: (jobs, cells), a cell for each slot and type. speed: (jobs, types) rounds that a round counts as.
    capacity: GPUs of each type. A job takes the quickest type on which it fits.
    """
    jobs, types = speed.shape
    work = np.zeros(jobs)
    for row in range(jobs):
        for cell in range(held.shape[1]):
            if held[row, cell]:
                work[row] += speed[row, cell % types]
    key = np.zeros(jobs)
    for first in range(0, held.shape[1], types):
        free = capacity.copy()
        for kind in range(types):
            for row in range(jobs):
                if held[row, first + kind]:
                    free[kind] -= gpus[row]
        able = 0
        for row in range(jobs):
            key[row] = np.inf
            if held[row, first : first + types].any() or work[row] + WHOLE_NUMBER >= most[row]:
                continue
            kind = _quickest(row, gpus, speed, free)
            if kind < 0:
                continue
            more = gained(gain, row, work[row], speed[row, kind])
            if more > 0.0:
                key[row] = -more / gpus[row]
                able += 1
        if able == 0:
            continue
        for row in np.argsort(key, kind="mergesort"):
            if key[row] == np.inf:
                break
            kind = _quickest(row, gpus, speed, free)
            if kind >= 0:
                held[row, first + kind] = True
                work[row] += speed[row, kind]
                free[kind] -= gpus[row]


@compiled
def _quickest(row: int, gpus: Floats, speed: Floats, free: Floats) -> int:
    """The quickest type of which so many GPUs are free as the job needs; -1 for none."""
    best = -1
    for kind in range(len(free)):
        fits = speed[row, kind] > 0.0 and gpus[row] <= free[kind]
        if fits and (best < 0 or speed[row, kind] > speed[row, best]):
            best = kind
    return best
