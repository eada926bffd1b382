"""The simulated world is a queue like any other: jobs of 1 GPU obey the formulas for queues.

GPUs are servers, durations service times. Streams are drawn with fixed seeds, so that a test which
passes always passes. Where a formula is for the steady state, independent replications without their
first jobs give a confidence interval, which must hold the formula and be narrow.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from volvelle.core.composition import WrittenComposition
from volvelle.metrics.outcomes import Outcomes
from volvelle.metrics.series import busy_gpus, integral, queue_length, running_jobs
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.simulate.run import Setting, simulate
from volvelle.workload.workload import Workload

FloatColumn = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], FloatColumn]

REPLICATIONS = 16
JOBS = 1200
WARM_UP = 200
T_QUANTILE = 2.947
"""Of Student's t with 15 degrees of freedom, for an interval of 99 %."""

HEAVY_SIGMA = 1.0
"""Of the lognormal service: a coefficient of variation of 1.31, that of an exponential being 1."""


def exponential(rng: np.random.Generator, count: int) -> FloatColumn:
    return rng.exponential(1.0, count)


def constant(rng: np.random.Generator, count: int) -> FloatColumn:
    return np.ones(count)


def lognormal(rng: np.random.Generator, count: int) -> FloatColumn:
    return rng.lognormal(-(HEAVY_SIGMA**2) / 2, HEAVY_SIGMA, count)


SECOND_MOMENT: dict[Draw, float] = {
    exponential: 2.0,
    constant: 1.0,
    lognormal: math.exp(HEAVY_SIGMA**2),
}
"""Of each service time of mean 1."""


class Stream(NamedTuple):
    """Poisson arrivals at a mean distance of 1 s; ``load`` of ``servers`` is offered."""

    servers: int
    load: float
    service: Draw
    seed: int


@cache
def queue(stream: Stream, policy: str) -> Outcomes:
    """What becomes of a stream."""
    rng = np.random.default_rng(stream.seed)
    arrivals = np.cumsum(rng.exponential(1.0, JOBS))
    durations = stream.service(rng, JOBS) * stream.load * stream.servers
    jobs = [
        Job(JobSpec(id=str(i), submit_time=submitted), Truth(work=duration))
        for i, (submitted, duration) in enumerate(
            zip(arrivals.tolist(), durations.tolist(), strict=True)
        )
    ]
    cluster = parse_cluster(f"1x{stream.servers}")
    setting = Setting(cluster=cluster, composition=WrittenComposition(policy))
    return simulate(Workload(jobs), setting).outcomes


def replications(servers: int, load: float, service: Draw, policy: str = "fifo") -> list[Outcomes]:
    return [queue(Stream(servers, load, service, seed), policy) for seed in range(REPLICATIONS)]


def assert_confident(
    runs: list[Outcomes], measured: Callable[[Outcomes], FloatColumn], formula: float, width: float
) -> None:
    """The interval of the mean over steady jobs holds ``formula``, and is within ``width`` of it."""
    means = np.array([measured(run)[WARM_UP:].mean() for run in runs])
    reach = T_QUANTILE * float(means.std(ddof=1)) / math.sqrt(len(means))
    assert abs(float(means.mean()) - formula) <= reach <= width * formula


def erlang_c(servers: int, load: float) -> float:
    """The probability that a job of M/M/c waits (Erlang's second formula)."""
    offered = servers * load
    waiting = offered**servers / math.factorial(servers) / (1 - load)
    idle = sum(offered**k / math.factorial(k) for k in range(servers))
    return waiting / (idle + waiting)


@pytest.mark.parametrize(("servers", "load"), [(1, 0.5), (4, 0.6)])
def test_waits_of_many_servers_agree_with_erlang(servers: int, load: float) -> None:
    runs = replications(servers, load, exponential)
    delayed = erlang_c(servers, load)
    wait = delayed * load / (1 - load)
    assert_confident(
        runs, lambda run: (run.responsiveness > 0).astype(np.float64), delayed, width=0.1
    )
    assert_confident(runs, lambda run: run.queueing_delay, wait, width=0.2)


@pytest.mark.parametrize("service", [constant, lognormal])
def test_waits_for_any_service_agree_with_pollaczek_and_khinchine(service: Draw) -> None:
    load = 0.5
    wait = load**2 * SECOND_MOMENT[service] / (2 * (1 - load))
    runs = replications(1, load, service)
    assert_confident(runs, lambda run: run.queueing_delay, wait, width=0.2)


def test_shortest_remaining_time_agrees_with_schrage_and_miller() -> None:
    load = 0.5
    runs = replications(1, load, exponential, "srtf")
    assert_confident(runs, lambda run: run.jct, srpt_response(load), width=0.05)


def srpt_response(load: float) -> float:
    """Mean time in M/M/1 under shortest remaining processing time (Schrage and Miller, 1966).

    For exponential service of mean ``load`` and one arrival a second: a job of x seconds waits
    ``(int_0^x t^2 f(t) dt + x^2 (1 - F(x))) / (2 (1 - rho(x))^2)`` and then stays
    ``int_0^x dt / (1 - rho(t))``, with ``rho(x) = int_0^x t f(t) dt``.
    """
    x = np.linspace(0.0, 40.0 * load, 200_001)
    density = np.exp(-x / load) / load

    def until(values: FloatColumn) -> FloatColumn:
        steps = (values[1:] + values[:-1]) / 2 * np.diff(x)
        return np.concatenate(([0.0], np.cumsum(steps)))

    left = 1.0 - until(x * density)
    wait = (until(x**2 * density) + x**2 * np.exp(-x / load)) / (2 * left**2)
    return float(until((wait + until(1.0 / left)) * density)[-1])


@pytest.mark.parametrize(
    ("servers", "load", "service"),
    [(1, 0.5, exponential), (1, 0.5, lognormal), (4, 0.6, exponential)],
)
def test_every_start_follows_the_recursion_of_kiefer_and_wolfowitz(
    servers: int, load: float, service: Draw
) -> None:
    outcomes = replications(servers, load, service)[0]
    free_at = np.zeros(servers)
    for submitted, duration, start in zip(
        outcomes.submit_time, outcomes.exclusive_seconds, outcomes.first_start, strict=True
    ):
        server = int(free_at.argmin())
        expected = max(submitted, free_at[server])
        assert start == pytest.approx(expected, rel=1e-12)
        free_at[server] = expected + duration


@pytest.mark.parametrize("service", [exponential, lognormal])
def test_nothing_beats_shortest_remaining_time_on_one_server(service: Draw) -> None:
    def mean_jct(policy: str) -> float:
        return float(queue(Stream(1, 0.5, service, 0), policy).jct.mean())

    for other in ("fifo", "sjf", "las:round=0.5"):
        assert mean_jct("srtf") < mean_jct(other)


@pytest.mark.parametrize("policy", ["fifo", "srtf", "las:round=0.5"])
def test_littles_law_holds_as_an_identity(policy: str) -> None:
    outcomes = queue(Stream(4, 0.6, exponential, 0), policy)
    begin, end = float(outcomes.submit_time[0]), outcomes.end_time
    jobs = [integral(part(outcomes), begin, end) for part in (running_jobs, queue_length)]
    assert sum(jobs) == pytest.approx(outcomes.jct.sum())
    waited = outcomes.queueing_delay.sum()
    assert integral(queue_length(outcomes), begin, end) == pytest.approx(waited)
    served = outcomes.exclusive_seconds.sum()
    assert integral(busy_gpus(outcomes), begin, end) == pytest.approx(served)
