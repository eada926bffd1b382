"""Policies that decide in rounds give every tracked job the rounds of the Blox simulator.

There a job that ends within a round is seen to at its end, and a first round is known by its end too.
Its LAS counts seconds of running, not GPU-seconds.

With jobs of several GPUs its placement scatters a gang over nodes and gives up though enough GPUs are free
(stream s3), so that its rules are restated, without that, and compared.
"""

from pathlib import Path

import numpy as np
import pytest
from references import Reference, blox_workload, rows, run

from volvelle.model.cluster import parse_cluster

ROUND = 300.0

POLICY = {
    "Fifo": "fifo:round=300",
    "Las": "las:round=300,service=seconds",
    "Srtf": "srtf:round=300",
}


@pytest.mark.parametrize("simulated", POLICY)
@pytest.mark.parametrize(("stream", "cluster"), [("s1_l4", "16x8"), ("s2_l2_32gpu", "4x8")])
def test_every_tracked_job_fares_as_in_the_simulator(
    shared: Path, stream: str, cluster: str, simulated: str
) -> None:
    folder = shared / "golden" / "blox"
    workload = blox_workload(folder, stream)
    # The simulator was stopped about when its stream of jobs ends; under LAS some had not finished.
    until = float(workload.submit_times[-1])
    outcomes = run(workload, POLICY[simulated], parse_cluster(cluster), until=until)
    seed, _, rest = stream.partition("_")
    reference = Reference.read(folder / f"blox_{seed}_{simulated}_{rest}.csv", id="job_id")
    finish = np.ceil(outcomes.finish / ROUND) * ROUND
    first_round_end = outcomes.first_start + ROUND
    assert not reference.differences(
        outcomes,
        submit_s=outcomes.submit_time,
        first_round_end_s=first_round_end,
        finish_s=finish,
        jct_s=finish - outcomes.submit_time,
        responsiveness_s=first_round_end - outcomes.submit_time,
    )


GANGS = "s3_l04_multi_128gpu"
STRICT = {
    "Fifo": "fifo:round=300",
    "Las": "las:round=300,service=seconds,strict=true",
    "Srtf": "srtf:round=300,strict=true",
}


@pytest.mark.parametrize("simulated", STRICT)
def test_every_gang_fares_as_by_the_simulators_rules(shared: Path, simulated: str) -> None:
    folder = shared / "golden" / "blox"
    assert ends(folder, STRICT[simulated]) == pytest.approx(
        restated(folder, simulated), nan_ok=True
    )


@pytest.mark.parametrize(
    ("policy", "simulated", "apart"),
    [
        ("las:round=300,strict=true", "Las", 28),
        ("las:round=300,service=seconds", "Las", 28),
        ("srtf:round=300", "Srtf", 26),
    ],
)
def test_what_counts_as_service_and_strictness_show(
    shared: Path, policy: str, simulated: str, apart: int
) -> None:
    folder = shared / "golden" / "blox"
    ours, theirs = ends(folder, policy), restated(folder, simulated)
    same = np.isclose(list(ours.values()), list(theirs.values()), equal_nan=True)
    assert np.count_nonzero(~same) == apart


@pytest.mark.parametrize(("simulated", "earlier"), [("Fifo", 0.298), ("Srtf", 0.266)])
def test_its_placement_makes_gangs_wait(shared: Path, simulated: str, earlier: float) -> None:
    """How much shorter mean completion times are where GPUs that are free can be used."""
    folder = shared / "golden" / "blox"
    reference = Reference.read(folder / f"blox_s3_{simulated}_l04_multi_128gpu.csv", id="job_id")
    ours = ends(folder, STRICT[simulated])
    jct = np.array([ours[id] for id in reference.ids]) - reference.columns["submit_s"]
    ratio = jct.mean() / reference.columns["jct_s"].mean()
    assert ratio == pytest.approx(1 - earlier, abs=0.002)


def ends(folder: Path, policy: str) -> dict[str, float]:
    """The round in which each job's end is seen; NaN for those that go on when the stream ends."""
    workload = blox_workload(folder, GANGS)
    until = float(workload.submit_times[-1])
    outcomes = run(workload, policy, parse_cluster("16x8"), until=until)
    seen = np.ceil(outcomes.finish / ROUND - 1e-9) * ROUND
    return dict(zip((spec.id for spec in outcomes.specs), seen.tolist(), strict=True))


def restated(folder: Path, simulated: str) -> dict[str, float]:
    """The same by the simulator's rules: a walk down the order that takes GPUs from its end, and stops."""
    to_come = rows(folder / f"blox_{GANGS}_jobs.csv")
    arrival = {row["job_id"]: float(row["arrival_s"]) for row in to_come}
    width = {row["job_id"]: int(row["num_gpus"]) for row in to_come}
    size = {
        row["job_id"]: float(row["iter_time_s"]) * float(row["total_iterations"]) for row in to_come
    }
    ended = dict.fromkeys(arrival, np.nan)
    attained = dict.fromkeys(arrival, 0.0)
    keys = {"Fifo": arrival.__getitem__, "Las": attained.__getitem__}
    key = keys.get(simulated, lambda job: size[job] - attained[job])
    here: list[str] = []
    running: set[str] = set()
    now, until = 0.0, max(arrival.values())
    while now <= until:
        for job in running:
            attained[job] += ROUND
        for job in [job for job in here if job in running and attained[job] >= size[job]]:
            ended[job] = now
            here.remove(job)
            running.remove(job)
        while to_come and arrival[to_come[0]["job_id"]] <= now:
            here.append(to_come.pop(0)["job_id"])
        order = sorted(here, key=key)
        free = 128 - sum(width[job] for job in running)
        for place, job in enumerate(order):
            if job in running:
                continue
            for last in reversed(order[place + 1 :]):
                if free < width[job] and last in running:
                    running.remove(last)
                    free += width[last]
            if free < width[job]:
                break
            running.add(job)
            free -= width[job]
        now += ROUND
    return ended
