"""The logs of one job over its attempts and nodes, on this machine and on others."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from starlette.concurrency import run_in_threadpool

from volvelle.live.agent.logs import log_sizes, read_log
from volvelle.live.messages import AttemptKey, is_attempt
from volvelle.live.nodes.node_logs import CHUNK_BYTES, NodeLogs, NodeUnreachableError
from volvelle.live.status.view import JobStatusView

_MAX_ATTEMPTS = 10_000
"""Attempts from here on are not missed: agents say which there were."""

LogFile = tuple[AttemptKey, str]
"""An attempt and a node; logs are read in this order."""


@dataclass
class JobLogs:
    """The logs of a job, and how far they were read.

    folder: the executor's on this machine, with the folders of its local agents. remote: reads from other
    nodes.
    """

    folder: Path
    remote: NodeLogs
    unreachable: dict[str, str] = field(default_factory=dict)
    """Messages about nodes that could not be asked, by node."""
    _local_folders: dict[str, Path] = field(default_factory=dict)
    """The folders of agents on this machine, by node."""
    _offsets: dict[LogFile, int] = field(default_factory=dict)
    _several: bool = False
    """Whether there is more than one log."""
    _attempts: set[int] = field(default_factory=set)
    """Of which attempts there are logs."""
    _last: LogFile | None = None
    """The log that was read last."""
    _complete: dict[str, int] = field(default_factory=dict)
    """Remote nodes that were read to the end, with the job's latest attempt there."""

    async def find_grown(self, job: JobStatusView) -> dict[LogFile, int]:
        """The logs of ``job`` that have grown since they were read, and their sizes."""
        self._local_folders = await run_in_threadpool(self._find_local_folders)
        found: dict[str, dict[str, int]] = {}
        for node, folder in self._local_folders.items():
            found[node] = await run_in_threadpool(log_sizes, folder, job.number, job.identity)
        current_nodes = {node for node, _ in job.grants}
        remote_nodes = [
            node
            for node, attempt in job.ran_on.items()
            if node not in self._local_folders
            and (node in current_nodes or self._complete.get(node) != attempt)
        ]
        answers = await asyncio.gather(*(self._remote_sizes(node, job) for node in remote_nodes))
        found |= dict(zip(remote_nodes, answers, strict=True))
        sizes = {
            (AttemptKey.parse(attempt), node): size
            for node, by_attempt in found.items()
            for attempt, size in by_attempt.items()
        }
        self._several, self._attempts = len(sizes) > 1, {key.attempt for key, _ in sizes}
        return {
            log: size for log, size in sorted(sizes.items()) if size > self._offsets.get(log, 0)
        }

    async def read(self, job: JobStatusView, grown: dict[LogFile, int]) -> AsyncIterator[bytes]:
        """The new content of the logs that have ``grown``, one after the other.

        Where there are several, a line says which one follows; another, which attempts nothing is kept of.
        """
        if self._last is None and grown and not self.unreachable:
            end = min(max(self._attempts), _MAX_ATTEMPTS)
            lost = sorted(set(range(1, end)) - self._attempts)
            if lost:
                yield f"==> nothing is kept of {_attempts(lost)}: pruned <==\n".encode()
        for log, size in grown.items():
            try:
                while (offset := self._offsets.get(log, 0)) < size:
                    chunk = await self._read_chunk(log, offset)
                    if not chunk:
                        break
                    if log != self._last and (self._last is not None or self._several):
                        yield f"==> attempt {log[0].attempt} on {log[1]} <==\n".encode()
                    self._last = log
                    self._offsets[log] = offset + len(chunk)
                    yield chunk
            except NodeUnreachableError as error:
                self.unreachable[log[1]] = str(error)
        current_nodes = {node for node, _ in job.grants}
        for node, attempt in job.ran_on.items():
            if node not in current_nodes and node not in self.unreachable:
                self._complete[node] = attempt

    async def _remote_sizes(self, node: str, job: JobStatusView) -> dict[str, int]:
        try:
            found = self.remote.log_sizes(node, job.number, job.identity)
            sizes = await asyncio.wrap_future(found)
        except NodeUnreachableError as error:
            self.unreachable[node] = str(error)
            return {}
        self.unreachable.pop(node, None)
        return {attempt: size for attempt, size in sizes.items() if _is_of(job, attempt)}

    async def _read_chunk(self, log: LogFile, offset: int) -> bytes:
        attempt, node = str(log[0]), log[1]
        if node not in self._local_folders:
            return await asyncio.wrap_future(self.remote.read_log(node, attempt, offset))
        position = self._local_folders[node], attempt, offset, CHUNK_BYTES
        return await run_in_threadpool(read_log, *position)

    def _find_local_folders(self) -> dict[str, Path]:
        nodes = self.folder / "nodes"
        return {path.name: path for path in nodes.iterdir()} if nodes.is_dir() else {}


def _is_of(job: JobStatusView, attempt: str) -> bool:
    """Whether an agent answers with an attempt of the job that it was asked for."""
    if not is_attempt(attempt):
        return False
    key = AttemptKey.parse(attempt)
    return (key.number, key.job) == (job.number, job.identity)


def _attempts(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"attempt {numbers[0]}"
    return f"attempts {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
