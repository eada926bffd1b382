"""Fixtures and settings for all tests."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it

settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("ci")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """More workers than cores: much of the tests' time is waiting for real processes."""
    return (os.cpu_count() or 1) * 3 // 2


@pytest.fixture(scope="session")
def shared() -> Path:
    """The papers and reference results beside the repository; skips where they are absent."""
    folder = Path(__file__).parent.parent.parent / "shared"
    if not folder.is_dir():
        pytest.skip("no reference results: there is no ../shared")
    return folder
