"""Fixtures and settings for all tests."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import settings

from volvelle.core.machine_code import arrays
from volvelle.core.registry import forgotten_files
from volvelle.studies.inputs import VARIABLE

gc.disable()  # while tests are collected: nothing of that is let go of (half of its time)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it

settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("ci")

arrays.INTERPRETED_SECONDS = 0.0  # tests of machine code see machine code


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files in a mixed order, always the same: each worker has some that wait and some that compute."""
    items.sort(key=lambda item: crc32(item.path.name.encode()))


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()


@pytest.fixture(autouse=True)
def parts_of_files_are_forgotten() -> Iterator[None]:
    """What a test loads from a file of its own is unknown to the next test."""
    with forgotten_files():
        yield


@pytest.fixture(autouse=True, scope="module")
def ray_ends_with_its_module() -> Iterator[None]:
    """An idle cluster takes a thirtieth of a core, in each process that runs tests."""
    yield
    if "ray_cluster" in sys.modules:
        from ray_cluster import end_shared_ray_cluster

        end_shared_ray_cluster()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The papers and reference results beside the repository; skips where they are absent."""
    folder = Path(os.environ.get(VARIABLE) or Path(__file__).parents[2] / "shared")
    if not folder.is_dir():
        pytest.skip("no reference results: there is no ../shared")
    return folder
