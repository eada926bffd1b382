"""What a job wrote, followed over attempts and nodes, wherever these are."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from starlette.concurrency import run_in_threadpool

from volvelle.live.agent.logs import log_sizes, read_log
from volvelle.live.nodes.node_logs import CHUNK_BYTES, NodeLogs, NodeUnreachableError
from volvelle.live.status.view import JobStatusView

Place = tuple[int, str]
"""An attempt and a node: in this order logs are read."""


@dataclass
class Logs:
    """The logs of a job, and how far they were read.

    folder: the executor's on this machine, where those of its agents that work here have theirs.
    elsewhere: asked about all other nodes.
    """

    folder: Path
    elsewhere: NodeLogs
    away: dict[str, str] = field(default_factory=dict)
    """What is said of the nodes that could not be asked of late, by their names."""
    _here: dict[str, Path] = field(default_factory=dict)
    """The folders of the nodes whose agents work on this machine."""
    _read_to: dict[Place, int] = field(default_factory=dict)
    _through: dict[str, int] = field(default_factory=dict)
    """Nodes elsewhere that have nothing new to tell, unless the job is started there again after this."""

    async def look(self, job: JobStatusView) -> dict[Place, int]:
        """The logs of ``job`` that have grown since they were read, and their sizes."""
        self._here = await run_in_threadpool(self._nodes_here)
        found: dict[str, dict[int, int]] = {}
        for node, folder in self._here.items():
            found[node] = await run_in_threadpool(log_sizes, folder, job.number)
        holding = {node for node, _ in job.grants}
        distant = [
            node
            for node, attempt in job.ran_on.items()
            if node not in self._here and (node in holding or self._through.get(node) != attempt)
        ]
        asked = await asyncio.gather(*(self._sizes(node, job.number) for node in distant))
        found |= dict(zip(distant, asked, strict=True))
        sizes = {
            (attempt, node): size for node, of in found.items() for attempt, size in of.items()
        }
        return {
            place: size
            for place, size in sorted(sizes.items())
            if size > self._read_to.get(place, 0)
        }

    async def read(self, job: JobStatusView, grown: dict[Place, int]) -> AsyncIterator[bytes]:
        """What stands in the logs that have ``grown``, from where they were read to, one after the other."""
        for place, size in grown.items():
            try:
                while (offset := self._read_to.get(place, 0)) < size:
                    piece = await self._piece(job.number, place, offset)
                    if not piece:
                        break
                    self._read_to[place] = offset + len(piece)
                    yield piece
            except NodeUnreachableError as away:
                self.away[place[1]] = str(away)
        holding = {node for node, _ in job.grants}
        for node, attempt in job.ran_on.items():
            if node not in holding and node not in self.away:
                self._through[node] = attempt

    async def _sizes(self, node: str, number: int) -> dict[int, int]:
        """Of which attempts there are logs elsewhere, as far as somebody can tell."""
        try:
            sizes = await asyncio.wrap_future(self.elsewhere.log_sizes(node, number))
        except NodeUnreachableError as away:
            self.away[node] = str(away)
            return {}
        self.away.pop(node, None)
        return sizes

    async def _piece(self, number: int, place: Place, offset: int) -> bytes:
        attempt, node = place
        if node not in self._here:
            return await asyncio.wrap_future(self.elsewhere.read_log(node, number, attempt, offset))
        where = self._here[node], number, attempt, offset, CHUNK_BYTES
        return await run_in_threadpool(read_log, *where)

    def _nodes_here(self) -> dict[str, Path]:
        nodes = self.folder / "nodes"
        return {path.name: path for path in nodes.iterdir()} if nodes.is_dir() else {}
