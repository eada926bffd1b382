"""How far an attempt is: what stands on its page, and what its script appended to ``metrics.jsonl``."""

import msgspec

from volvelle.client.control_block import (
    ITERATION_NS,
    ITERATIONS,
    SAVED_ITERATIONS,
    TOTAL_ITERATIONS,
    ControlBlock,
)
from volvelle.live.agent.folders import AttemptFolder
from volvelle.live.agent.wire import Part
from volvelle.live.messages import AttemptProgress

_MOST_BYTES = 1 << 20


class _Line(msgspec.Struct):
    """What `volvelle.client` writes of an iteration; other fields are not for us."""

    metrics: dict[str, float | None]


class Progress:
    """Tells of an attempt what is new."""

    def __init__(self, part: Part, folder: AttemptFolder, block: ControlBlock) -> None:
        self._part, self._folder, self._block = part, folder, block
        self._read = 0
        self._last = self._seen()

    def news(self) -> AttemptProgress | None:
        """What changed since last time, if anything did."""
        seen, metrics = self._seen(), self._metrics()
        if seen == self._last and not metrics:
            return None
        self._last = seen
        return AttemptProgress(
            number=self._part.number,
            attempt=self._part.attempt,
            iterations=seen[0],
            saved_iterations=seen[1],
            total_iterations=seen[2],
            iteration_seconds=seen[3] * 1e-9,
            metrics=metrics,
        )

    def _seen(self) -> tuple[int, int, int, int]:
        block = self._block
        return (
            block[ITERATIONS],
            block[SAVED_ITERATIONS],
            block[TOTAL_ITERATIONS],
            block[ITERATION_NS],
        )

    def _metrics(self) -> dict[str, float]:
        """The latest number under every name in the whole lines that were added."""
        try:
            size = self._folder.metrics.stat().st_size
            if size == self._read:
                return {}
            with self._folder.metrics.open("rb") as file:
                file.seek(max(self._read, size - _MOST_BYTES))
                added = file.read(_MOST_BYTES)
        except OSError:
            return {}
        whole = added[: added.rfind(b"\n") + 1]
        self._read = max(self._read, size - _MOST_BYTES) + len(whole)
        latest: dict[str, float] = {}
        for line in whole.splitlines():
            try:
                metrics = msgspec.json.decode(line, type=_Line).metrics
            except msgspec.MsgspecError:  # a line cut at its beginning, or not ours
                continue
            latest |= {name: number for name, number in metrics.items() if number is not None}
        return latest
