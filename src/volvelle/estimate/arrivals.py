"""Whether jobs will come to a pool: gradient-boosted trees over its past (anticipatory scheduling, 5.2, 5.4).

``WillJobsArrive`` (table 9) is asked for each pool and quantum, a stretch of time that begins now. One model
serves all pools. It is trained by LightGBM (the extra ``arrivals``) and kept as plain arrays in a JSON file,
so that predictions need nothing beside NumPy. ``NewLoadEstimate`` is the most that came in the recent quanta.

No feature looks ahead. Table 9 counts jobs in (-xp, -xp + k], which for k > xp reaches beyond now; here such
a window ends now. A feature is worked out when its moment comes, from what is known then, and its label when
the quantum is over.
"""

import copy
import json
import math
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from volvelle.core.compiled import compiled
from volvelle.estimate.quanta import DEFAULT, read_quanta
from volvelle.model.problems import Problem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FORMAT = 1
"""Of model files."""
QUANTA = read_quanta(DEFAULT)
"""Seconds: the paper's 5 minutes, 1 hour, 12 hours."""
_HOUR, _DAY = 3600.0, 86400.0
_AGO = np.array([_HOUR, 2 * _HOUR, 3 * _HOUR, _DAY, 2 * _DAY, 3 * _DAY])
_SPANS = np.array([1.0, 10.0, 100.0])
PERIODIC, RECENT, COMPLETIONS, FUTURE = slice(0, 6), slice(6, 9), slice(9, 12), slice(12, 14)
"""Where table 9's groups of features stand."""
FEATURES = (
    *(f"new {ago} ago" for ago in ("1 h", "2 h", "3 h", "1 d", "2 d", "3 d")),
    *(f"new in {span} quanta" for span in (1, 10, 100)),
    *(f"ended in {span} quanta" for span in (1, 10, 100)),
    "to end within the quantum",
    "to end later",
)
_ROWS = 200_000
"""The most rows that a model is trained on: the latest."""
_SETTINGS = {
    "objective": "binary",
    "is_unbalance": True,
    "num_leaves": 15,
    "max_depth": 6,
    "learning_rate": 0.1,
    "min_data_in_leaf": 50,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "seed": 0,
    "verbose": -1,
}
_TREES = 60


class Past:
    """What came to pools and ended there; times are seconds, ascending in each pool.

    came, ended: (pools, room) times, of which the first ``arrivals[pool]`` and ``ends[pool]`` count. load:
    (pools, room + 1) running sums of the GPUs that came. began: since when it is known.
    """

    def __init__(self, pools: int, began: float) -> None:
        self.began = began
        self.came, self.ended = np.zeros((pools, 16)), np.zeros((pools, 16))
        self.load = np.zeros((pools, 17))
        self.arrivals = np.zeros(pools, dtype=np.int64)
        self.ends = np.zeros(pools, dtype=np.int64)

    def arrive(self, pool: int, time: float, gpus: float) -> None:
        """A job came; one told late counts as of the last that came before it."""
        count = int(self.arrivals[pool])
        if count == self.came.shape[1]:
            self.came, self.load = _wider(self.came), _wider(self.load)
        self.came[pool, count] = max(time, self.came[pool, count - 1]) if count else time
        self.load[pool, count + 1] = self.load[pool, count] + gpus
        self.arrivals[pool] += 1

    def end(self, pool: int, time: float) -> None:
        """A job ended."""
        count = int(self.ends[pool])
        if count == self.ended.shape[1]:
            self.ended = _wider(self.ended)
        self.ended[pool, count] = time
        self.ends[pool] += 1

    def features(
        self, now: float, quanta: Floats, running: Ints, expected: Floats
    ) -> NDArray[np.float64]:
        """(quanta, pools, features) as of ``now``.

        running: pools of the jobs that run; expected: seconds until each is believed to end.
        """
        found = np.zeros((len(quanta), len(self.arrivals), len(FEATURES)))
        _features(
            found,
            now,
            quanta,
            _AGO,
            _SPANS,
            self.came,
            self.arrivals,
            self.ended,
            self.ends,
            running,
            expected,
        )
        return found

    def came_within(self, start: float, end: float) -> Ints:
        """How many jobs came to each pool after ``start`` and no later than ``end``."""
        return _came_within(self.came, self.arrivals, start, end)

    def rates(self, now: float, quanta: Floats, windows: int) -> Floats:
        """The share of the last ``windows`` quanta in which jobs came, (quanta, pools).

        Fewer where less is known; 1 where not even one quantum is.
        """
        return _recent(self.came, self.arrivals, self.load, self.began, now, quanta, windows)[0]

    def most_load(self, now: float, quanta: Floats, windows: int) -> Floats:
        """The most GPUs that came in one of the last ``windows`` quanta, (quanta, pools): NewLoadEstimate.

        Windows overlap by half. Infinite where not even one quantum is known.
        """
        return _recent(self.came, self.arrivals, self.load, self.began, now, quanta, windows)[1]

    def __repr__(self) -> str:
        return f"Past({self.began}, {self.arrivals}, {self.ends}, {self.came!r}, {self.ended!r})"


