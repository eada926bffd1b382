"""Predictors of arrivals on Philly's pools: tables 10, 20 and 23, figures 21 and 22 of the paper.

``python experiments/anticipatory/predictors.py`` writes ``results/predictors.md`` beside it. Trained on the
first 45 days, judged on the next 40, every five minutes for each of six pools. ``--days`` judges fewer.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from philly import DAY, LAST, RESULTS, SPLIT, Claim, Jobs, Report, command_line, philly

from volvelle.report.charts import Axis, Plot, Series, cdf, line_chart
from volvelle.systems.anticipatory.arrivals import QUANTA, ArrivalModel, record
from volvelle.systems.anticipatory.past import COMPLETIONS, FEATURES, FUTURE, PERIODIC, RECENT

NAMES = ("5 min", "60 min", "720 min")
SETS = {
    "periodic only": (PERIODIC,),
    "+ recent arrivals": (PERIODIC, RECENT),
    "+ recent completions": (PERIODIC, RECENT, COMPLETIONS),
    "+ future completions": (PERIODIC, RECENT, COMPLETIONS, FUTURE),
}
GROUPS = {
    "all": (0.0, np.inf),
    "x <= 5": (0.0, 5.0),
    "5 < x <= 60": (5.0, 60.0),
    "60 < x <= 720": (60.0, 720.0),
    "x > 720": (720.0, np.inf),
}
"""Table 23's pools by their mean duration, minutes."""
SIGNIFICANT = 0.01
"""The least difference of two F."""

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Given:
    """What the command line said."""

    days: float
    out: Path

    @property
    def setting(self) -> str:
        """In words, for the results."""
        return (
            "six virtual clusters of Philly (the paper: pools of its provider, and Helios), trained on the "
            f"first 45 days by LightGBM, judged on {self.days:g} days that follow"
        )


@dataclass(frozen=True)
class Judged:
    """What was predicted and what came, (moments, pools)."""

    predicted: Bools
    came: Bools

    def scores(self, pools: Bools) -> tuple[float, float, float]:
        """Precision, recall and F of these pools; NaN where there is nothing to judge by."""
        predicted, came = self.predicted[:, pools], self.came[:, pools]
        hits = float((predicted & came).sum())
        with np.errstate(invalid="ignore"):
            precision, recall = np.float64(hits) / predicted.sum(), np.float64(hits) / came.sum()
            f = 2.0 * precision * recall / (precision + recall)
        return float(precision), float(recall), float(f)


def main() -> None:
    days = {"days": ((LAST - SPLIT) / DAY, "how many are judged")}
    given = Given(**vars(command_line(__doc__, RESULTS, days)))
    study(philly(), given)


