"""Candidates evaluated on a Ray cluster: each on each sample is a task of one CPU.

The samples are put into Ray's store once, travel once to every node, and are unpacked once in every worker.
Ray places the tasks, uses nodes that join, and begins anew elsewhere what a worker or a node that died had
in hand. Parts in files of one's own go along with the samples.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, cast

import msgspec

from volvelle import __version__
from volvelle.core.parts import admissions, estimators, placements, terminations
from volvelle.core.policy import policies
from volvelle.core.registry import Registry, load_file, path_of
from volvelle.core.written import WrittenPart
from volvelle.metrics.catalogue import read_objective
from volvelle.model.problems import Problem
from volvelle.ray_cluster import connection
from volvelle.tune.evaluators import EvaluatorStage, Figures, Submit

_RETRIES = 10
"""How often a task is begun anew whose worker or node died; one that kills its workers is to end."""

_REGISTRIES: Mapping[str, Registry[Any]] = {
    "policy": policies,
    "placement": placements,
    "admission": admissions,
    "estimator": estimators,
    "termination": terminations,
}
"""By the fields of a composition."""


@contextmanager
def ray_cluster(stage: EvaluatorStage, address: str) -> Iterator[Submit]:
    """Evaluate on the Ray cluster at ``address``. Raises `Problem` where there is none."""
    with connection(address) as (ray, ends):
        shipped = ray.put(_Shipment.of(stage))
        task = ray.remote(num_cpus=1, max_retries=_RETRIES)(_figures)
        under_way: set[Any] = set()

        def submit(parameters: str, sample: int) -> "Future[Figures]":
            reference = task.remote(__version__, (shipped,), parameters, sample)
            under_way.add(reference)
            promised: Future[Figures] = reference.future()
            promised.add_done_callback(lambda _: under_way.discard(reference))
            return promised

        try:
            yield submit
        except ray.exceptions.RayTaskError as failure:
            if isinstance(failure.cause, Problem):
                raise failure.cause from None
            raise
        except ray.exceptions.RayError as failure:
            raise Problem(
                f"Ray gave a candidate up after {_RETRIES} retries ({type(failure).__name__})",
                mend="see to the cluster's nodes and their memory, and go on with --resume",
            ) from None
        finally:
            # a task that is cancelled while it is given to a worker aborts this process (Ray 2.60)
            for reference in () if ends else list(under_way):
                ray.cancel(reference, force=True)


@dataclass(frozen=True)
class _Shipment:
    """A stage as it is sent: all parts and objectives by name, and the files that some are in."""

    stage: EvaluatorStage
    objectives: Sequence[str]
    files: Sequence[tuple[str, bytes]]

    @classmethod
    def of(cls, stage: EvaluatorStage) -> "_Shipment":
        written = msgspec.structs.asdict(stage.setting.composition) | {"policy": stage.policy}
        parts = map(WrittenPart.read, written.values())
        homes = {Path(part.home).resolve() for part in parts if part.in_a_file}
        homes |= {path for one in stage.objectives if (path := path_of(one.metric))}
        named = {kind: _by_name(_REGISTRIES[kind], part) for kind, part in written.items()}
        composition = msgspec.structs.replace(stage.setting.composition, **named)
        setting = replace(stage.setting, composition=composition)
        return cls(
            replace(stage, setting=setting, policy=named["policy"], objectives=()),
            [str(objective) for objective in stage.objectives],
            [(path.name, path.read_bytes()) for path in homes],
        )

    def unpacked(self) -> EvaluatorStage:
        """The stage; the parts in files are known by their names from now on."""
        for name, text in self.files:
            _load(name, text)
        return replace(self.stage, objectives=tuple(map(read_objective, self.objectives)))


@cache
def _load(name: str, text: bytes) -> None:
    """Load a file, once in a worker: what it registers is known under its name."""
    with tempfile.TemporaryDirectory(prefix="volvelle-") as folder:
        path = Path(folder, name)
        path.write_bytes(text)
        load_file(path)


def _by_name(registry: Registry[Any], written: str) -> str:
    part = WrittenPart.read(written)
    if not part.in_a_file:
        return written
    name: str = registry.make(part.part).name
    return f"{name}:{part.rest}" if part.rest else name


# ---------------------------------------------------------------------- in a worker of Ray's


def _figures(version: str, shipped: tuple[Any], parameters: str, sample: int) -> Figures:
    """As `EvaluatorStage.figures`. The shipment is in a tuple, which Ray does not unpack."""
    if version != __version__:
        raise Problem(
            f"a node of the Ray cluster has Volvelle {__version__}, this search is of {version}",
            mend="install the same version on all nodes",
        )
    return _stage(shipped[0]).figures(parameters, sample)


@lru_cache(maxsize=1)
def _stage(shipped: Any) -> EvaluatorStage:
    import ray  # noqa: PLC0415 - it is there where this runs

    return cast(_Shipment, ray.get(shipped)).unpacked()