def _wider(table: Floats) -> Floats:
    return np.concatenate([table, np.zeros_like(table)], axis=1)


@compiled
def _until(times: Floats, count: int, end: float) -> int:
    """How many of the first ``count`` times are no later than ``end``."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if times[middle] <= end:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _features(
    found: Floats,
    now: float,
    quanta: Floats,
    ago: Floats,
    spans: Floats,
    came: Floats,
    arrivals: Ints,
    ended: Floats,
    ends: Ints,
    running: Ints,
    expected: Floats,
) -> None:
    """`Past.features`, written to ``found``."""
    for at in range(len(quanta)):
        quantum = quanta[at]
        for pool in range(len(arrivals)):
            here, count = came[pool], arrivals[pool]
            known = _until(here, count, now)
            for which in range(len(ago)):
                start = now - ago[which]
                first = _until(here, known, start)
                found[at, pool, which] = _until(here, known, min(start + quantum, now)) - first
            for which in range(len(spans)):
                start = now - spans[which] * quantum
                found[at, pool, 6 + which] = known - _until(here, known, start)
                over = _until(ended[pool], ends[pool], now)
                found[at, pool, 9 + which] = over - _until(ended[pool], over, start)
        for job in range(len(running)):
            if running[job] >= 0:
                found[at, running[job], 12 + int(expected[job] > quantum)] += 1.0


@compiled
def _came_within(came: Floats, arrivals: Ints, start: float, end: float) -> Ints:
    found = np.zeros(len(arrivals), dtype=np.int64)
    for pool in range(len(arrivals)):
        last = _until(came[pool], arrivals[pool], end)
        found[pool] = last - _until(came[pool], last, start)
    return found


@compiled
def _recent(
    came: Floats,
    arrivals: Ints,
    load: Floats,
    began: float,
    now: float,
    quanta: Floats,
    windows: int,
) -> tuple[Floats, Floats]:
    """`Past.rates` and `Past.most_load`."""
    rates = np.ones((len(quanta), len(arrivals)))
    most = np.full((len(quanta), len(arrivals)), np.inf)
    for at in range(len(quanta)):
        quantum = quanta[at]
        known = min(int((now - began) // quantum), windows)
        if known < 1:
            continue
        for pool in range(len(arrivals)):
            busy, largest = 0, 0.0
            for half in range(2 * known - 1):
                end = now - 0.5 * half * quantum
                last = _until(came[pool], arrivals[pool], end)
                first = _until(came[pool], last, end - quantum)
                largest = max(largest, load[pool, last] - load[pool, first])
                if half % 2 == 0 and last > first:
                    busy += 1
            rates[at, pool], most[at, pool] = busy / known, largest
    return rates, most


class Trees(NamedTuple):
    """Decision trees, all nodes one after another.

    roots: the first node of each tree. feature: by which a node splits, -1 for a leaf. value: up to which the
    left child follows; of a leaf what it adds to the log odds.
    """

    roots: Ints
    feature: Ints
    value: Floats
    left: Ints
    right: Ints


class QuantumSamples:
    """Features with what came of them, by quantum: what a model is trained on. Forks share the rows."""

    def __init__(self, quanta: int) -> None:
        self.features: list[list[Floats]] = [[] for _ in range(quanta)]
        self.came: list[list[NDArray[np.bool_]]] = [[] for _ in range(quanta)]
        self.rows = [0] * quanta

    def add(self, quantum: int, features: Floats, came: NDArray[np.bool_]) -> None:
        """Of a moment: features (pools, features), and to which pools jobs came."""
        kept, labels = self.features[quantum], self.came[quantum]
        kept.append(features)
        labels.append(came)
        self.rows[quantum] += len(came)
        while self.rows[quantum] - len(labels[0]) >= _ROWS:
            kept.pop(0)
            self.rows[quantum] -= len(labels.pop(0))

    def __deepcopy__(self, memo: dict[int, Any]) -> "QuantumSamples":
        found = copy.copy(self)
        found.features = [list(each) for each in self.features]
        found.came = [list(each) for each in self.came]
        found.rows = list(self.rows)
        return found

    def __repr__(self) -> str:
        return f"QuantumSamples({self.rows})"


class ArrivalModel(NamedTuple):
    """Trees for each of ``quanta``, seconds, over ``features``."""

    quanta: tuple[float, ...]
    features: tuple[str, ...]
    trees: tuple[Trees, ...]

    def chances(self, features: Floats) -> Floats:
        """How likely jobs come, (quanta, pools), by (quanta, pools, features)."""
        odds = [_log_odds(at, *trees) for at, trees in zip(features, self.trees, strict=True)]
        found: Floats = 1.0 / (1.0 + np.exp(-np.stack(odds)))
        return found

    @classmethod
    def train(
        cls, samples: QuantumSamples, quanta: Sequence[float], *, only: Sequence[int] = ()
    ) -> Self:
        """By LightGBM, from all ``samples``. only: the features that may be looked at (none given: all).

        Raises `Problem` without LightGBM, or where nothing was seen for one of ``quanta``.
        """
        lightgbm, found = _lightgbm(), []
        for quantum, kept, labels in zip(quanta, samples.features, samples.came, strict=True):
            if not kept:
                raise Problem(
                    f"nothing is known of what came within {quantum:g} s",
                    mend="train on a longer past, or with shorter quanta",
                )
            rows, came = np.concatenate(kept), np.concatenate(labels)
            if only:
                hidden = np.ones(rows.shape[1], dtype=np.bool_)
                hidden[list(only)] = False
                rows[:, hidden] = 0.0
            if came.all() or not came.any():  # nothing to tell apart
                found.append(_leaf(float(came.mean())))
                continue
            data = lightgbm.Dataset(rows, came.astype(np.float64), free_raw_data=True)
            found.append(_flat(lightgbm.train(_SETTINGS, data, _TREES).dump_model()))
        return cls(tuple(quanta), FEATURES, tuple(found))

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        trees = [
            {name: part.tolist() for name, part in each._asdict().items()} for each in self.trees
        ]
        path.write_text(
            json.dumps(
                {
                    "arrivals": FORMAT,
                    "quanta": self.quanta,
                    "features": self.features,
                    "trees": trees,
                }
            ),
            encoding="utf-8",
        )

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote. Raises `Problem` where it cannot be read or is of another version."""
        again = "train it again: volvelle train-arrivals"
        try:
            text = json.loads(path.read_text(encoding="utf-8"))
            version, features = text["arrivals"], tuple(text["features"])
        except OSError as error:
            raise Problem(f"no model of arrivals at {path}: {error.strerror}", mend=again) from None
        except (ValueError, KeyError, TypeError):
            raise Problem(f"{path} is no model of arrivals", mend=again) from None
        if version != FORMAT:
            raise Problem(f"{path} is of version {version}, this is {FORMAT}", mend=again)
        if features != FEATURES:
            other = next(iter({*features} ^ {*FEATURES}), "their order")
            raise Problem(f"{path} goes by other features: {other!r}", mend=again)
        try:
            trees = tuple(
                Trees(*(np.array(each[name], _KINDS[name]) for name in Trees._fields))
                for each in text["trees"]
            )
            found = cls(tuple(map(float, text["quanta"])), features, trees)
        except (ValueError, KeyError, TypeError):
            raise Problem(f"{path} is no model of arrivals", mend=again) from None
        if len(trees) != len(found.quanta) or not all(map(_whole, trees)):
            raise Problem(f"{path} is damaged: trees with parts missing", mend=again)
        return found


