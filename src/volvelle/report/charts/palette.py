"""Colours by role, for light and for dark paper: of reports, figures and the dashboard.

The eight series colours stay apart for the common kinds of colour blindness (after Okabe and Ito,
2008, darkened or lightened until each has a contrast of at least 3:1 with its paper). Series are
users, policies and types; states of jobs have colours of their own, and a glyph beside each.
"""

from collections.abc import Mapping
from types import MappingProxyType

SERIES = tuple(f"series-{number}" for number in range(1, 9))
"""The roles of data, in the order in which they are given out."""

DASHES: tuple[tuple[float, ...], ...] = ((), (7, 3), (2, 3), (9, 3, 2, 3))
"""Line patterns, so that more than eight lines differ in more than colour."""

_SHARED = {
    "starting": "running",
    "stopping": "running",
    "over": "finished",
    "cancelled": "held",
    "rejected": "failed",
}
"""States of jobs that have the colour of another."""


def _states(**colors: str) -> dict[str, str]:
    """The roles ``state-NAME``, of states of jobs and of GPUs."""
    named = colors | {name: colors[other] for name, other in _SHARED.items()}
    return {f"state-{name}": color for name, color in named.items()}


LIGHT: Mapping[str, str] = MappingProxyType(
    {
        "ground": "#f5f6f8",
        "paper": "#ffffff",
        "panel": "#f4f5f8",
        "ink": "#12161d",
        "muted": "#59626f",
        "grid": "#e4e7ec",
        "axis": "#868fa0",
        "accent": "#1f5fc8",
        "series-1": "#0a6ebd",
        "series-2": "#d1560b",
        "series-3": "#06876a",
        "series-4": "#a8489a",
        "series-5": "#a07800",
        "series-6": "#2390c4",
        "series-7": "#8a3b12",
        "series-8": "#5b6470",
    }
    | _states(
        running="#2a6fdb",
        waiting="#79869b",
        held="#39414f",
        risk="#d65f00",
        failed="#d32f2f",
        finished="#07856a",
        borrowed="#5d1a93",
        free="#dfe4eb",
    )
)

DARK: Mapping[str, str] = MappingProxyType(
    {
        "ground": "#0d1015",
        "paper": "#14181f",
        "panel": "#1b2029",
        "ink": "#e9edf3",
        "muted": "#a3acb7",
        "grid": "#252b36",
        "axis": "#667184",
        "accent": "#74a9ff",
        "series-1": "#58a9ee",
        "series-2": "#ff9147",
        "series-3": "#35c49f",
        "series-4": "#dd8bd0",
        "series-5": "#e0b93c",
        "series-6": "#8fd6f7",
        "series-7": "#d79a77",
        "series-8": "#aab3be",
    }
    | _states(
        running="#5c9dff",
        waiting="#7f8b9d",
        held="#eef2f7",
        risk="#ff9a4d",
        failed="#ff6f6f",
        finished="#35d0aa",
        borrowed="#a45cff",
        free="#343d4b",
    )
)


def series_color(index: int) -> str:
    """The role of the series number ``index``; after eight they come round again."""
    return SERIES[index % len(SERIES)]


def series_dash(index: int) -> tuple[float, ...]:
    """The pattern of the line number ``index``: solid for the first four, then dashed in turn."""
    return DASHES[min(index // 4, len(DASHES) - 1)]


def theme_css() -> str:
    """Both themes as CSS custom properties: that of the system, or of the class ``light`` or ``dark``."""
    light, dark = (
        f"color-scheme:{name};{''.join(f'--{role}:{color};' for role, color in theme.items())}"
        for name, theme in (("light", LIGHT), ("dark", DARK))
    )
    system = f"@media (prefers-color-scheme: dark){{:root:not(.light){{{dark}}}}}"
    return f":root{{{light}}}{system}:root.dark{{{dark}}}"
