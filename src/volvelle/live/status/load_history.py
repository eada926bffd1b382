"""GPUs held and jobs waiting since the controller started, by time."""

from volvelle.live.status.view import LoadPoint

MAX_POINTS = 4096
"""An even number; beyond, every second point of the older half is dropped."""


class LoadHistory:
    """The load at each change. Any thread may read."""

    def __init__(self) -> None:
        self._points: list[LoadPoint] = []

    def add(self, point: LoadPoint) -> None:
        """Keep the load from ``point.time`` on, if it differs from the last."""
        points, half = self._points, MAX_POINTS // 2
        while points and points[-1].time > point.time:  # of a clock that was set back since
            points.pop()
        if points and points[-1][1:] == point[1:]:
            return
        if len(points) == MAX_POINTS:
            self._points = [*points[:half:2], *points[half:]]
        self._points.append(point)

    def points(self) -> tuple[LoadPoint, ...]:
        """The load, the earliest first; each point holds until the next."""
        return tuple(self._points)