_KINDS: dict[str, Any] = {
    name: np.float64 if name == "value" else np.int64 for name in Trees._fields
}


def _whole(trees: Trees) -> bool:
    """Whether every split leads to nodes behind it, so that each way ends in a leaf."""
    size = len(trees.feature)
    if {len(trees.value), len(trees.left), len(trees.right)} != {size} or not len(trees.roots):
        return False
    splits = np.flatnonzero(trees.feature >= 0)
    children = np.concatenate([trees.left[splits], trees.right[splits]])
    return bool(
        (children > np.tile(splits, 2)).all()
        and (children < size).all()
        and (trees.feature < len(FEATURES)).all()
        and (trees.roots >= 0).all()
        and (trees.roots < size).all()
    )


@compiled
def _log_odds(
    features: Floats, roots: Ints, feature: Ints, value: Floats, left: Ints, right: Ints
) -> Floats:
    found = np.zeros(len(features))
    for row in range(len(features)):
        total = 0.0
        for root in roots:
            node = root
            while feature[node] >= 0:
                node = left[node] if features[row, feature[node]] <= value[node] else right[node]
            total += value[node]
        found[row] = total
    return found


def _leaf(chance: float) -> Trees:
    """The same answer to everything."""
    bounded = min(max(chance, 1e-3), 1.0 - 1e-3)
    one = np.array([-1])
    return Trees(np.array([0]), one, np.array([math.log(bounded / (1.0 - bounded))]), one, one)


