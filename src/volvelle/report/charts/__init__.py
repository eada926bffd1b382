"""A small chart layer: a chart is laid out once into marks, which SVG and PNG backends paint.

data ─▶ plot / distribution / scatter ─▶ Drawing (marks) ─▶ svg (in the page)
           (axes, simplify)                              └▶ png (Pillow)
"""

from volvelle.report.charts.axes import Axis
from volvelle.report.charts.distribution import BarGroup, bar_chart, cdf
from volvelle.report.charts.marks import Drawing
from volvelle.report.charts.plot import Plot, Series, line_chart
from volvelle.report.charts.png import write_png, write_pngs
from volvelle.report.charts.scatter import Dots, scatter
from volvelle.report.charts.svg import to_svg

__all__ = [
    "Axis",
    "BarGroup",
    "Dots",
    "Drawing",
    "Plot",
    "Series",
    "bar_chart",
    "cdf",
    "line_chart",
    "scatter",
    "to_svg",
    "write_png",
    "write_pngs",
]
