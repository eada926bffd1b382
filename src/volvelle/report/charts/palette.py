"""Colours by role, for light and for dark paper.

The eight series colours stay apart for the common kinds of colour blindness (after Okabe and Ito,
2008, darkened or lightened until each has a contrast of at least 3:1 with its paper).
"""

from collections.abc import Mapping
from types import MappingProxyType

SERIES = tuple(f"series-{number}" for number in range(1, 9))
"""The roles of data, in the order in which they are given out."""

DASHES: tuple[tuple[float, ...], ...] = ((), (7, 3), (2, 3), (9, 3, 2, 3))
"""Line patterns, so that more than eight lines differ in more than colour."""

LIGHT: Mapping[str, str] = MappingProxyType(
    {
        "paper": "#ffffff",
        "panel": "#f7f8fa",
        "ink": "#1b1f24",
        "muted": "#57606a",
        "grid": "#e3e6ea",
        "axis": "#8c959f",
        "series-1": "#0a6ebd",
        "series-2": "#d1560b",
        "series-3": "#06876a",
        "series-4": "#a8489a",
        "series-5": "#a07800",
        "series-6": "#2390c4",
        "series-7": "#8a3b12",
        "series-8": "#5b6470",
    }
)

DARK: Mapping[str, str] = MappingProxyType(
    {
        "paper": "#14171b",
        "panel": "#1c2026",
        "ink": "#e8ebef",
        "muted": "#a3acb7",
        "grid": "#2b3138",
        "axis": "#6d7681",
        "series-1": "#58a9ee",
        "series-2": "#ff9147",
        "series-3": "#35c49f",
        "series-4": "#dd8bd0",
        "series-5": "#e0b93c",
        "series-6": "#8fd6f7",
        "series-7": "#d79a77",
        "series-8": "#aab3be",
    }
)


def series_color(index: int) -> str:
    """The role of the series number ``index``; after eight they come round again."""
    return SERIES[index % len(SERIES)]


def series_dash(index: int) -> tuple[float, ...]:
    """The pattern of the line number ``index``: solid for the first four, then dashed in turn."""
    return DASHES[min(index // 4, len(DASHES) - 1)]


def css_variables(theme: Mapping[str, str]) -> str:
    """The theme as CSS custom properties."""
    return "".join(f"--{role}:{color};" for role, color in theme.items())
