"""Jobs with deadlines, and what Chronus promised in a run, for its tests."""

from dataclasses import replace

import msgspec
import numpy as np

from volvelle.core.decision import Promise
from volvelle.model.arrays import Floats
from volvelle.model.job import Job, Reward
from volvelle.systems.chronus.memory import SLOT, opened
from volvelle.systems.chronus.policy import Chronus
from volvelle.testing.scenario import Run
from volvelle.testing.strategies import KNOWN

STEADY = replace(KNOWN, regimes=False, sharing=False, amounts=False, slots=False, deadlines=True)
"""Jobs that go on as fast as they start, on GPUs that are counted, so that no placement refuses."""


ROUNDING = 2e-3
"""Seconds."""


def due(job: Job, *steps: tuple[float, float], accept_later: bool = False) -> Job:
    """The same job with rewards: (seconds, value)."""
    rewards = tuple(Reward(*step) for step in steps)
    spec = msgspec.structs.replace(job.spec, rewards=rewards, accept_later=accept_later)
    return msgspec.structs.replace(job, spec=spec)


def promises(run: Run) -> list[tuple[float, Promise]]:
    """All promises of a run, and when they were made."""
    return [(entry.time, one) for entry in run.journal.entries for one in entry.decision.promises]


def lasts(run: Run) -> dict[int, Promise]:
    """The last word to each job."""
    return {one.number: one for _, one in promises(run)}


LEASES = [
    "chronus",
    "chronus:lease=40",
    "chronus:lease=12,parts=3",
    "chronus:lease=50,parts=1",
]


def remembering(gpus: float, **terms: float) -> Floats:
    """The memory of a policy that decided at time 0, on so many GPUs of one type."""
    policy = Chronus.model_validate(terms)
    memory = opened(policy, np.array([gpus]), np.zeros(0), 0.0, plain=True)
    memory[SLOT] = 0.0
    return memory
