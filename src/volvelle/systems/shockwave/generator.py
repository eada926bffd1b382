"""Shockwave's synthetic workload (Zheng et al., NSDI'23, section 8.1).

What the section says: jobs of 0.2 to 5 hours on 1, 2, 4 or 8 workers; small (0.2-8 GPU-hours),
medium (8-16), large (16-72) and extra large (above 72) with probabilities 0.72, 0.2, 0.05, 0.03;
Poisson arrivals; each job Static, Accordion or GNS.

Where it is ambiguous or at odds with itself, and what is done here:

- 72 GPU-hours need more than 5 hours on 8 workers. The class shares are kept; a job lasts at most
  ``max_hours`` where one of the widths allows it, and longer on 8 workers where none does.
- Within a class, GPU-hours are log-uniform; extra large ends at ``extra_large_hours`` GPU-hours.
- The width is drawn with Gavel's shares (70/10/15/5 %) among those that keep 0.2 to ``max_hours``.
- "Inter-arrival rate 0.1 to 0.2" has no unit. The published 120-job trace has a mean gap of 42 s,
  about 85 jobs an hour, which is the default; give ``load`` instead for a steady system. (That
  trace itself is 97.5 % small jobs: it does not follow the shares of the text.)
- Modes are equally likely unless ``modes`` says otherwise (the published trace: 3/49/48 %).

An adaptive job's duration is that at its first batch size, as in the published traces; larger
batches shorten it by ``speed_per_doubling``, a number of ours (the artifact's tables give 1.06 for
ResNet-18 to 1.4 for the language model). GNS doubles the batch at evenly drawn moments, up to the
model's largest (table 2). Accordion runs small in critical regimes, at the start and after drops of
the learning rate (here at one half and three quarters of the work), and large between.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from volvelle.model.arrays import FloatColumn
from volvelle.model.job import Regime, Truth
from volvelle.model.units import HOUR
from volvelle.workload.generators.base import JobColumns, generators
from volvelle.workload.generators.mixes import GAVEL_WIDTHS, discrete, log_uniform
from volvelle.workload.generators.stationary import StationaryGenerator

CLASSES = ((0.72, 0.2, 8.0), (0.20, 8.0, 16.0), (0.05, 16.0, 72.0), (0.03, 72.0, None))
"""Probability and bounds in GPU-hours, section 8.1."""

BATCH_SIZES: dict[str, tuple[int, int]] = {
    "ResNet-50": (16, 128),
    "ResNet-18": (16, 256),
    "LM": (5, 80),
    "Transformer": (16, 256),
    "Recommendation": (512, 8192),
}
"""Least and greatest batch size of each model, table 2."""

LEAST_HOURS = 0.2
_MOST_DOUBLINGS = 4
_MODES = ("static", "accordion", "gns")
_CRITICAL = (
    (0.0, 0.3),
    (0.5, 0.6),
    (0.75, 0.85),
)  # shares of the work


@generators.register
class ShockwaveJobs(StationaryGenerator):
    """Four size classes in GPU-hours, and jobs that adapt their batch size."""

    name: ClassVar[str] = "shockwave"
    source: ClassVar[str] = "Shockwave, NSDI'23, section 8.1 and table 2"

    jobs_per_hour: Annotated[
        float | None, Field(gt=0, description="mean rate of submission, instead of load")
    ] = 85.0
    max_hours: Annotated[
        float, Field(gt=2, description="longest job where a width allows it, hours")
    ] = 5.0
    extra_large_hours: Annotated[
        float, Field(gt=72, description="upper end of extra large, GPU-hours")
    ] = 120.0
    modes: Annotated[
        tuple[float, float, float],
        Field(description="relative frequencies of static, accordion and GNS jobs"),
    ] = (1.0, 1.0, 1.0)
    speed_per_doubling: Annotated[
        float, Field(ge=1, description="rate after doubling the batch size, in rates before")
    ] = 1.25

    def sizes(  # noqa: D102
        self, rng: np.random.Generator, count: int
    ) -> tuple[FloatColumn, FloatColumn]:
        shares: dict[float, float] = {index: share for index, (share, _, _) in enumerate(CLASSES)}
        classes = discrete(rng, count, shares).astype(np.intp)
        lows = np.array([low for _, low, _ in CLASSES])[classes]
        highs = np.array([high or self.extra_large_hours for _, _, high in CLASSES])[classes]
        gpu_hours = log_uniform(rng, lows, highs)
        gpus = self._widths(rng, gpu_hours)
        return gpus, gpu_hours / gpus * HOUR

    def _widths(self, rng: np.random.Generator, gpu_hours: FloatColumn) -> FloatColumn:
        """Gavel's widths, restricted for each job to those of a duration within the bounds."""
        widths = np.fromiter(GAVEL_WIDTHS, dtype=np.float64)
        hours = gpu_hours[:, None] / widths
        allowed = (hours >= LEAST_HOURS * (1 - 1e-12)) & (hours <= self.max_hours)
        allowed[~allowed.any(axis=1), -1] = True
        cumulated = np.cumsum(allowed * np.fromiter(GAVEL_WIDTHS.values(), np.float64), axis=1)
        drawn = rng.random(len(gpu_hours)) * cumulated[:, -1]
        chosen = (cumulated <= drawn[:, None]).sum(axis=1)
        drawn_widths: FloatColumn = widths[chosen]
        return drawn_widths

    def finished(  # noqa: D102
        self, rng: np.random.Generator, columns: JobColumns
    ) -> JobColumns:
        count = len(columns.work)
        models = discrete(rng, count, dict.fromkeys(range(len(BATCH_SIZES)), 1.0))
        modes = discrete(rng, count, dict(enumerate(self.modes)))
        starts = rng.random(count)
        moments = rng.random((count, _MOST_DOUBLINGS))
        names = list(BATCH_SIZES)
        rows = zip(
            columns.work.tolist(),
            [names[int(model)] for model in models],
            [_MODES[int(mode)] for mode in modes],
            starts.tolist(),
            moments.tolist(),
            strict=True,
        )
        labels, truths = [], []
        for work, model, mode, start, when in rows:
            labels.append(f"{model} {mode}")
            regimes = tuple(self._regimes(work, model, mode, start, when))
            truths.append(Truth(work=work, regimes=regimes))
        return replace(columns, names=labels, truths=truths)

    def _regimes(
        self, work: float, model: str, mode: str, start: float, moments: list[float]
    ) -> Iterator[Regime]:
        """Batch sizes over the work; the first lies in the lower half of the model's range."""
        if mode == "static":
            return
        least, most = BATCH_SIZES[model]
        doublings = (most // least).bit_length() - 1
        first = int(start * (doublings / 2 + 1))
        batch, left = least << first, doublings - first
        if mode == "gns":
            for step, moment in enumerate([0.0, *sorted(moments[:left])]):
                yield Regime(moment * work, batch << step, self.speed_per_doubling**step)
            return
        for begin, end in _CRITICAL:
            yield Regime(begin * work, batch)
            yield Regime(end * work, batch << left, self.speed_per_doubling**left)
