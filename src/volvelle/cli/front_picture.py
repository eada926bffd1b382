"""The front so far as characters, for the terminal."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from volvelle.tune.front import Front
    from volvelle.tune.search import SearchProgress

_WIDTH, _HEIGHT = 60, 14


def picture(now: "SearchProgress") -> str:
    """How far the search is, the first two objectives over each other, and the named points in words.

    A point is ``o``, a configuration that others beat is ``.``; the axes reach over the front.
    """
    front = now.front
    lines = [f"{now.done:,} of {now.candidates:,} configurations, {len(front.points)} on the front"]
    lines += _plot(front)
    lines += [f"{name}: {front.in_words(at)}" for name, at in front.picks.items()]
    return "\n".join(lines)


def _plot(front: "Front") -> list[str]:
    import numpy as np

    from volvelle.tune.front import title_of

    points = np.array([point.mean for point in front.points])[:, :2]
    tried = np.array([one.mean for one in front.evaluated])[:, :2]
    if not np.isfinite(points).all():
        return []
    low, span = points.min(axis=0), np.ptp(points, axis=0)
    span = np.where(span > 0, span, 1.0)
    rows = [[" "] * _WIDTH for _ in range(_HEIGHT)]
    for figures, mark in ((tried, "."), (points, "o")):
        places = (figures - low) / span
        for x, y in places[np.isfinite(places).all(axis=1)].tolist():
            if 0.0 <= x <= 1.0 and 0.0 <= y <= 1.0:
                rows[round((1.0 - y) * (_HEIGHT - 1))][round(x * (_WIDTH - 1))] = mark
    first, second = (title_of(objective) for objective in front.objectives[:2])
    return [
        f"{second} ↑ {first} →",
        *(f"│{''.join(row)}" for row in rows),
        f"└{'─' * _WIDTH}",
    ]
