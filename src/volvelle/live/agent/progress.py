"""Progress of an attempt: the fields of its control block, and its script's lines in ``metrics.jsonl``."""

import msgspec

from volvelle.client.control_block import (
    EPOCH_MILLIONTHS,
    ITERATION_NS,
    ITERATIONS,
    OWN_BATCH_SIZE,
    SAVED_ITERATIONS,
    TOTAL_EPOCHS,
    TOTAL_ITERATIONS,
    ControlBlock,
)
from volvelle.live.agent.folders import AttemptFolder
from volvelle.live.agent.wire import NodeTask
from volvelle.live.messages import AttemptProgress, TrainingMeasure, merge_metrics

_MAX_BYTES = 1 << 20
_FIELDS = (
    ITERATIONS,
    SAVED_ITERATIONS,
    TOTAL_ITERATIONS,
    ITERATION_NS,
    EPOCH_MILLIONTHS,
    TOTAL_EPOCHS,
    OWN_BATCH_SIZE,
)


class _Line(msgspec.Struct):
    """A line that `volvelle.client` writes for an iteration; its other fields are not needed."""

    metrics: dict[str, float | None] = {}
    training: dict[str, float] | None = None


class ProgressReader:
    """Reads the changes of an attempt's progress."""

    def __init__(self, task: NodeTask, folder: AttemptFolder, block: ControlBlock) -> None:
        self._task, self._folder, self._block = task, folder, block
        self._offset = 0
        self._last = self._fields()

    def changes(self) -> AttemptProgress | None:
        """Progress since the last call; None if nothing changed."""
        fields, (metrics, training) = self._fields(), self._reported()
        if fields == self._last and not metrics and training is None:
            return None
        self._last = fields
        return AttemptProgress(
            *self._task.key,
            iterations=fields[0],
            saved_iterations=fields[1],
            total_iterations=fields[2],
            iteration_seconds=fields[3] * 1e-9,
            epochs=fields[4] * 1e-6,
            total_epochs=fields[5],
            batch_size=fields[6],
            metrics=metrics,
            training=training,
        )

    def _fields(self) -> tuple[int, ...]:
        block = self._block
        return tuple(block[field] for field in _FIELDS)

    def _reported(self) -> tuple[dict[str, float], TrainingMeasure | None]:
        """The latest value of every metric, and measure, in the complete lines that were added."""
        try:
            size = self._folder.metrics.stat().st_size
            if size == self._offset:
                return {}, None
            with self._folder.metrics.open("rb") as file:
                file.seek(max(self._offset, size - _MAX_BYTES))
                added = file.read(_MAX_BYTES)
        except OSError:
            return {}, None
        complete = added[: added.rfind(b"\n") + 1]
        self._offset = max(self._offset, size - _MAX_BYTES) + len(complete)
        latest: dict[str, float] = {}
        training: TrainingMeasure | None = None
        for line in complete.splitlines():
            try:
                decoded = msgspec.json.decode(line, type=_Line)
                training = _measure(decoded.training) or training
            except msgspec.MsgspecError:  # a truncated or foreign line
                continue
            for name, number in decoded.metrics.items():
                if number is not None:
                    latest[name] = number
        return merge_metrics({}, latest), training


def _measure(numbers: dict[str, float] | None) -> TrainingMeasure | None:
    """The metrics in a line of the training; lines have floats only. Raises `msgspec.ValidationError`."""
    if numbers is None:
        return None
    whole = {name: int(one) if one.is_integer() else one for name, one in numbers.items()}
    return msgspec.convert(whole, TrainingMeasure)
