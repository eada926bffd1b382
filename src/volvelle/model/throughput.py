"""Throughput models: units of work per second for (GPUs, GPU type, nodes spanned, batch size).

Work is counted in whatever unit the job's model counts: iterations, epochs or 1-GPU seconds. Every
model is a frozen value with one method, `rate`; models nest (a table for each GPU type, a model for
each batch size), so that a measured profile is written as what it is.
"""

import itertools
import math
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import msgspec

from volvelle.model.problems import Problem


@runtime_checkable
class ThroughputModel(Protocol):
    """The interface of every model."""

    def rate(
        self, gpus: float, gpu_type: str = "", nodes: int = 1, batch_size: int | None = None
    ) -> float:
        """Units of work per second on ``gpus`` GPUs of ``gpu_type`` spread over ``nodes`` nodes."""
        ...


class Linear(msgspec.Struct, frozen=True, tag="linear"):
    """Every GPU adds the same rate: with ``per_gpu = 1``, work is in 1-GPU seconds."""

    per_gpu: float = 1.0

    def rate(
        self, gpus: float, gpu_type: str = "", nodes: int = 1, batch_size: int | None = None
    ) -> float:
        """``per_gpu * gpus`` units per second."""
        return self.per_gpu * gpus


class Table(msgspec.Struct, frozen=True, tag="table"):
    """Measured rates at 1, 2, ... GPUs, linear between integers (0 at 0), constant beyond the last."""

    rates: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.rates or any(not (math.isfinite(r) and r >= 0) for r in self.rates):
            raise ValueError(f"a throughput table needs finite rates >= 0, not {self.rates!r}")

    def rate(
        self, gpus: float, gpu_type: str = "", nodes: int = 1, batch_size: int | None = None
    ) -> float:
        """Interpolated units per second."""
        if gpus >= len(self.rates):
            return self.rates[-1]
        whole = int(gpus)
        below = self.rates[whole - 1] if whole else 0.0
        if gpus == whole:
            return below
        return below + (self.rates[whole] - below) * (gpus - whole)


class Amdahl(msgspec.Struct, frozen=True, tag="amdahl"):
    """Amdahl's law: a share ``parallel`` of an iteration speeds up with the GPUs, the rest does not."""

    one_gpu: float = 1.0
    parallel: float = 1.0

    def rate(
        self, gpus: float, gpu_type: str = "", nodes: int = 1, batch_size: int | None = None
    ) -> float:
        """``one_gpu / ((1 - parallel) + parallel / gpus)`` units per second."""
        if gpus <= 0:
            return 0.0
        return self.one_gpu / ((1.0 - self.parallel) + self.parallel / gpus)


class Log2(msgspec.Struct, frozen=True, tag="log2"):
    """Chronus' model (SoCC'21, section 3.2.2): ``t_n = t_1 + log2(n) (t_2 - t_1)`` on ``n`` nodes.

    ``one_node_seconds`` and ``two_node_seconds`` are the measured seconds per iteration of the whole
    job on one node and on two; work is in iterations.
    """

    one_node_seconds: float
    two_node_seconds: float

    def rate(
        self, gpus: float, gpu_type: str = "", nodes: int = 1, batch_size: int | None = None
    ) -> float:
        """``1 / t_n`` iterations per second; nothing runs on no GPU."""
        if gpus <= 0:
            return 0.0
        spread = math.log2(max(nodes, 1)) * (self.two_node_seconds - self.one_node_seconds)
        return 1.0 / (self.one_node_seconds + spread)


class PerType(msgspec.Struct, frozen=True, tag="per-type"):
    """One model for each GPU type, as in Gavel's throughput tables (OSDI'20); 0 on other types."""

    types: dict[str, "AnyThroughput"]

    def rate(
        self, gpus: float, gpu_type: str = "", nodes: int = 1, batch_size: int | None = None
    ) -> float:
        """The rate of the model for ``gpu_type``; a job without one there makes no progress."""
        model = self.types.get(gpu_type)
        return model.rate(gpus, gpu_type, nodes, batch_size) if model is not None else 0.0


class PerBatchSize(msgspec.Struct, frozen=True, tag="per-batch-size"):
    """One model for each batch size; ``default`` is the batch size of a job that names none."""

    batch_sizes: dict[int, "AnyThroughput"]
    default: int

    def rate(
        self, gpus: float, gpu_type: str = "", nodes: int = 1, batch_size: int | None = None
    ) -> float:
        """The rate of the model for ``batch_size``. Raises `Problem` where there is none."""
        size = self.default if batch_size is None else batch_size
        model = self.batch_sizes.get(size)
        if model is None:
            raise Problem(
                f"there is no throughput for batch size {size}, only for "
                f"{', '.join(map(str, sorted(self.batch_sizes)))}",
                mend="measure it there, or leave the size out of the job's regimes",
            )
        return model.rate(gpus, gpu_type, nodes, batch_size)


