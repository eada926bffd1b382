"""Whether jobs will come to a pool: gradient-boosted trees over its past (anticipatory scheduling, 5.2, 5.4).

``WillJobsArrive`` (table 9) is asked for each pool and quantum, a stretch of time that begins now. One model
serves all pools. It is trained by LightGBM (the extra ``arrivals``) and kept as plain arrays in a JSON file,
so that predictions need nothing beside NumPy. Features are those of `volvelle.systems.anticipatory.past`:
worked out when their moment comes, from what is known then, and the label when the quantum is over.
"""

import copy
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from volvelle.core.compiled import compiled
from volvelle.model.arrays import Floats, Ints
from volvelle.model.extras import install
from volvelle.model.problems import Problem
from volvelle.systems.anticipatory.past import FEATURES, LONGEST_SPAN, Earlier, Past, arrive, end
from volvelle.systems.anticipatory.quanta import DEFAULT, read_quanta

FORMAT = 1
"""Of model files."""
QUANTA = read_quanta(DEFAULT)
"""Seconds: the paper's 5 minutes, 1 hour, 12 hours."""
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


class Trees(NamedTuple):
    """Decision trees, all nodes one after another.

    roots: the first node of each tree. feature: by which a node splits, -1 for a leaf. value: up to which the
    left child follows; of a leaf its part of the log odds.
    """

    roots: Ints
    feature: Ints
    value: Floats
    left: Ints
    right: Ints


@dataclass
class QuantumSamples:
    """Features and outcomes by quantum: the samples of a model. Forks share the rows."""

    features: list[list[Floats]]
    came: list[list[NDArray[np.bool_]]]
    rows: list[int]

    @classmethod
    def of(cls, quanta: int) -> "QuantumSamples":
        """Nothing yet, for so many quanta."""
        every = range(quanta)
        return cls([[] for _ in every], [[] for _ in every], [0 for _ in every])

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


class ArrivalModel(NamedTuple):
    """Trees for each of ``quanta``, seconds, over ``features``. earlier: by pool, the past of a run."""

    quanta: tuple[float, ...]
    features: tuple[str, ...]
    trees: tuple[Trees, ...]
    earlier: dict[str, Earlier] = {}  # noqa: RUF012 - never written to

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
                    "earlier": {name: each._asdict() for name, each in self.earlier.items()},
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
            earlier = {
                name: Earlier(float(each["since"]), *(list(map(float, each[c])) for c in _EARLIER))
                for name, each in text.get("earlier", {}).items()
            }
            found = cls(tuple(map(float, text["quanta"])), features, trees, earlier)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise Problem(f"{path} is no model of arrivals", mend=again) from None
        if len(trees) != len(found.quanta) or not all(map(_whole, trees)):
            raise Problem(f"{path} is damaged: trees with parts missing", mend=again)
        return found


_EARLIER = ("came", "gpus", "ended")
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
            mend=f"{install('arrivals')}; a model that is trained needs no LightGBM",
        ) from None
    module: ModuleType = lightgbm
    return module


def before(
    submit: Floats,
    gpus: Floats,
    seconds: Floats,
    pool: Ints,
    names: Sequence[str],
    end: float,
    quanta: Sequence[float] = QUANTA,
) -> dict[str, Earlier]:
    """Arrivals at the pools ``names`` before ``end``, as far back as features look: the past of a run.

    Columns as of `record`.
    """
    first = max(end - LONGEST_SPAN * max(quanta), float(submit.min(initial=end)))
    there = (submit >= first) & (submit <= end)
    found = {}
    for at, name in enumerate(names):
        mine = there & (pool == at)
        ended = np.sort((submit + seconds)[mine & (submit + seconds <= end)])
        columns = (submit[mine] - end, gpus[mine], ended - end)
        found[name] = Earlier(first - end, *(each.tolist() for each in columns))
    return found


def record(
    submit: Floats, gpus: Floats, seconds: Floats, pool: Ints, quanta: Sequence[float] = QUANTA
) -> QuantumSamples:
    """Samples for a model, from jobs of the past as if each had begun at its submission.

    submit, ascending, seconds, GPUs and pool (-1: none) of each job. Moments are as far apart as the shortest
    quantum; each adds a row for every pool.
    """
    lengths = np.array(quanta)
    samples = QuantumSamples.of(len(quanta))
    pools = int(pool.max(initial=-1)) + 1
    mine = np.flatnonzero(pool >= 0)
    if not len(mine):
        return samples
    submit, gpus, pool = submit[mine], gpus[mine], pool[mine]
    ends = submit + seconds[mine]
    by_end = np.argsort(ends, kind="stable")
    first, last, room = float(submit[0]), float(submit[-1]), int(np.bincount(pool).max())
    past, whole = Past.of(pools, first, room), Past.of(pools, first, room)
    for at in range(len(submit)):
        arrive(whole, int(pool[at]), float(submit[at]), float(gpus[at]))
    come = gone = 0
    now = first
    while now <= last:
        while come < len(submit) and submit[come] <= now:
            arrive(past, int(pool[come]), float(submit[come]), float(gpus[come]))
            come += 1
        while gone < len(ends) and ends[by_end[gone]] <= now:
            end(past, int(pool[by_end[gone]]), float(ends[by_end[gone]]), 1)
            gone += 1
        runs = np.flatnonzero((submit <= now) & (ends > now))
        features = past.features(now, lengths, pool[runs], ends[runs] - now)
        for at, quantum in enumerate(quanta):
            if now + quantum <= last:
                samples.add(at, features[at], whole.came_within(now, now + quantum) > 0)
        now += float(lengths.min())
    return samples
