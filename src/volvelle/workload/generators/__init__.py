"""Seeded workload generators, one module for each family.

    make_generator("gavel", {"jobs": 5000, "gpus": 108, "load": 0.9}).generate(rng)

`generators` finds them by name; each class is a validated set of parameters whose fields carry
their descriptions. A fitted trace (`volvelle.workload.fitting.like`) generates in the same way.
"""

from collections.abc import Mapping

from volvelle.workload.generators.base import Generator, generators
from volvelle.workload.generators.lognormal import DEMO_SEED

__all__ = ["DEMO_SEED", "Generator", "generators", "make_generator"]


def make_generator(name: str, parameters: Mapping[str, object] | None = None) -> Generator:
    """The generator called ``name``. Raises `Problem` naming the nearest name or key."""
    return generators.build(generators.get(name), dict(parameters or {}))
