"""The Gantt chart's data: which bar lies on which lanes, as compact arrays for the page.

A lane is a GPU (or a part of one, where jobs hold fractions). Where the placement named the GPUs, a
bar lies on those; otherwise lanes are given out greedily, neighbouring ones first, and stand for
counts only.
"""

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

import msgspec
import numpy as np

from volvelle.metrics import labels, series
from volvelle.metrics.labels import Labels
from volvelle.metrics.outcomes import Outcomes, Segments
from volvelle.model.arrays import FloatColumn, IntColumn
from volvelle.model.tolerances import SAME_MOMENT, WHOLE_NUMBER

MOST_BARS = 60_000
"""Holdings in the page; beyond, the longest are kept."""

_PARTS_OF_A_GPU = (1, 2, 4, 5, 8, 10)


@dataclass(frozen=True)
class Bars:
    """Rectangles of the chart, by start: job row, seconds, first lane, number of lanes.

    ``lanes`` lanes in all, ``per_gpu`` for each GPU. ``placed`` says whether lanes are real GPUs.
    ``left_out`` holdings were too many to show.
    """

    job: IntColumn
    start: FloatColumn
    end: FloatColumn
    lane: IntColumn
    height: IntColumn
    lanes: int
    per_gpu: int
    placed: bool
    left_out: int

    @property
    def jobs(self) -> IntColumn:
        """The rows of jobs that have bars, ascending."""
        return np.flatnonzero(np.bincount(self.job))


def bars_of(outcomes: Outcomes, most: int = MOST_BARS) -> Bars:
    """The bars of the ``most`` longest holdings."""
    segments = outcomes.segments
    end = np.fmin(segments.end, outcomes.end_time)
    shown = _longest(end - segments.start, segments.start, most)
    left_out = len(segments.job) - len(shown)
    capacity = max(float(outcomes.capacity.values.max(initial=0.0)), 1.0)
    placed = len(segments.slots) > 0
    per_gpu = _parts(segments.gpus[shown])
    if placed:
        owner, lane, height = _slot_runs(segments, shown, end, per_gpu)
        lanes = int(max(capacity, segments.slots.max() + 1)) * per_gpu
    else:
        owner, lane, height, lanes = _greedy(
            segments.start[shown], end[shown], segments.gpus[shown], round(capacity), per_gpu
        )
        owner = shown[owner]
    return Bars(
        segments.job[owner], segments.start[owner], end[owner], lane, height,
        lanes, per_gpu, placed, left_out,
    )  # fmt: skip


def _longest(seconds: FloatColumn, start: FloatColumn, most: int) -> IntColumn:
    kept = np.arange(len(seconds))
    if len(seconds) > most:
        kept = np.sort(np.argpartition(-seconds, most)[:most])
    return kept[np.argsort(start[kept], kind="stable")]


def _parts(gpus: FloatColumn) -> int:
    """Into how many lanes a GPU is cut so that every job holds whole ones (nearly: at most ten)."""
    fits = (n for n in _PARTS_OF_A_GPU if np.allclose(gpus * n, np.round(gpus * n)))
    return next(fits, _PARTS_OF_A_GPU[-1])


def _slot_runs(
    segments: Segments, shown: IntColumn, end: FloatColumn, per_gpu: int
) -> tuple[IntColumn, IntColumn, IntColumn]:
    """Segment, first lane and height of every run of neighbouring GPUs."""
    counts = np.diff(segments.slot_offsets)[shown]
    owner = np.repeat(shown, counts)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    slot = segments.slots[np.repeat(segments.slot_offsets[shown], counts) + within]
    order = np.lexsort((slot, np.repeat(np.arange(len(shown)), counts)))
    owner, slot = owner[order], slot[order]
    begins = (np.diff(owner, prepend=-1) != 0) | (np.diff(slot, prepend=-2) != 1)
    first = np.flatnonzero(begins)
    length = np.diff(np.append(first, len(slot)))
    owner, lane, height = owner[first], slot[first] * per_gpu, length * per_gpu
    if per_gpu > 1:
        _share_gpus(segments, owner, end, lane=lane, height=height, per_gpu=per_gpu)
    return owner, lane, height


def _share_gpus(
    segments: Segments,
    owner: IntColumn,
    end: FloatColumn,
    *,
    lane: IntColumn,
    height: IntColumn,
    per_gpu: int,
) -> None:
    """Lay the bars that hold a part of one GPU beside each other on its lanes, in place."""
    free_from = np.full(int(lane.max(initial=0)) + per_gpu, -np.inf)
    for bar in np.flatnonzero((segments.gpus[owner] < 1) & (height == per_gpu)):
        need = max(1, round(float(segments.gpus[owner[bar]]) * per_gpu))
        mine = free_from[lane[bar] : lane[bar] + per_gpu]
        free = mine <= segments.start[owner[bar]] + SAME_MOMENT
        lane[bar] += _first_run(sum(1 << at for at in np.flatnonzero(free).tolist()), need) or 0
        height[bar] = need
        free_from[lane[bar] : lane[bar] + need] = end[owner[bar]]


