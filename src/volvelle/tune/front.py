"""The front: what a search found, its named points, and the file that holds it.

``front.json`` is read back by ``--policy pcs:front.json#balanced`` (`volvelle.core.fronts`) and by
``--resume``.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from volvelle.core.space import Point
from volvelle.metrics.catalogue import Objective
from volvelle.model.arrays import FloatColumn
from volvelle.model.problems import Problem
from volvelle.report.table import format_cell, measure_column

FORMAT = 1
FRONT = "front.json"

_BEST = {
    "jct": "fastest",
    "eta_error": "most-predictable",
    "unfairness": "fairest",
    "unfair": "fairest",
    "rho": "fairest",
}
"""Names of the best points by a metric; by another metric it is ``best-METRIC``."""

BALANCED = "balanced"

Figures = tuple[tuple[float, ...], ...]
"""For each sample, the figure of each objective."""


@dataclass(frozen=True)
class Candidate:
    """A point that was tried: its parameters, and its figures on every sample.

    refined: the point is of the finer space around its parameters, not of the policy's own. Points of a front
    know what they are: searched, their numbers by name, and facts.
    """

    point: Point
    parameters: str
    train: Figures
    test: Figures = ()
    refined: bool = False
    searched: Mapping[str, float] | None = None
    facts: Mapping[str, Any] | None = None

    @property
    def mean(self) -> tuple[float, ...]:
        """Each objective's mean over the samples to choose by."""
        return _means(self.train)

    @property
    def tested(self) -> tuple[float, ...]:
        """Each objective's mean over the samples of the test; empty where it was not tested."""
        return _means(self.test) if self.test else ()


@dataclass(frozen=True)
class Front:
    """The result of a search: candidates that no other beats in all objectives, best first by the first.

    search: all that decides which candidates are tried, as plain JSON values. evaluated: all candidates
    tried, in order. present: the policy in place, as it is written in its ``parameters``; None where none
    is known.
    """

    policy: str
    objectives: tuple[Objective, ...]
    points: tuple[Candidate, ...]
    evaluated: tuple[Candidate, ...]
    search: Mapping[str, Any]
    complete: bool = True
    present: Candidate | None = None

    @property
    def picks(self) -> dict[str, int]:
        """The points with a name, by what they were chosen by: the samples of the earlier part."""
        if not self.points:
            return {}
        costs = costs_of([point.mean for point in self.points], self.objectives)
        picks: dict[str, int] = {}
        for column, objective in enumerate(self.objectives):
            name = _BEST.get(objective.metric.name, f"best-{objective.metric.name}")
            if name in picks:
                name = f"{name}-{objective.measure}"
            ranked = np.lexsort((*np.delete(costs, column, axis=1).T, costs[:, column]))
            picks[name] = int(ranked[0])
        picks[BALANCED] = _balanced(costs)
        return picks

    @property
    def named(self) -> dict[str, int]:
        """The points with names, each once, under all that it has."""
        return {", ".join(self.names_of(at)): at for at in dict.fromkeys(self.picks.values())}

    def names_of(self, index: int) -> list[str]:
        """The names of point ``index``."""
        return [name for name, at in self.picks.items() if at == index]

    def figure(self, candidate: Candidate, column: int) -> str:
        """The mean of objective ``column`` over the samples to choose by, with its unit."""
        return format_cell(candidate.mean[column], self.objectives[column].metric.unit)

    def in_words(self, index: int) -> str:
        """Gains and costs of point ``index`` against the best by the first objective."""
        first = self.points[0]
        point = self.points[index]
        title = title_of(self.objectives[0])
        if index == 0 or point.mean == first.mean:
            return f"best by {title}: {self.figure(first, 0)}"
        said = [self._change(first, point, column) for column in range(1, len(self.objectives))]
        return f"{', '.join(said)}, {self._price(first.mean[0], point.mean[0])} {title}"

    def against_present(self, index: int) -> str:
        """Changes of point ``index`` against the policy in place; empty where none is known."""
        if self.present is None:
            return ""
        columns = range(len(self.objectives))
        return ", ".join(self._change(self.present, self.points[index], at) for at in columns)

    def beats_present(self, index: int) -> bool:
        """Whether point ``index`` is better in anything than the policy that is in place, if one is known."""
        if self.present is None:
            return True
        means = [self.points[index].mean, self.present.mean]
        point, present = costs_of(means, self.objectives)
        return bool((point < present).any())

    def _change(self, one: Candidate, other: Candidate, column: int) -> str:
        title = title_of(self.objectives[column])
        before, after = self.figure(one, column), self.figure(other, column)
        if before == after:
            return f"{title} stays {after}"
        verb = "falls" if other.mean[column] < one.mean[column] else "rises"
        return f"{title} {verb} from {before} to {after}"

    def _price(self, best: float, paid: float) -> str:
        if not best or paid / best < 0:
            return f"for {format_cell(paid - best, self.objectives[0].metric.unit)} more"
        factor = f"{paid / best:.2f}".rstrip("0").rstrip(".")
        return f"for {factor}x the" if factor != "1" else "at about the same"

    def as_json(self) -> dict[str, Any]:
        """The content of the file."""
        return {
            "format": FORMAT,
            "policy": self.policy,
            "search": dict(self.search),
            "complete": self.complete,
            "objectives": [
                {"name": str(o), "unit": o.metric.unit, "better": o.metric.better}
                for o in self.objectives
            ],
            "picks": self.picks,
            **({} if self.present is None else {"present": self._present(self.present)}),
            "points": [
                {
                    "written": f"{self.policy}:{point.parameters}",
                    "names": self.names_of(index),
                    "in_words": self.in_words(index),
                    "parameters": point.parameters,
                    **(point.facts or {}),
                    "searched": dict(point.searched or {}),
                    "train": self._spread(point.train),
                    "test": self._spread(point.test),
                }
                for index, point in enumerate(self.points)
            ],
            "evaluated": [
                {
                    "point": one.point,
                    "parameters": one.parameters,
                    "figures": [[*map(_number, figures)] for figures in one.train],
                    **({"refined": True} if one.refined else {}),
                }
                for one in self.evaluated
            ],
        }

    def _present(self, present: Candidate) -> dict[str, Any]:
        return {
            "written": present.parameters,
            "train": self._spread(present.train),
            "test": self._spread(present.test),
        }

    def _spread(self, figures: Figures) -> dict[str, dict[str, Any]]:
        columns = list(zip(*figures, strict=True))
        return {
            str(objective): {
                "mean": _number(float(np.mean(column))),
                "low": _number(min(column)),
                "high": _number(max(column)),
                "samples": [*map(_number, column)],
            }
            for objective, column in zip(self.objectives, columns, strict=bool(columns))
        }

    def write(self, directory: Path) -> Path:
        """Write ``front.json``; a half-written one is never seen."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / FRONT
        partial = path.with_suffix(".json.partial")
        document = json.dumps(self.as_json(), indent=1, ensure_ascii=False, allow_nan=False)
        partial.write_text(document + "\n", encoding="utf-8")
        partial.replace(path)
        return path


def read_evaluated(path: Path, search: Mapping[str, Any]) -> tuple[Candidate, ...]:
    """The candidates that an earlier search tried, if it was the same ``search``. Raises `Problem`."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        earlier = document["search"]
        tried = tuple(
            Candidate(
                tuple(one["point"]),
                one["parameters"],
                tuple(tuple(map(_figure, figures)) for figures in one["figures"]),
                refined=one.get("refined", False),
            )
            for one in document["evaluated"]
        )
    except OSError as error:
        raise Problem(
            f"there is nothing to resume: cannot read {path}: {error.strerror}",
            mend="leave out --resume, or name the earlier search's folder with --out",
            usage=True,
        ) from None
    except (ValueError, KeyError, TypeError):
        raise Problem(
            f"{path} is not a front file", mend="leave out --resume to begin anew", usage=True
        ) from None
    for key, value in json.loads(json.dumps(search)).items():
        if earlier.get(key) != value:
            raise Problem(
                f"{path} is of another search: its {key} is {earlier.get(key)!r}, not {value!r}",
                mend="leave out --resume to begin anew, or choose another folder with --out",
                usage=True,
            )
    return tried


