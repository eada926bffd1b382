"""A curve of a paper beside ours: figures of its text and tables, and those of a study's table."""

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from volvelle.report.charts import Axis, BarGroup, Drawing, Plot, Series, bar_chart, line_chart
from volvelle.report.charts.palette import series_color
from volvelle.workload.readers.text import is_number

Points = dict[str, list[tuple[str, float]]]
"""By series: what stands on the axis, and the value there."""


class Curve(BaseModel):
    """A picture. x, y, by: columns of the study's table: axis, value (a mean over all rows), series.

    only: rows by the values of columns. over: the rows of a series whose mean of ``y`` divides its values.
    scale, less: of our values, as (value - less) * scale. names: words for places. paper: by series, the
    figures that stand in the paper. source: where they stand.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    source: str
    x: str
    y: str
    by: str = ""
    only: dict[str, str | tuple[str, ...]] = {}
    over: dict[str, str] = {}
    scale: float = 1.0
    less: float = 0.0
    x_title: str = ""
    y_title: str = ""
    names: dict[str, str] = {}
    paper: Points

    def ours(self, table: Path) -> Points:
        """The values of a study's table, only at places and in series that the paper's figures have."""
        with table.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        found: Points = {}
        for name, figures in self.paper.items():
            series = {self.by: name} if self.by else {}
            for place, _ in figures:
                here = {**self.only, **series, self.x: place}
                value = _mean(rows, here, self.y)
                divisor = _mean(rows, {**here, **self.over}, self.y) if self.over else 1.0
                if value is not None and divisor:
                    value = (value / divisor - self.less) * self.scale
                    found.setdefault(name, []).append((place, value))
        return found

    def drawing(self, table: Path) -> Drawing | None:
        """The picture; None where the table has none of the places."""
        ours = self.ours(table)
        if not ours:
            return None
        sides = {"paper": self.paper, "here": ours}
        places = list(dict.fromkeys(place for points in self.paper.values() for place, _ in points))
        y = Axis(self.y_title or self.y)
        named = [(side, name) for name in self.paper for side in sides]
        words = {
            key: ", ".join(one for one in (key[1] if self.by else "", key[0]) if one)
            for key in named
        }
        if all(is_number(place) for place in places):
            lines = tuple(
                Series(
                    words[side, name],
                    np.array([float(place) for place, _ in sides[side].get(name, [])]),
                    np.array([value for _, value in sides[side].get(name, [])]),
                    series_color(number // 2),
                    dash=(6.0, 4.0) if side == "paper" else (),
                )
                for number, (side, name) in enumerate(named)
            )
            return line_chart(
                self.title, [Plot(lines, y)], Axis(self.x_title or self.x), subtitle=self.source
            )
        groups = [
            BarGroup(
                words[side, name],
                np.array([dict(sides[side].get(name, [])).get(place, 0.0) for place in places]),
                series_color(number),
            )
            for number, (side, name) in enumerate(named)
        ]
        shown = [self.names.get(place, place) for place in places]
        return bar_chart(self.title, shown, groups, self.x_title or self.x, y, subtitle=self.source)


def _mean(
    rows: list[dict[str, str]], where: Mapping[str, str | tuple[str, ...]], column: str
) -> float | None:
    """The mean of a column over the rows with these values; None where there are none."""
    values = [
        float(row[column])
        for row in rows
        if row[column]
        and all(row[key] in ((one,) if isinstance(one, str) else one) for key, one in where.items())
    ]
    return sum(values) / len(values) if values else None