def _greedy(
    start: FloatColumn, end: FloatColumn, gpus: FloatColumn, capacity: int, per_gpu: int
) -> tuple[IntColumn, IntColumn, IntColumn, int]:
    """Bar's row, first lane, height; and how many lanes it took. Rows are by start.

    Lanes are the bits of an integer, set while they are free.
    """
    needs = np.maximum(1, np.ceil(gpus * per_gpu - WHOLE_NUMBER)).astype(int).tolist()
    lanes = max(1, capacity * per_gpu)
    free = (1 << lanes) - 1
    held: list[tuple[float, int]] = []  # a heap: until when, which lanes
    owners, firsts, heights = [], [], []
    for row, (begin, stop, need) in enumerate(
        zip(start.tolist(), end.tolist(), needs, strict=True)
    ):
        while held and held[0][0] <= begin + SAME_MOMENT:
            free |= heappop(held)[1]
        missing = need - free.bit_count()
        if missing > 0:
            free |= ((1 << missing) - 1) << lanes
            lanes += missing
        taken = 0
        for first, height in _pieces(free, need):
            taken |= ((1 << height) - 1) << first
            owners.append(row)
            firsts.append(first)
            heights.append(height)
        free ^= taken
        heappush(held, (stop, taken))
    return np.array(owners, int), np.array(firsts, int), np.array(heights, int), lanes


def _pieces(free: int, need: int) -> list[tuple[int, int]]:
    """``need`` free lanes as (first, number): one run if there is one, else what comes first."""
    whole = _first_run(free, need)
    if whole is not None:
        return [(whole, need)]
    pieces = []
    while need:
        lowest = free & -free
        run = free & ~(free + lowest)  # the carry goes through the first run of free lanes
        height = min(need, run.bit_count())
        pieces.append((lowest.bit_length() - 1, height))
        free ^= run
        need -= height
    return pieces


def _first_run(free: int, need: int) -> int | None:
    """Where the first ``need`` free lanes in a row begin."""
    length = 1
    while length < need:  # bit i of free: lanes i to i + length - 1 are free
        more = min(length, need - length)
        free &= free >> more
        length += more
    return (free & -free).bit_length() - 1 if free else None


def gantt_json(outcomes: Outcomes, bars: Bars) -> str:
    """The chart as JSON that can stand inside a script element.

    Times are whole multiples of ``tick`` seconds since the first submission; ``submit`` and
    ``start`` are differences to the entry before. Names are given once and referred to by number.
    """
    origin = series.start_time(outcomes)
    span = max(outcomes.end_time - origin, 1.0)
    tick = 1.0 if span > 2e5 else 0.1 if span > 2e4 else 0.01
    shown = np.arange(len(outcomes))
    if bars.left_out:
        shown = bars.jobs
    row_of = np.full(len(outcomes), -1)
    row_of[shown] = np.arange(len(shown))
    start = np.round((bars.start - origin) / tick)
    length = np.maximum(0, np.round((bars.end - origin) / tick) - start)
    document = {
        "tick": tick,
        "span": round(span / tick),
        "lanes": bars.lanes,
        "perGpu": bars.per_gpu,
        "placed": bars.placed,
        "jobs": _jobs(outcomes, shown, origin, tick),
        "bars": {
            "job": row_of[bars.job].tolist(),
            "start": _differences(start),
            "length": length.astype(int).tolist(),
            "lane": bars.lane.tolist(),
            "height": bars.height.tolist(),
        },
    }
    return script_safe(document)


def script_safe(document: object) -> str:
    """``document`` as compact JSON in which no text can end the script element around it."""
    text = msgspec.json.encode(document).decode()
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _jobs(outcomes: Outcomes, rows: IntColumn, origin: float, tick: float) -> dict[str, Any]:
    specs = [outcomes.specs[row] for row in rows.tolist()]
    submit = outcomes.submit_time[rows]
    return {
        "id": [spec.id[:80] for spec in specs],
        "name": _named(Labels.read([spec.name[:80] for spec in specs])),
        "user": _named(labels.users(outcomes).at(rows)),
        "pool": _named(labels.pools(outcomes).at(rows)),
        "class": _named(labels.classes(outcomes).at(rows)),
        "status": _named(Labels.read(outcomes.status[rows].tolist())),
        "gpus": [
            round(gpus, 3) if gpus % 1 else int(gpus) for gpus in outcomes.gpus[rows].tolist()
        ],
        "submit": _differences(np.round((submit - origin) / tick)),
        "wait": _ticks_or_none(outcomes.first_start[rows] - submit, tick),
        "stay": _ticks_or_none(outcomes.finish[rows] - submit, tick),
    }


def _named(labelled: Labels) -> dict[str, list[Any]]:
    names = labelled.names
    return {"names": names, "of": labelled.of.tolist() if len(names) > 1 else []}


def _differences(ticks: FloatColumn) -> list[int]:
    differences: list[int] = np.diff(ticks, prepend=0.0).astype(int).tolist()
    return differences


def _ticks_or_none(seconds: FloatColumn, tick: float) -> list[int | None]:
    rounded = np.round(seconds / tick).tolist()
    return [int(value) if value == value else None for value in rounded]  # noqa: PLR0124 - NaN
