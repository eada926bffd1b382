"""Sentences of the page and of the command line; the page's scripts import them as ``sentences.js``."""

import json

UNDERTAKEN = (
    "A guarantee is a finish that is to be kept, a forecast is when the job is expected to finish."
)
"""The meaning of a guarantee beside a forecast."""

NOT_ALL_TRIED = (
    "Not every change that could help was tried: the more jobs there are, the fewer are."
)
"""The answer to what would help was cut short."""

NO_NODE = "no node is connected"
"""The reason of a job that waits where all nodes are down; nothing about the job would help."""


def sentences_js() -> str:
    """The sentences as a module of JavaScript."""
    named = {"UNDERTAKEN": UNDERTAKEN, "NOT_ALL_TRIED": NOT_ALL_TRIED, "NO_NODE": NO_NODE}
    return "".join(f"export const {name} = {json.dumps(text)};\n" for name, text in named.items())
