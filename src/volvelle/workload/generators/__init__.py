"""Seeded workload generators, one module for each family.

    make_generator("gavel", {"jobs": 5000, "gpus": 108, "load": 0.9}).generate(rng)

`GENERATORS` maps names to classes; each class is a validated set of parameters whose fields carry
their descriptions. A fitted trace (`volvelle.workload.fitting.like`) generates in the same way.
"""

from collections.abc import Mapping

from pydantic import ValidationError

from volvelle.model.problems import Problem, nearest
from volvelle.model.validation import describe_validation
from volvelle.workload.generators.anticipatory import AnticipatoryPools
from volvelle.workload.generators.base import Generator
from volvelle.workload.generators.gavel import GavelJobs
from volvelle.workload.generators.lognormal import DEMO_SEED, Demo, LogNormal, demo_workload
from volvelle.workload.generators.pcs import PcsGavelJobs, PcsThemis1
from volvelle.workload.generators.shockwave import ShockwaveJobs
from volvelle.workload.generators.synergy import SynergyJobs

GENERATORS: dict[str, type[Generator]] = {
    family.name: family
    for family in (
        GavelJobs,
        ShockwaveJobs,
        PcsGavelJobs,
        PcsThemis1,
        AnticipatoryPools,
        SynergyJobs,
        LogNormal,
        Demo,
    )
}
"""Every generator by its name."""

__all__ = ["DEMO_SEED", "GENERATORS", "Generator", "demo_workload", "make_generator"]


def make_generator(name: str, parameters: Mapping[str, object] | None = None) -> Generator:
    """The generator called ``name``. Raises `Problem` naming the nearest name or key."""
    family = GENERATORS.get(name)
    if family is None:
        raise Problem(
            f"unknown generator {name!r}{nearest(name, GENERATORS)}",
            mend=f"use one of {', '.join(GENERATORS)}",
            usage=True,
        )
    try:
        return family.model_validate(dict(parameters or {}))
    except ValidationError as error:
        raise Problem(
            f"generator {name!r}: {describe_validation(error, family)}", usage=True
        ) from None
