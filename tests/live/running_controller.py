"""A controller in this process over real nodes, and jobs that write traces."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from executor_harnesses import SOURCES
from fake_cluster import header_of

from volvelle.live.control.controller import Controller
from volvelle.live.control.requests import Submit
from volvelle.live.job_request import JobRequest
from volvelle.live.nodes.executor import ExecutorContext, executors
from volvelle.live.store import Store
from volvelle.model.cluster import Cluster, parse_cluster

_TRACED_JOB = Path(__file__).parents[2] / "experiments" / "chaos" / "traced_job.py"


@contextlib.contextmanager
def running_controller(
    folder: Path, cluster: str | Cluster, executor: str, policy: str
) -> Iterator[Controller]:
    """In charge of ``cluster``; afterwards whatever runs runs on."""
    made = parse_cluster(cluster) if isinstance(cluster, str) else cluster
    context = ExecutorContext(made, folder / "executor", "the token of agents")
    store = Store.open(str(folder / "store.db"))
    header = header_of(made, policy, placement="consolidated")
    controller = Controller(store, header, executors.make(executor), context)
    controller.start()
    try:
        yield controller
    finally:
        controller.stop()


def submit_traced(
    controller: Controller, traces: Path, gpus: int, iterations: int, seconds: float
) -> int:
    """A job that counts to ``iterations`` and writes in ``traces`` what became of it; its number."""
    words = (
        sys.executable,
        "-S",
        str(_TRACED_JOB),
        str(traces),
        str(iterations),
        str(seconds),
        "5",
    )
    request = JobRequest(
        command=words,
        gpus=gpus,
        estimate=iterations * seconds,
        retries=1000,
        environment={"PYTHONPATH": str(SOURCES)},
    )
    (number,) = controller.request(Submit("dana", request)).result(timeout=60.0)
    assert isinstance(number, int)
    return number
