"""The live queue for many viewers: one table of rows, and frames with what has changed since.

Rows are what every user may see (`JobStatusView.public`), so the same bytes go to all viewers: whatever their
number, a change is found and written once.
"""

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool

from volvelle.dashboard.columns import FORECAST_COLUMNS, JOB_COLUMNS, JOB_TABLE, JOB_TITLES, NodeRow
from volvelle.live.http.shown_cluster import ShownCluster, shown_nodes
from volvelle.live.status.view import JobStatusView, NodeStatusView, StatusView

FRAME_SECONDS = 1.0
"""Between two frames, at least."""

_forecast_of = itemgetter(*map(JOB_COLUMNS.index, FORECAST_COLUMNS))
_other_than_forecast = itemgetter(
    *(at for at, name in enumerate(JOB_COLUMNS) if name not in FORECAST_COLUMNS[1:])
)
_KEPT_FRAMES = 120
_TOLERANCE = 0.01
"""A forecast is sent again if it differs by this share of the time that is left."""
_TOLERANCE_SECONDS = 2.0

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Frame:
    """Changes since the frame before, as JSON."""

    seq: int
    body: bytes


class QueueFeed:
    """Follows the status view of ``cluster`` while a stream is open."""

    def __init__(self, cluster: ShownCluster) -> None:
        self._cluster = cluster
        self._seq = int(time.time() * 1000)  # grows over restarts of the server
        self._frames: deque[Frame] = deque(maxlen=_KEPT_FRAMES)
        self._views: dict[int, JobStatusView] = {}
        self._rows: dict[int, Row] = {}
        self._nodes: tuple[NodeStatusView, ...] = ()
        self._version: int | None = None
        self._seen_at = float("-inf")
        self._table: tuple[int, bytes] | None = None
        self._lock = asyncio.Lock()

    @property
    def seq(self) -> int:
        """Of the latest frame."""
        return self._seq

    async def table(self) -> bytes:
        """All rows at present, as JSON (`QueueTable`)."""
        async with self._lock:
            await self._follow(at_once=True)
            if self._table is None or self._table[0] != self._seq:
                self._table = self._seq, await run_in_threadpool(self._write_table)
            return self._table[1]

    async def frames(self, after: int, *, at_once: bool = False) -> list[Frame] | None:
        """The frames after ``after``; None if some are not kept any more.

        at_once: also if the last frame was made a moment ago.
        """
        async with self._lock:
            await self._follow(at_once=at_once)
        if after >= self._seq:
            return []
        kept = list(self._frames)
        if not kept or after < kept[0].seq - 1:
            return None
        return [frame for frame in kept if frame.seq > after]

    async def _follow(self, *, at_once: bool = False) -> None:
        now = time.monotonic()
        if not at_once and now - self._seen_at < 0.9 * FRAME_SECONDS:
            return
        self._seen_at = now
        view, nodes = self._cluster.status, shown_nodes(self._cluster)
        if view.version == self._version and nodes == self._nodes:
            return
        body = await run_in_threadpool(self._take, view, nodes)
        if body is not None:
            self._seq += 1
            self._frames.append(Frame(self._seq, body))

    def _take(self, view: StatusView, present: tuple[NodeStatusView, ...]) -> bytes | None:
        """Take over a view; what is new in it, None if nothing is."""
        jobs: list[Row] = []
        forecasts: list[Row] = []
        for number, job in view.jobs.items():
            if self._views.get(number) is job:
                continue
            row, before = _job_row(job), self._rows.get(number)
            if before is not None and _other_than_forecast(before) == _other_than_forecast(row):
                forecast = _forecast_of(row)
                if not _moved(_forecast_of(before), forecast, view.time):
                    continue
                forecasts.append(forecast)
            else:
                jobs.append(row)
            self._rows[number] = row
        gone = [number for number in self._rows if number not in view.jobs]
        for number in gone:
            del self._rows[number]
        nodes = _changed_nodes(self._nodes, present)
        self._views, self._nodes, self._version = view.jobs, present, view.version
        if not (jobs or forecasts or gone or nodes):
            return None
        frame = {"time": view.time, "policy": view.policy, "admission": view.admission}
        frame |= {"jobs": jobs, "forecasts": forecasts, "gone": gone, "nodes": nodes}
        return msgspec.json.encode(frame)

    def _write_table(self) -> bytes:
        view = self._cluster.status
        return msgspec.json.encode(
            {
                "seq": self._seq,
                "time": view.time,
                "policy": view.policy,
                "admission": view.admission,
                "job_columns": JOB_COLUMNS,
                "job_titles": JOB_TITLES,
                "jobs": list(self._rows.values()),
                "forecast_columns": FORECAST_COLUMNS,
                "node_columns": NodeRow._fields,
                "nodes": [_node_row(node) for node in self._nodes],
            }
        )


_values = attrgetter(*JOB_COLUMNS)
_MOMENTS = [place for place, column in enumerate(JOB_TABLE) if column.moment]


def _job_row(job: JobStatusView) -> Row:
    row = list(_values(job.public()))
    for place in _MOMENTS:
        if row[place] is not None:
            row[place] = round(row[place])
    return tuple(row)


def _node_row(node: NodeStatusView) -> Row:
    return tuple(getattr(node, column) for column in NodeRow._fields)


def _moved(before: Row, forecast: Row, time: float) -> bool:
    """Whether a moment of ``forecast`` (`FORECAST_COLUMNS`) is another, by more than the tolerance."""
    return any(
        was is not now
        if was is None or now is None
        else abs(now - was) > max(_TOLERANCE_SECONDS, _TOLERANCE * abs(now - time))
        for was, now in zip(before[1:], forecast[1:], strict=True)
    )


def _changed_nodes(
    before: tuple[NodeStatusView, ...], now: tuple[NodeStatusView, ...]
) -> list[Row]:
    """The rows of nodes that are new or changed: nodes keep their places, new ones come last."""
    known = {node.name: node for node in before}
    return [
        _node_row(node) for node in now if (was := known.get(node.name)) is not node and was != node
    ]