def _flat(dumped: dict[str, Any]) -> Trees:
    """The trees of a LightGBM model. Counts are never missing, so nothing goes by that."""
    roots: list[int] = []
    nodes: list[list[float]] = []

    def add(node: dict[str, Any]) -> int:
        place = len(nodes)
        if "split_feature" not in node:
            nodes.append([-1, node["leaf_value"], -1, -1])
            return place
        nodes.append([node["split_feature"], node["threshold"], -1, -1])
        nodes[place][2] = add(node["left_child"])
        nodes[place][3] = add(node["right_child"])
        return place

    for tree in dumped["tree_info"]:
        roots.append(add(tree["tree_structure"]))
    feature, value, left, right = np.array(nodes, dtype=np.float64).T
    return Trees(
        np.array(roots, dtype=np.int64),
        feature.astype(np.int64),
        value.copy(),
        left.astype(np.int64),
        right.astype(np.int64),
    )


def _lightgbm() -> ModuleType:
    try:
        import lightgbm  # noqa: PLC0415 - heavy, and few train
    except (ImportError, OSError) as error:  # OSError: no OpenMP on this machine
        raise Problem(
            f"training needs LightGBM, which cannot be loaded: {error}",
            mend="pip install 'volvelle[arrivals]'; a model that is trained needs no LightGBM",
        ) from None
    module: ModuleType = lightgbm
    return module


def record(
    submit: Floats, gpus: Floats, seconds: Floats, pool: Ints, quanta: Sequence[float] = QUANTA
) -> QuantumSamples:
    """What a model is to be trained on, of jobs of the past as if each had begun at its submission.

    submit, ascending, seconds, GPUs and pool (-1: none) of each job. Moments are as far apart as the shortest
    quantum; each adds a row for every pool.
    """
    lengths = np.array(quanta)
    samples = QuantumSamples(len(quanta))
    pools = int(pool.max(initial=-1)) + 1
    mine = np.flatnonzero(pool >= 0)
    if not len(mine):
        return samples
    submit, gpus, pool = submit[mine], gpus[mine], pool[mine]
    ends = submit + seconds[mine]
    by_end = np.argsort(ends, kind="stable")
    past, first, last = Past(pools, float(submit[0])), float(submit[0]), float(submit[-1])
    whole = Past(pools, first)
    for job in range(len(submit)):
        whole.arrive(int(pool[job]), float(submit[job]), float(gpus[job]))
    come = gone = 0
    now = first
    while now <= last:
        while come < len(submit) and submit[come] <= now:
            past.arrive(int(pool[come]), float(submit[come]), float(gpus[come]))
            come += 1
        while gone < len(ends) and ends[by_end[gone]] <= now:
            past.end(int(pool[by_end[gone]]), float(ends[by_end[gone]]))
            gone += 1
        runs = np.flatnonzero((submit <= now) & (ends > now))
        features = past.features(now, lengths, pool[runs], ends[runs] - now)
        for at, quantum in enumerate(quanta):
            if now + quantum <= last:
                samples.add(at, features[at], whole.came_within(now, now + quantum) > 0)
        now += float(lengths.min())
    return samples
