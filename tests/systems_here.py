"""Tests of all else that use a part of a published system: they are skipped where it is moved away.

A test of a system itself is in ``tests/systems/``.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import volvelle
from volvelle.core.registry import Catalogue
from volvelle.core.written import WrittenPart

SYSTEMS = Path(volvelle.__file__).parent / "systems"


def needs(system: str) -> pytest.MarkDecorator:
    """The mark of a test, or of a module, that is skipped without ``system``."""
    there = (SYSTEMS / system).is_dir()
    return pytest.mark.skipif(not there, reason=f"volvelle.systems.{system} is not here")


def of(system: str, *values: Any) -> Any:
    """A set of parameters that is left out without ``system``."""
    return pytest.param(*values, marks=needs(system))


def here(registry: Catalogue[Any], written: Sequence[str]) -> list[str]:
    """Parts as they are written, without those of systems that are not here."""
    if SYSTEMS.is_dir():
        return [*written]
    return [one for one in written if WrittenPart.read(one).home in registry.names()]
