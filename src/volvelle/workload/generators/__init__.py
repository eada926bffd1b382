"""Seeded workload generators, one module for each family.

    make_generator("gavel", {"jobs": 5000, "gpus": 108, "load": 0.9}).generate(rng)

`known_generators` maps names to classes; each class is a validated set of parameters whose fields carry
their descriptions. A fitted trace (`volvelle.workload.fitting.like`) generates in the same way.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from pydantic import ValidationError

from volvelle.core.registry import modules_of_systems
from volvelle.model.problems import Problem, nearest
from volvelle.model.validation import describe_validation
from volvelle.workload.generators.base import Generator
from volvelle.workload.generators.lognormal import DEMO_SEED, Demo, LogNormal, demo_workload


@cache
def known_generators() -> dict[str, type[Generator]]:
    """Every generator by its name: of the published systems, then the plain ones."""
    found: dict[str, type[Generator]] = {}
    for name, home in modules_of_systems("generators").items():
        for one in vars(import_module(home)).values():
            if (
                isinstance(one, type)
                and issubclass(one, Generator)
                and name == getattr(one, "name", "")
            ):
                found[name] = one
    return {**found, LogNormal.name: LogNormal, Demo.name: Demo}


__all__ = ["DEMO_SEED", "Generator", "demo_workload", "known_generators", "make_generator"]


def make_generator(name: str, parameters: Mapping[str, object] | None = None) -> Generator:
    """The generator called ``name``. Raises `Problem` naming the nearest name or key."""
    generators = known_generators()
    family = generators.get(name)
    if family is None:
        raise Problem(
            f"unknown generator {name!r}{nearest(name, generators)}",
            mend=f"use one of {', '.join(generators)}",
            usage=True,
        )
    try:
        return family.model_validate(dict(parameters or {}))
    except ValidationError as error:
        raise Problem(
            f"generator {name!r}: {describe_validation(error, family)}", usage=True
        ) from None
