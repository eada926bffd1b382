"""The Gantt chart's data: which bar lies on which lanes, as compact arrays for the page.

A lane is a GPU (or a part of one, where jobs hold fractions). Where the placement named the GPUs, a
bar lies on those; otherwise lanes are given out greedily, neighbouring ones first, and stand for
counts only.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volvelle.metrics import series
from volvelle.metrics.outcomes import FloatColumn, IntColumn, Outcomes, Segments

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
        offset = _first_run(mine <= segments.start[owner[bar]] + 1e-6, need)
        lane[bar] += offset or 0
        height[bar] = need
        free_from[lane[bar] : lane[bar] + need] = end[owner[bar]]


def _greedy(
    start: FloatColumn, end: FloatColumn, gpus: FloatColumn, capacity: int, per_gpu: int
) -> tuple[IntColumn, IntColumn, IntColumn, int]:
    """Bar's row, first lane, height; and how many lanes it took. Rows are by start."""
    needs = np.maximum(1, np.ceil(gpus * per_gpu - 1e-9)).astype(int).tolist()
    free_from = np.full(max(1, capacity * per_gpu), -np.inf)
    owners, lanes, heights = [], [], []
    for row, (begin, stop, need) in enumerate(
        zip(start.tolist(), end.tolist(), needs, strict=True)
    ):
        free = free_from <= begin + 1e-6
        missing = need - int(np.count_nonzero(free))
        if missing > 0:
            free_from = np.append(free_from, np.full(missing, -np.inf))
            free = np.append(free, np.full(missing, True))
        for lane, height in _pieces(free, need):
            free_from[lane : lane + height] = stop
            owners.append(row)
            lanes.append(lane)
            heights.append(height)
    return np.array(owners, int), np.array(lanes, int), np.array(heights, int), len(free_from)


def _pieces(free: NDArray[np.bool_], need: int) -> list[tuple[int, int]]:
    """``need`` free lanes as (first, number): one run if there is one, else what comes first."""
    whole = _first_run(free, need)
    if whole is not None:
        return [(whole, need)]
    chosen = np.flatnonzero(free)[:need]
    cuts = np.flatnonzero(np.diff(chosen) != 1) + 1
    return [(int(piece[0]), len(piece)) for piece in np.split(chosen, cuts)]


def _first_run(free: NDArray[np.bool_], need: int) -> int | None:
    if need == 1:
        first = int(free.argmax())
        return first if free[first] else None
    edges = np.flatnonzero(np.diff(free, prepend=False, append=False))
    fits = np.flatnonzero(edges[1::2] - edges[::2] >= need)
    return int(edges[2 * fits[0]]) if fits.size else None


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
        shown = np.unique(bars.job)
    row_of = np.full(len(outcomes), -1)
    row_of[shown] = np.arange(len(shown))
    start = np.round((bars.start - origin) / tick)
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
            "length": np.maximum(0, np.round((bars.end - origin) / tick) - start)
            .astype(int)
            .tolist(),
            "lane": bars.lane.tolist(),
            "height": bars.height.tolist(),
        },
    }
    return script_safe(document)


def script_safe(document: object) -> str:
    """``document`` as compact JSON in which no text can end the script element around it."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _jobs(outcomes: Outcomes, rows: IntColumn, origin: float, tick: float) -> dict[str, Any]:
    specs = [outcomes.specs[row] for row in rows]
    submit = outcomes.submit_time[rows]
    return {
        "id": [spec.id[:80] for spec in specs],
        "name": _named([spec.name[:80] for spec in specs]),
        "user": _named([spec.user for spec in specs]),
        "pool": _named([spec.pool for spec in specs]),
        "class": _named([spec.job_class.value for spec in specs]),
        "status": _named([str(status) for status in outcomes.status[rows]]),
        "gpus": [
            round(gpus, 3) if gpus % 1 else int(gpus) for gpus in outcomes.gpus[rows].tolist()
        ],
        "submit": _differences(np.round((submit - origin) / tick)),
        "wait": _ticks_or_none(outcomes.first_start[rows] - submit, tick),
        "stay": _ticks_or_none(outcomes.finish[rows] - submit, tick),
    }


def _named(texts: Sequence[str]) -> dict[str, list[Any]]:
    names: dict[str, int] = {}
    index = [names.setdefault(text, len(names)) for text in texts]
    return {"names": list(names), "of": index if len(names) > 1 else []}


def _differences(ticks: FloatColumn) -> list[int]:
    differences: list[int] = np.diff(ticks, prepend=0.0).astype(int).tolist()
    return differences


def _ticks_or_none(seconds: FloatColumn, tick: float) -> list[int | None]:
    rounded = np.round(seconds / tick).tolist()
    return [int(value) if value == value else None for value in rounded]  # noqa: PLR0124 - NaN
