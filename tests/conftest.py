"""Fixtures and settings for all tests."""

import signal
from pathlib import Path

import pytest
from hypothesis import settings

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it

settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("ci")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The papers and reference results beside the repository; skips where they are absent."""
    folder = Path(__file__).parent.parent.parent / "shared"
    if not folder.is_dir():
        pytest.skip("no reference results: there is no ../shared")
    return folder
