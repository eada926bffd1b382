"""Is anything ever lost? `volvelle serve`, agents, supervisors and jobs as processes, and much goes wrong.

In every run clients submit short jobs over the API while the controller is killed with -9 again and again:
while it starts, at a message of an agent or a job, at a request of a client, as soon as a job is
acknowledged, at any moment. Agents, supervisors and jobs are killed too, the disk under everything is filled
to its last byte, the store is stopped. Under executor `dial-in` nodes are cut off, and messages delayed,
repeated, put after later ones and lost with their connection; under `ray` raylets are killed. Then all that
stops, the queue has to drain, and the jobs' own traces are read. What is chosen follows from the seed; when
it meets which message depends on the machine.

    python experiments/chaos/chaos.py [--executor ray] [--kills 200] [--runs 4] [--at-once 4] [--seed 1]
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from backends import BACKENDS
from chaos_cluster import CLUSTER, ChaosCluster
from evidence import broken_histories, gpus_held_twice, jobs_run_twice, read_traces
from fault_proxy import FREQUENT_FAULTS, NO_FAULTS
from faults import Faults

sys.path.append(str(Path(__file__).parents[1]))
from findings import Report

RESULTS = Path(__file__).parent / "results"
PROPERTIES = (
    "every acknowledged job is there, and finished",
    "no GPU ever held by two",
    "no job ran twice at once",
    "every iteration once in the history that survives",
    "the queue drains",
)
_STORES = ("sqlite", "postgresql")
_TRIGGER_SECONDS = 10.0
"""Longest wait for the trigger of a kill."""
_MOMENTS = (
    "while it starts",
    "at a message",
    "at a request",
    "at an acknowledgement",
    "at any moment",
)
_FAULTS_FOR_A_KILL = (0, 1, 1, 2)
_PAUSE_KILLS = 6
_PAUSE_SECONDS = 20.0
_STUCK_SECONDS = 120.0


@dataclass(frozen=True)
class Options:
    """The options of the command line."""

    executor: str
    kills: int
    runs: int
    clients: int
    seed: int
    at_once: int
    out: Path
    setting: str


def options() -> Options:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--executor", choices=list(BACKENDS), default="dial-in")
    parser.add_argument("--kills", type=int, default=200, help="of the controller, over all runs")
    parser.add_argument("--runs", type=int, default=4, help="every second on PostgreSQL")
    parser.add_argument("--clients", type=int, default=3, help="who submit, three open jobs each")
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    parser.add_argument("--at-once", type=int, default=1, help="runs beside each other")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    given = parser.parse_args()
    setting = (
        f"executor {given.executor}, {given.kills} kills of the controller in {given.runs} runs, "
        f"{given.at_once} at once, seeds from {given.seed}, {given.clients} clients, "
        f"{CLUSTER} made-up GPUs of one machine"
    )
    return Options(**vars(given), setting=setting)


@dataclass
class Run:
    """What one run did and what its evidence says. ``violations``: by property."""

    store: str
    seed: int
    kills: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    figures: Counter[str] = field(default_factory=Counter)
    violations: dict[str, list[str]] = field(default_factory=dict)


class Chaos:
    """One run on ``cluster``."""

    def __init__(self, cluster: ChaosCluster, run: Run) -> None:
        self.cluster, self.run = cluster, run
        self._rng = random.Random(f"{run.seed} faults")
        self._faults = Faults(cluster, self._rng, run.faults)
        self._starting_seconds = 1.0

    def inject_faults(self, kills: int) -> None:
        """Kill the controller so often, with other faults in between."""
        self.cluster.backend.set_fault_rates(FREQUENT_FAULTS)
        for done in range(1, kills + 1):
            for _ in range(self._rng.choice(_FAULTS_FOR_A_KILL)):
                self._faults.inject_one()
            self._kill_server()
            if done % _PAUSE_KILLS == 0:
                self._let_jobs_progress()
            if done == kills // 4 and kills > 2 * _PAUSE_KILLS:
                self._faults.delete_a_folder()
            if done == kills // 2 and kills > 2 * _PAUSE_KILLS:
                self._faults.remove_a_node_until_given_up()

    # ------------------------------------------------------------------ the controller

    def _kill_server(self) -> None:
        rng, cluster = self._rng, self.cluster
        how = rng.choice(_MOMENTS)
        met = True
        if how == "while it starts":
            time.sleep(rng.uniform(0.0, self._starting_seconds))
        else:
            self._wait_until_ready()
        match how:
            case "at a message":
                met = self._wait_for_messages(1 + int(rng.expovariate(1 / 15)))
            case "at a request":
                met = cluster.submissions.requests.wait(rng.randint(1, 12), _TRIGGER_SECONDS)
                time.sleep(rng.expovariate(1 / 0.01))
            case "at an acknowledgement":
                met = cluster.submissions.answers.wait(1, _TRIGGER_SECONDS)
            case "at any moment":
                time.sleep(rng.uniform(0.0, 2 * self._starting_seconds))
        while not cluster.server.kill():
            time.sleep(0.01)
        self.run.kills[how if met else "at any moment"] += 1

    def _wait_for_messages(self, count: int) -> bool:
        """Wait for so many messages of agents, or lines of traces if messages are not counted."""
        if (frames := self.cluster.backend.frames) is not None:
            return frames.wait(count, _TRIGGER_SECONDS)
        goal = self.cluster.trace_lines + count
        until = time.monotonic() + _TRIGGER_SECONDS
        while self.cluster.trace_lines < goal:
            if time.monotonic() > until:
                return False
            time.sleep(0.005)
        return True

    def _wait_until_ready(self) -> None:
        """Wait until the server is ready, or for a limited time: the store may be stopped."""
        began = time.monotonic()
        while time.monotonic() - began < _TRIGGER_SECONDS:
            if self.cluster.get("/readyz") is not None:
                self._starting_seconds = 0.8 * self._starting_seconds
                self._starting_seconds += 0.2 * (time.monotonic() - began)
                return
            time.sleep(0.02)

    def _let_jobs_progress(self) -> None:
        """Pause until some jobs have made progress."""
        self._faults.join()
        began, before = time.monotonic(), self.cluster.progress_mark
        while time.monotonic() - began < _PAUSE_SECONDS:
            if self.cluster.progress_mark[1] > before[1] + 1:
                return
            time.sleep(0.2)

    # ------------------------------------------------------------------ afterwards

    def drain(self) -> list[str]:
        """Inject no more faults, and wait until no job is left; problems with that."""
        self._faults.join()
        cluster = self.cluster
        cluster.backend.set_fault_rates(NO_FAULTS)
        acknowledged = cluster.end_clients(_STUCK_SECONDS)
        mark, since = cluster.progress_mark, time.monotonic()
        while True:
            queue = cluster.get("/v1/jobs")
            if queue is not None and not queue["jobs"]:
                break
            if cluster.progress_mark != mark:
                mark, since = cluster.progress_mark, time.monotonic()
            if time.monotonic() - since > _STUCK_SECONDS:
                return [f"nothing happens any more, and there are {queue}"]
            time.sleep(0.2)
        until = time.monotonic() + _STUCK_SECONDS
        while (left := cluster.processes()) and time.monotonic() < until:
            time.sleep(0.2)
        stuck = [] if acknowledged else ["a client was never answered"]
        return stuck + [
            f"a process is left of jobs that are over: {line}" for line in left.values()
        ]

    def check_evidence(self, stuck: list[str]) -> None:
        """Check the properties against server, clients and traces."""
        cluster, submissions, run = self.cluster, self.cluster.submissions, self.run
        over = {job["number"]: job for job in cluster.ended_jobs()}
        lost = list(submissions.contradictions)
        for number in submissions.totals:
            state = over[number]["state"] if number in over else "not there"
            if state != "finished":
                reason = over.get(number, {}).get("reason", "")
                lost.append(f"job {number} was acknowledged and is {state}: {reason}")
        if len(over) != submissions.keys:
            lost.append(f"{submissions.keys} jobs were submitted, {len(over)} are there")
        traces = read_traces(cluster.traces)
        found = (
            lost,
            list(gpus_held_twice(traces)),
            list(jobs_run_twice(traces)),
            list(broken_histories(traces, submissions.totals)),
            stuck,
        )
        run.violations = dict(zip(PROPERTIES, found, strict=True))
        run.faults += cluster.backend.injected
        run.figures.update(
            {
                "jobs": len(submissions.totals),
                "processes traced": len(traces),
                "attempts": len({(one.job, one.attempt) for one in traces}),
                "iterations run": sum(len(one.iterations) for one in traces),
                "iterations that survive": sum(submissions.totals.values()),
                "checkpoints refused by the disk": sum(len(one.unsaved) for one in traces),
                "submissions repeated after their answer": submissions.repeated,
                "requests tried again": submissions.retried,
                "starts of the controller": cluster.server.starts,
                "starts it refused": cluster.server.exits,
            }
        )


def one_run(executor: str, store: str, seed: int, kills: int, clients: int) -> Run:
    """A whole run, with its evidence."""
    began = time.monotonic()
    run = Run(store, seed)
    with tempfile.TemporaryDirectory(prefix="volvelle-chaos-") as folder:
        cluster = ChaosCluster(Path(folder), executor, store, seed, clients)
        try:
            chaos = Chaos(cluster, run)
            chaos.inject_faults(kills)
            chaos.check_evidence(chaos.drain())
        finally:
            cluster.close()
    if not cluster.disk.real:
        run.figures["no disk could be mounted, so none was filled"] = 1
    run.figures["seconds"] = round(time.monotonic() - began)
    return run


def write_report(runs: list[Run], report: Report) -> None:
    """Write the page of results."""
    report.say(__doc__.partition("\n\n")[2].rpartition("\n\n")[0].replace("\n", " "))
    report.table(
        ("what must hold", "violations"),
        [[each, str(sum(len(run.violations[each]) for run in runs))] for each in PROPERTIES],
    )
    for what in dict.fromkeys(v for run in runs for each in run.violations.values() for v in each):
        report.say(f"- {what}")
    names = [f"{run.store}, seed {run.seed}" for run in runs]
    heads = ("", *names, "together")

    def rows(of: Callable[[Run], Counter[str]]) -> list[list[str]]:
        total = sum((of(run) for run in runs), Counter[str]())
        return [
            [what, *(f"{of(run)[what]:,}" for run in runs), f"{total[what]:,}"]
            for what in sorted(total)
        ]

    report.say("Kills of the controller (-9):")
    report.table(heads, rows(lambda run: run.kills + Counter({"all": run.kills.total()})))
    report.say("Other faults that were injected:")
    report.table(heads, rows(lambda run: run.faults))
    report.say("What went on meanwhile:")
    report.table(heads, rows(lambda run: run.figures))
    report.runs(
        ("store", "seed", "kind", "what", "count"),
        [
            (run.store, run.seed, kind, what, count)
            for run in runs
            for kind, counts in (("kill", run.kills), ("fault", run.faults), ("fact", run.figures))
            for what, count in sorted(counts.items())
        ],
    )


def run(given: Options, index: int) -> Run | str:
    """One of the runs, or why there is none."""
    kills = given.kills // given.runs + (index < given.kills % given.runs)
    store = _STORES[index % len(_STORES)]
    try:
        return one_run(given.executor, store, given.seed + index, kills, given.clients)
    except LookupError as missing:
        return f"Not run on {store}: {missing}."


def main() -> None:
    given = options()
    name = "chaos" if given.executor == "dial-in" else f"chaos-{given.executor}"
    report = Report(name, "Nothing lost", given)
    with ProcessPoolExecutor(given.at_once) as pool:  # Ray wants the main thread
        results = list(pool.map(run, [given] * given.runs, range(given.runs)))
    runs = [each for each in results if isinstance(each, Run)]
    write_report(runs, report)
    for missing in (each for each in results if isinstance(each, str)):
        report.say(missing)
    report.close()
    sys.exit(any(each for run in runs for each in run.violations.values()))


if __name__ == "__main__":
    main()
