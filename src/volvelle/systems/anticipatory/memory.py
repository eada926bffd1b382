"""The memory of `anticipatory` beside the jobs: one array of numbers, and the names of its parts.

The array begins with single numbers. Then come the quanta, the kinds of jobs seen so far, numbers of each
pool, expected GPUs, arrivals and ends, and predictions with their outcomes.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from volvelle.core.columns import COUNT
from volvelle.core.compiled import kernel
from volvelle.model.arrays import Floats
from volvelle.systems.anticipatory.past import Past

NOTED, ROLE = COUNT, COUNT + 1
"""Own columns: whether the arrival of the job is noted; the role of a running job."""
NO_ROLE, DEDICATED, BORROWED = 0.0, 1.0, 2.0

(
    ASK_AT,  # when predictions are due
    BEHIND,  # 1 where kinds or the past need more room
    PREEMPT,  # these two are parameters of the policy
    BOUNDED,
    POOLS,
    QUANTA,
    PREDICTED,  # quanta that are predicted: the first ones
    OPEN,  # predictions of a quantum that may be open
    KINDS,  # that fit
    USED,  # kinds
    ROOM,  # arrivals of a pool that fit
    BY_MODEL,  # 1 where Python predicts
    WINDOWS,  # these three are parameters of the policy
    LEAST_RECALL,
    LEAST_PRECISION,
    HEAD,
) = range(16)
"""Single numbers."""

KIND_POOL, KIND_GPUS, KIND_MOST, KIND_TYPES, KIND_WITHIN, KIND_STOPS, KIND_NEXT = range(7)
"""Of a kind: pool, GPUs, the most that its jobs could use, GPU types, the place of the quantum within which
they end, whether its jobs may be stopped, the next kind of its pool (-1: none)."""
LEVEL, HERE, FIRST, THRESHOLD = range(4)
"""Of a pool: its level, its jobs at the last decision, its first kind, from which chance on work counts."""
_KINDS, _ROOM = 512, 64


class Tables(NamedTuple):
    """Views of the array. kinds: (kinds, 7). by_pool: (4, pools + 1), the last for jobs of no pool.

    expected, kept: GPUs, (quanta, pools).
    """

    quanta: Floats
    kinds: Floats
    by_pool: Floats
    expected: Floats
    kept: Floats


class Predictions(NamedTuple):
    """Views of the array, of the quanta that are predicted.

    chances: how likely jobs come, load: GPUs that come then, off: 1 where predictions do not hold, each
    (quanta, pools). counts: hits, misses, false alarms, (3, quanta, pools). made, told: when predictions were
    made, (quanta, open), and 1 where jobs were to come, (quanta, open, pools): rings of which ``many`` from
    ``first`` on are open.
    """

    chances: Floats
    load: Floats
    off: Floats
    counts: Floats
    made: Floats
    told: Floats
    first: Floats
    many: Floats


@kernel
def _past_from(words: Floats) -> int:
    """Where the past begins."""
    pools, quanta = int(words[POOLS]), int(words[QUANTA])
    return HEAD + quanta + 7 * int(words[KINDS]) + 4 * (pools + 1) + 2 * quanta * pools


@kernel
def tables(words: Floats) -> Tables:
    """The parts of the array that a decision goes by."""
    pools, quanta = int(words[POOLS]), int(words[QUANTA])
    kinds = HEAD + quanta
    by_pool = kinds + 7 * int(words[KINDS])
    expected = by_pool + 4 * (pools + 1)
    kept = expected + quanta * pools
    return Tables(
        words[HEAD:kinds],
        words[kinds:by_pool].reshape((int(words[KINDS]), 7)),
        words[by_pool:expected].reshape((4, pools + 1)),
        words[expected:kept].reshape((quanta, pools)),
        words[kept : kept + quanta * pools].reshape((quanta, pools)),
    )


@kernel
def past_of(words: Floats) -> Past:
    """Arrivals and ends."""
    pools, room, began = int(words[POOLS]), int(words[ROOM]), _past_from(words)
    came = began + 3 * pools
    ended = came + pools * room
    load = ended + pools * room
    return Past(
        words[began : began + pools],
        words[began + pools : began + 2 * pools],
        words[began + 2 * pools : came],
        words[came:ended].reshape((pools, room)),
        words[ended:load].reshape((pools, room)),
        words[load : load + pools * (room + 1)].reshape((pools, room + 1)),
    )


@kernel
def predictions_of(words: Floats) -> Predictions:
    """Predictions and their outcomes."""
    pools, quanta, many = int(words[POOLS]), int(words[PREDICTED]), int(words[OPEN])
    chances, each = _past_from(words) + pools * (3 * int(words[ROOM]) + 4), quanta * pools
    made = chances + 6 * each
    told = made + quanta * many
    first = told + each * many
    return Predictions(
        words[chances : chances + each].reshape((quanta, pools)),
        words[chances + each : chances + 2 * each].reshape((quanta, pools)),
        words[chances + 2 * each : chances + 3 * each].reshape((quanta, pools)),
        words[chances + 3 * each : made].reshape((3, quanta, pools)),
        words[made:told].reshape((quanta, many)),
        words[told:first].reshape((quanta, many, pools)),
        words[first : first + quanta],
        words[first + quanta : first + 2 * quanta],
    )


def _head(room: int) -> Floats:
    head = np.zeros(HEAD)
    head[[KINDS, ROOM, ASK_AT]] = _KINDS, room, -np.inf
    return head


def _words(head: Floats) -> Floats:
    """An array with these single numbers."""
    pools, quanta, many = int(head[POOLS]), int(head[PREDICTED]), int(head[OPEN])
    past = pools * (3 * int(head[ROOM]) + 4)
    predictions = quanta * (pools * (6 + many) + many + 2)
    return np.concatenate([head, np.zeros(_past_from(head) - HEAD + past + predictions)])


@dataclass
class Memory:
    """The array as Python has it. ``words`` is another one where it had to grow."""

    words: Floats = field(default_factory=lambda: _words(_head(_ROOM)))

    def begin(self, quanta: Floats, last: Floats, pools: int, room: int, now: float) -> None:
        """Nothing came yet. quanta: predicted ones; last: those after them; room: arrivals of a pool."""
        head, every = _head(max(room, _ROOM)), np.append(quanta, last)
        many = quanta[-1] // quanta[0] + 2
        head[[POOLS, QUANTA, PREDICTED, OPEN]] = pools, len(every), len(quanta), many
        self.words = _words(head)
        self.tables.quanta[:], self.tables.by_pool[FIRST] = every, -1.0
        self.past.began[:] = now
        self.predictions.chances[:], self.predictions.load[:] = 1.0, np.inf

    @property
    def tables(self) -> Tables:
        """The parts that a decision goes by."""
        return tables(self.words)

    @property
    def past(self) -> Past:
        """Arrivals and ends."""
        return past_of(self.words)

    @property
    def predictions(self) -> Predictions:
        """Predictions and their outcomes."""
        return predictions_of(self.words)

    @property
    def kinds(self) -> int:
        """How many kinds fit."""
        return int(self.words[KINDS])

    def grow(self) -> None:
        """Twice the room of what lacks it."""
        before, head = self.words, self.words[:HEAD].copy()
        head[KINDS if head[USED] == head[KINDS] else ROOM] *= 2.0
        head[BEHIND] = 0.0
        self.words = _words(head)
        for parts in (tables, past_of, predictions_of):
            for mine, old in zip(parts(self.words), parts(before), strict=True):
                mine[tuple(map(slice, old.shape))] = old