def study(jobs: Jobs, given: Given) -> None:
    report = Report("predictors", "Whether jobs come: predictors on Philly's pools", given)
    train = record(*jobs.between(0.0, SPLIT)[:4])
    test = record(*jobs.between(SPLIT, SPLIT + given.days * DAY)[:4])
    pools = len(jobs.names)
    minutes = np.array([jobs.seconds[jobs.pool == pool].mean() / 60.0 for pool in range(pools)])
    found = {}
    for name, chosen in SETS.items():
        columns = np.arange(len(FEATURES))
        only = np.concatenate([columns[group] for group in chosen]).tolist()
        model = ArrivalModel.train(train, QUANTA, only=only)
        for at, quantum in enumerate(NAMES):
            rows = np.stack(test.features[at])
            rows[:, :, ~np.isin(columns, only)] = 0.0
            chances = model._replace(quanta=(QUANTA[at],), trees=(model.trees[at],)).chances(
                rows.reshape(1, -1, len(FEATURES))
            )
            predicted = chances.reshape(len(rows), pools) >= 0.5
            found[quantum, name] = Judged(predicted, np.stack(test.came[at]))
    every = np.ones(pools, dtype=np.bool_)
    whole = {quantum: found[quantum, "+ future completions"].scores(every) for quantum in NAMES}
    report.say("## Table 10")
    paper = {
        "5 min": (0.66, 0.85, 0.74),
        "60 min": (0.62, 0.72, 0.67),
        "720 min": (0.66, 0.64, 0.65),
    }
    report.table(
        ("quantum", "precision", "recall", "F", "the paper's P, R, F"),
        [
            (quantum, *map(_score, whole[quantum]), ", ".join(map(_score, paper[quantum])))
            for quantum in NAMES
        ],
    )
    report.say(
        "## Tables 20 and 23: P, R, F by features, and by the mean duration x of a pool, minutes"
    )
    groups = {name: (minutes > low) & (minutes <= high) for name, (low, high) in GROUPS.items()}
    cells: list[tuple[str, ...]] = []
    for (quantum, name), judged in found.items():
        scores = [
            " ".join(map(_score, judged.scores(mine))) if mine.any() else "no pool"
            for mine in groups.values()
        ]
        cells.append((quantum, name, *scores))
    cells.sort(key=lambda row: NAMES.index(row[0]))
    report.table(("quantum", "features", *GROUPS), cells)
    report.runs(("quantum", "features", *GROUPS), cells)
    five = found["5 min", "+ future completions"]
    hourly = _by_hour(five)
    report.say("## Figures 21 and 22: recall by pool and hour, and by pool")
    by_pool = np.array([five.scores(np.arange(pools) == pool)[1] for pool in range(pools)])
    lines = tuple(
        Series.numbered(at, name, *cdf(values))
        for at, (name, values) in enumerate((("pool and hour", hourly), ("pool", by_pool)))
    )
    plot = Plot(lines, Axis("share", "share", low=0.0, high=1.0))
    report.picture(
        line_chart(
            "Recall of predictions of 5 minutes",
            [plot],
            Axis("recall", low=0.0, high=1.0),
            legend=True,
        )
    )
    extreme = float(((hourly == 0.0) | (hourly == 1.0)).mean())
    periodic = found["5 min", "periodic only"].scores(every)[2]
    recent = found["5 min", "+ recent arrivals"].scores(every)[2]
    closed = whole["5 min"][2]
    report.claims(
        [
            Claim(
                "Longer horizons have larger errors (CloudML); on Helios, smaller",
                "F "
                + ", ".join(f"{_score(whole[quantum][2])} at {quantum}" for quantum in NAMES)
                + ": as on Helios",
                whole["720 min"][2] > whole["60 min"][2] > whole["5 min"][2],
            ),
            Claim(
                "Recent arrivals help at 5 minutes (F .66 to .74; Helios .34 to .49)",
                f"F {_score(periodic)} to {_score(recent)}",
                recent > periodic + SIGNIFICANT,
            ),
            Claim(
                "Closed-loop features improve 5 minutes for some pools (CloudML); on Helios not at all",
                f"F {_score(recent)} to {_score(closed)} with completions: as on Helios",
                abs(closed - recent) < SIGNIFICANT,
            ),
            Claim(
                "Recall of an hour is bimodal: all right or all wrong (figure 21)",
                f"{extreme:.0%} of the hours with arrivals have recall 0 or 1",
                extreme > 0.5,
            ),
            Claim(
                "Recall differs between pools (figure 22)",
                f"{_score(float(np.nanmin(by_pool)))} to {_score(float(np.nanmax(by_pool)))}",
                float(np.nanmax(by_pool) - np.nanmin(by_pool)) > 0.1,
            ),
        ]
    )
    report.close()


def _by_hour(judged: Judged) -> NDArray[np.float64]:
    """Recall of each pool and hour in which jobs came."""
    hours = len(judged.came) // 12
    came = judged.came[: hours * 12].reshape(hours, 12, -1).sum(axis=1)
    hits = (judged.came & judged.predicted)[: hours * 12].reshape(hours, 12, -1).sum(axis=1)
    found: NDArray[np.float64] = (hits[came > 0] / came[came > 0]).astype(np.float64)
    return found


def _score(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.2f}"


if __name__ == "__main__":
    main()