def front_of(candidates: Sequence[Candidate], objectives: Sequence[Objective]) -> list[Candidate]:
    """Candidates that no other beats or equals in all objectives, best first by the first objective."""
    if not candidates:
        return []
    costs = costs_of([candidate.mean for candidate in candidates], objectives)
    kept: list[int] = []
    for row in np.lexsort(costs.T[::-1]).tolist():
        better = (costs[kept] <= costs[row]).all(axis=1) if kept else np.zeros(0, dtype=np.bool_)
        if not better.any():
            kept.append(row)
    return [candidates[row] for row in kept]


def costs_of(means: Sequence[tuple[float, ...]], objectives: Sequence[Objective]) -> FloatColumn:
    """Figures, (candidates, objectives), turned so that less is better; NaN is the worst."""
    signs = [-1.0 if objective.metric.better == "higher" else 1.0 for objective in objectives]
    figures = np.array(means).reshape(-1, len(signs))
    return np.nan_to_num(figures * signs, nan=1e300, posinf=1e300)


def title_of(objective: Objective) -> str:
    """``mean JCT``: the objective as a table heads it."""
    return measure_column(objective).title


def _balanced(costs: FloatColumn) -> int:
    """The point nearest to the best of everything, each objective from 0 to 1 over the front."""
    low, span = costs.min(axis=0), np.ptp(costs, axis=0)
    shares = (costs - low) / np.where(span > 0.0, span, 1.0)
    return int(np.argmin((shares**2).sum(axis=1)))


def _number(figure: float) -> float | None:
    """JSON has no number for what is not known."""
    return figure if math.isfinite(figure) else None


def _figure(number: float | None) -> float:
    return math.nan if number is None else float(number)


def _means(figures: Figures) -> tuple[float, ...]:
    return tuple(float(np.mean(column)) for column in zip(*figures, strict=True))
