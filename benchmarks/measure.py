"""What every benchmark prints: CPU seconds, jobs and events a second, peak memory."""

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from volvelle.model.cluster import Cluster
from volvelle.simulate.run import Setting, Simulation, simulate
from volvelle.workload.workload import Workload


def peak_megabytes() -> float:
    """The most memory this process has held so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def limited(figure: float, limit: float | None, unit: str = "s") -> str:
    """A figure beside its limit, and whether it misses it; alone where it has none."""
    if limit is None:
        return f"{figure:9.3f} {unit}"
    return f"{figure:9.3f} {unit} (limit {limit:g}){'  MISSED' if figure > limit else ''}"


@dataclass(frozen=True)
class Figure:
    """One line of a benchmark."""

    label: str
    jobs: int
    simulation: Simulation

    def __str__(self) -> str:
        seconds, events = self.simulation.cpu_seconds, self.simulation.events
        return (
            f"{self.label:32} {seconds:8.2f} s CPU {self.jobs / seconds:12,.0f} jobs/s "
            f"{events / seconds:12,.0f} events/s {1e6 * seconds / events:8.1f} us/event "
            f"{peak_megabytes():8.0f} MB peak"
        )


def warm_up(workload: Workload, setting: Setting) -> None:
    """Compile or load the inner loops, so that they are not part of what is measured.

    On a cluster of one node, so that jobs wait and every loop is entered.
    """
    small = replace(setting, cluster=Cluster(setting.cluster.nodes[:1]))
    simulate(Workload(workload.jobs[:200], workload.name), small, compiled=True)


def best_of(
    times: int,
    workload: Workload,
    setting: Setting,
    journal: bool | Path = False,
    *,
    compiled: bool | None = None,
) -> Simulation:
    """The quickest of several runs: what it costs on a quiet machine."""
    runs = [simulate(workload, setting, journal=journal, compiled=compiled) for _ in range(times)]
    return min(runs, key=lambda run: run.cpu_seconds)


def least_cpu_seconds(times: int, action: Callable[[], object]) -> float:
    """Of several times: what it costs on a quiet machine, all of it."""
    seconds = []
    for _ in range(times):
        began = time.process_time()
        action()
        seconds.append(time.process_time() - began)
    return min(seconds)
