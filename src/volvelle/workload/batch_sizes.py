"""Batch-size schedules of Shockwave's traces (Zheng et al., NSDI'23): which size in which epoch.

A trace says how a job changes its batch size, ``accordion`` or ``gns``, not when. When is fixed in the
artifact by model, first batch size and GPUs; this module says it again as rules. Epochs count from 0.

- **GNS** doubles the size at fixed epochs (`DOUBLINGS`): measured by the authors, so a table and no
  formula. A job it has no row for (8 GPUs, Transformer, most of ResNet-50) keeps its first size.
- **Accordion** runs at the first size in critical regimes, just after the start and after drops of the
  learning rate (`CRITICAL`), and at the model's largest (`LARGEST`) between them. Transformer, CycleGAN
  and A3C never scale.

The artifact uses two versions: what its simulator **executes**, and a **profile** from which it takes
run times for its estimates and as denominator of rho. In the profile an Accordion job also stays at its
first size up to and including the epoch at 30 % of all, and Recommendation has further critical regimes;
a GNS job that ends after its second doubling has its last epoch at the first size again (a slip).

Not repeated here: that in the artifact a change comes at the end of a round, is rounded up to whole
epochs (work for nothing), and takes a round for each doubling.
"""

import itertools
from enum import StrEnum
from typing import NamedTuple

DATASET_SAMPLES = {
    "A3C": 4,
    "CycleGAN": 6_287,
    "LM": 59_675,
    "Recommendation": 117_907,
    "ResNet-18": 50_000,
    "ResNet-50": 100_000,
    "Transformer": 10_000,
}
"""Samples in an epoch, as the artifact counts them (ResNet-50: not those of ImageNet)."""

LARGEST = {"LM": 80, "ResNet-18": 256, "ResNet-50": 128, "Recommendation": 8192}
"""The batch size to which Accordion scales up."""

PROFILE_HEAD = 0.3
"""The share of the epochs before which the profile lets no Accordion job scale up."""

DOUBLINGS: dict[tuple[str, int], dict[int, tuple[int, ...]]] = {
    ("LM", 5): {1: (31, 41, 61, 71), 2: (31, 51, 61, 71), 4: (11, 31, 71, 91)},
    ("LM", 10): {1: (11, 21, 41), 2: (11, 31, 41), 4: (11, 31, 61)},
    ("LM", 20): {1: (11, 41), 2: (31, 41), 4: (11, 61)},
    ("LM", 40): {1: (11,), 2: (11,), 4: (61,)},
    ("Recommendation", 512): {1: (21, 41, 71, 91)},
    ("Recommendation", 1024): {1: (21, 51, 91)},
    ("Recommendation", 2048): {1: (21, 41)},
    ("Recommendation", 4096): {1: (41,)},
    ("ResNet-18", 16): {1: (31, 41, 51, 71), 2: (21, 31, 91, 111), 4: (11, 21, 81, 91)},
    ("ResNet-18", 32): {1: (21, 31, 51), 2: (11, 21, 41), 4: (21, 31, 61)},
    ("ResNet-18", 64): {1: (11, 31), 2: (21, 41), 4: (11, 61)},
    ("ResNet-18", 128): {1: (11,), 2: (41,), 4: (11,)},
    ("ResNet-50", 32): {2: (101, 111), 4: (131, 221)},
    ("ResNet-50", 64): {1: (101,), 2: (81,), 4: (191,)},
}
"""The epochs at which GNS doubles, by (model, first batch size), then GPUs."""


class Critical(NamedTuple):
    """Where a model is critical: in its first ``head`` epochs, or as many as ``heads`` says of a size;

    where it has a ``cycle``, in the first ones of each; and in ``drops`` (from, before). The profile
    knows of ``profile_drops`` too.
    """

    head: int
    heads: tuple[tuple[int, int], ...] = ()
    cycle: int = 0
    drops: tuple[tuple[int, int], ...] = ()
    profile_drops: tuple[tuple[int, int], ...] = ()


CRITICAL = {
    "LM": Critical(10),
    "Recommendation": Critical(
        30, heads=((2048, 40), (4096, 10), (8192, 10)), profile_drops=((60, 70), (80, 90))
    ),
    "ResNet-18": Critical(10, heads=((256, 20),), drops=((150, 160), (250, 260))),
    "ResNet-50": Critical(10, cycle=30),
}
"""Accordion's critical regimes by model."""


class Mode(StrEnum):
    """How a job changes its batch size."""

    STATIC = "static"
    ACCORDION = "accordion"
    GNS = "gns"


class Phase(NamedTuple):
    """From ``epoch`` on the job runs at ``batch_size``."""

    epoch: int
    batch_size: int


def executed(model: str, batch_size: int, mode: Mode, gpus: int, epochs: int) -> list[Phase]:
    """The regimes that the simulator executes for a job whose first size is ``batch_size``; never empty."""
    if mode is Mode.GNS:
        return _doubled(model, batch_size, gpus, epochs)
    if mode is Mode.ACCORDION:
        return _accordion(model, batch_size, epochs, profile=False)
    return [Phase(0, batch_size)]


def profiled(model: str, batch_size: int, mode: Mode, gpus: int, epochs: int) -> list[Phase]:
    """The same job by the artifact's profile."""
    if mode is Mode.GNS:
        phases = _doubled(model, batch_size, gpus, epochs)
        if len(phases) > 2:
            last = epochs - 1
            phases = [phase for phase in phases if phase.epoch < last]
            phases.append(Phase(last, batch_size))
        return phases
    if mode is Mode.ACCORDION:
        return _accordion(model, batch_size, epochs, profile=True)
    return [Phase(0, batch_size)]


def _doubled(model: str, batch_size: int, gpus: int, epochs: int) -> list[Phase]:
    at = DOUBLINGS.get((model, batch_size), {}).get(gpus, ())
    doubled = (Phase(epoch, batch_size << n) for n, epoch in enumerate(at, 1) if epoch < epochs)
    return [Phase(0, batch_size), *doubled]


def _accordion(model: str, batch_size: int, epochs: int, *, profile: bool) -> list[Phase]:
    critical, largest = CRITICAL.get(model), LARGEST.get(model)
    if critical is None or largest is None:
        return [Phase(0, batch_size)]
    head = dict(critical.heads).get(batch_size, critical.head)
    drops = critical.drops + (critical.profile_drops if profile else ())

    def size(epoch: int) -> int:
        since = epoch % critical.cycle if critical.cycle else epoch
        small = since < head or any(begin <= epoch < end for begin, end in drops)
        if profile:
            small = small or epoch <= PROFILE_HEAD * epochs
        return batch_size if small else largest

    return [Phase(next(run), same) for same, run in itertools.groupby(range(epochs), key=size)]
