"""Runs a workload live: jobs submitted in real time to a controller with real processes."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import volvelle
from volvelle.core.composition import WrittenComposition
from volvelle.core.journal import Header
from volvelle.live.control.controller import Controller
from volvelle.live.control.requests import ControlRequest, Hold, Release, Submit
from volvelle.live.job_request import JobRequest
from volvelle.live.nodes.executor import ExecutorContext, executors
from volvelle.live.status.view import JobState
from volvelle.live.store import Store
from volvelle.model.cluster import parse_cluster

SCRIPT = Path(__file__).parent / "job.py"
GPU_SCRIPT = Path(__file__).parents[2] / "examples" / "train_transformer.py"
_POLL_SECONDS = 0.05
_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True)
class Nodes:
    """A cluster, as ``2x8``, and the executor that runs jobs on it, as it is written."""

    cluster: str
    executor: str


@dataclass(frozen=True)
class PlannedJob:
    """A job to submit ``after`` so many seconds, with so many iterations on so many GPUs.

    kind: ``sleep``, ``torch`` (a very small network on the CPU) or ``gpu`` (a transformer).
    """

    after: float
    gpus: int
    iterations: int
    seconds: float
    kind: str = "sleep"

    @property
    def work_seconds(self) -> float:
        """Seconds of all its iterations."""
        return self.iterations * self.seconds

    def request(self, estimate: float) -> JobRequest:
        """The request that a user submits."""
        arguments = (
            (str(GPU_SCRIPT), str(self.iterations))
            if self.kind == "gpu"
            else (str(SCRIPT), str(self.iterations), repr(self.seconds), self.kind)
        )
        return JobRequest(
            name=self.kind,
            command=(sys.executable, *arguments),
            gpus=self.gpus,
            estimate=estimate,
        )


class LiveCluster:
    """A controller of ``nodes``, with its journal in ``folder``."""

    def __init__(self, folder: Path, nodes: Nodes, composition: WrittenComposition) -> None:
        cluster = parse_cluster(nodes.cluster)
        self._store = Store.open(f"sqlite:///{folder / 'store.db'}")
        header = Header(volvelle=volvelle.__version__, cluster=cluster, composition=composition)
        context = ExecutorContext(cluster, folder / "executor", "fidelity")
        self._folder = folder
        self.controller = Controller(self._store, header, executors.make(nodes.executor), context)
        self.controller.start()
        self._until(lambda: all(n.state == "up" for n in self.controller.status.nodes))

    def submit(self, request: JobRequest) -> int:
        """Submit a job; its number."""
        (number,) = self._execute(Submit("fidelity", request))
        return int(number)

    def wait_for_iterations(self, number: int, iterations: int) -> None:
        """Wait until a job has done so many."""
        self._until(lambda: self.controller.status.jobs[number].iterations >= iterations)

    def hold(self, number: int) -> None:
        """Stop a job at a checkpoint, and wait until it has ended."""
        self._execute(Hold(number))
        self._until(lambda: self.controller.status.jobs[number].state is JobState.HELD)

    def release(self, number: int) -> None:
        """Release a held job."""
        self._execute(Release(number))

    def drain(self) -> None:
        """Wait until no job is left."""
        self._until(lambda: not self.controller.status.jobs, timeout=3600.0)

    def end(self) -> Path:
        """Export the journal and stop the controller; the path of the journal."""
        journal = self._folder / "journal.jsonl"
        self._store.write_journal(journal)
        self.controller.stop()
        return journal

    def _execute(self, request: ControlRequest) -> tuple[int, ...]:
        answer: tuple[int, ...] = self.controller.request(request).result(timeout=_TIMEOUT_SECONDS)
        return answer

    def _until(self, condition: Callable[[], bool], timeout: float = _TIMEOUT_SECONDS) -> None:
        end = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"waited {timeout:g} s: {self.controller.health}")
            time.sleep(_POLL_SECONDS)


@contextmanager
def provide_nodes(cluster: str, executor: str, *, pretend: bool = True) -> Iterator[Nodes]:
    """Nodes for `LiveCluster`; for Ray, a Ray cluster exists in the context.

    pretend: the GPUs are made up.
    """
    if executor != "ray":
        yield Nodes(cluster, f"{executor}:pretend={str(pretend).lower()}")
        return
    import ray  # noqa: PLC0415 - only where it is asked for
    from ray.cluster_utils import Cluster  # noqa: PLC0415 - as above

    head = Cluster(initialize_head=True, head_node_args={"num_gpus": 0, "include_dashboard": False})
    try:
        for node in parse_cluster(cluster).nodes:
            head.add_node(num_gpus=node.gpus, labels={"volvelle-node": node.name})
        yield Nodes(cluster, f"ray:address={head.address},linger_seconds=1")
    finally:
        ray.shutdown()
        head.shutdown()  # type: ignore[no-untyped-call]


def run_live(
    folder: Path,
    nodes: Nodes,
    composition: WrittenComposition,
    jobs: Sequence[PlannedJob],
    estimates: Sequence[float],
) -> Path:
    """Submit ``jobs`` at their times and wait until all have ended; the path of the journal."""
    live = LiveCluster(folder, nodes, composition)
    began = time.monotonic()
    for job, estimate in zip(jobs, estimates, strict=True):
        time.sleep(max(began + job.after - time.monotonic(), 0.0))
        live.submit(job.request(estimate))
    live.drain()
    return live.end()