MOST_TABLE_GPUS = 1024
"""GPUs beyond the measured number, and beyond so many, are not believed to help."""


def through(points: Mapping[int, float], most: int) -> Linear | Table:
    """The model of a job that was measured on some numbers of GPUs: units per second by GPUs, at least one.

    Linear between these; beyond the last, up to ``most`` and `MOST_TABLE_GPUS`, in proportion to the GPUs.
    """
    last, most = max(points), min(most, MOST_TABLE_GPUS)
    if len(points) == 1:
        return Linear(points[last] / last)
    beyond = {most: points[last] * most / last} if most > last else {}
    return _table_through({**points, **beyond})


def named_types(model: "AnyThroughput") -> tuple[str, ...]:
    """The GPU types of which a model says something, in its order; ("",) where it tells none apart."""
    match model:
        case PerType():
            return tuple(model.types)
        case PerBatchSize():
            of_all = (named_types(one) for one in model.batch_sizes.values())
            return tuple({kind: None for kinds in of_all for kind in kinds})
        case _:
            return ("",)


AnyThroughput = Linear | Table | Amdahl | Log2 | PerType | PerBatchSize

LINEAR = Linear()
"""The model of jobs whose work is given in 1-GPU seconds."""


def gavel_job_type(key: str) -> tuple[str, int]:
    """Read a job key of Gavel's JSON: ``"('LM (batch size 5)', 2)"`` is that type on 2 GPUs.

    Raises ValueError where the key is not of that form.
    """
    head, separator, scale = key.strip().removeprefix("(").removesuffix(")").rpartition(", ")
    name = head.strip()
    if not separator or len(name) < 2 or name[0] != name[-1] or name[0] not in "'\"":
        raise ValueError(f"cannot read {key!r} as a Gavel job type; expected \"('NAME', GPUS)\"")
    return name[1:-1], int(scale)


def gavel_throughputs(document: dict[str, dict[str, dict[str, object]]]) -> dict[str, PerType]:
    """Gavel's throughput file, decoded from JSON, as one `PerType` model for each job type.

    The schema is ``{gpu_type: {"('NAME', GPUS)": {"null": steps_per_s, partner: [a, b], ...}}}``.
    Only isolated rates (key ``null``) are read. Measured GPU counts (1, 2, 4, 8) become a `Table`
    with the counts between them interpolated. Raises ValueError naming the key that cannot be read.
    """
    measured: dict[str, dict[str, dict[int, float]]] = {}
    for gpu_type, entries in document.items():
        for key, partners in entries.items():
            name, gpus = gavel_job_type(key)
            rate = partners.get("null")
            if not isinstance(rate, (int, float)):
                raise ValueError(f"{gpu_type} {key}: no isolated rate under 'null'")
            measured.setdefault(name, {}).setdefault(gpu_type, {})[gpus] = float(rate)
    return {
        name: PerType({gpu_type: _table_through(points) for gpu_type, points in types.items()})
        for name, types in measured.items()
    }


def gavel_pairs(
    document: dict[str, dict[str, dict[str, object]]],
) -> dict[str, dict[str, PerType]]:
    """The rates of each job type beside each other one on the same GPUs, from Gavel's throughput file.

    Read are the entries ``partner: [a, b]`` of jobs on as many GPUs (see `gavel_throughputs`); where
    both rates are 0 the two cannot share. Raises ValueError naming the key that cannot be read.
    """
    measured: dict[str, dict[str, dict[str, dict[int, float]]]] = {}
    for gpu_type, entries in document.items():
        for key, partners in entries.items():
            name, gpus = gavel_job_type(key)
            for partner, rates in partners.items():
                if partner == "null":
                    continue
                other, as_many = gavel_job_type(partner)
                if not isinstance(rates, list) or len(rates) != 2:
                    raise ValueError(f"{gpu_type} {key}: no two rates under {partner!r}")
                if as_many == gpus and rates[0] > 0 and rates[1] > 0:
                    types = measured.setdefault(name, {}).setdefault(other, {})
                    types.setdefault(gpu_type, {})[gpus] = float(rates[0])
    return {
        name: {
            other: PerType({gpu_type: _exactly(points) for gpu_type, points in types.items()})
            for other, types in others.items()
        }
        for name, others in measured.items()
    }


def _exactly(points: dict[int, float]) -> Table:
    """The measured rates, and 0 on other numbers of GPUs."""
    return Table(tuple(points.get(gpus, 0.0) for gpus in range(1, max(points) + 1)))


def _table_through(points: Mapping[int, float]) -> Table:
    known = sorted({0: 0.0, **points}.items())
    rates: list[float] = []
    for (low, low_rate), (high, high_rate) in itertools.pairwise(known):
        slope = (high_rate - low_rate) / (high - low)
        rates.extend(low_rate + slope * step for step in range(1, high - low))
        rates.append(high_rate)
    return Table(tuple(rates))
