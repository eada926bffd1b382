"""Sentences of the page and of the command line; the page's scripts import them as ``sentences.js``."""

import json

UNDERTAKEN = (
    "A guarantee is a finish that the policy or the admission undertakes to keep; "
    "a forecast is when the job is expected to finish."
)
"""The meaning of a guarantee beside a forecast."""


def sentences_js() -> str:
    """The sentences as a module of JavaScript."""
    return f"export const UNDERTAKEN = {json.dumps(UNDERTAKEN)};\n"
