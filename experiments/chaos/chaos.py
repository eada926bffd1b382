"""Is anything ever lost? `volvelle serve`, agents, supervisors and jobs as processes, and much goes wrong.

In every run clients submit short jobs over the API while the controller is killed with -9 again and again:
while it starts, at a message of an agent or a job, at a request of a client, as soon as a job is
acknowledged, at any moment. Agents, supervisors and jobs are killed too, folders of agents deleted, the
disk under everything is filled to its last byte, also while the controller starts, the store is stopped,
the clocks of controller and agents are set wrong by up to 400 days. Messages between agents and controller
are delayed, repeated, put after later ones, forged for other nodes and of attempts that were never ordered,
and lost with their connection; requests of clients and their answers are lost, delayed and repeated; the
API and the agents' port are flooded, and a hostile user is beside the others. Checkpoints are damaged,
tokens revoked. In a long run the controller is stopped twice for 12 to 62 s, the store's file taken away
once, and the store set back twice: a backup is restored, its disk put back as it was, the end of its log
lost. Under executor `dial-in` nodes are cut off, folders of agents copied, the disk of one node filled,
under `ray` raylets are killed. Under `kubernetes` (a fake cluster, of the tests) watches lose their history,
requests to the API are refused, lost, late, or carried out without an answer; pods are evicted and removed by
force, nodes are not ready and come back or are switched off, and a second server is started. Then all that
stops, the queue has to drain, and the jobs' own traces are read. What is chosen follows from the seed; when
it meets which message depends on the machine.

    python experiments/chaos/chaos.py [--executor ray] [--kills 200] [--runs 4] [--at-once 4] [--add]
"""

import argparse
import random
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from chaos_cluster import BACKENDS, ChaosCluster, NotStartedError
from chaos_page import PROPERTIES, STORES, Options, Run, page_name, read_runs, write_report
from evidence import broken_histories, gpus_held_twice, jobs_run_twice, read_traces
from fault_proxy import FREQUENT_FAULTS, NO_FAULTS
from faults import Faults
from set_back import StoreSetBack

RESULTS = Path(__file__).parent / "results"
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
_NO_ITERATION_SECONDS = 60.0
"""Jobs that begin more slowly than rounds pass do none: the queue then drains under `fifo`."""
_DRAIN_SECONDS = 900.0
"""On a machine so busy that jobs begin more slowly than the policy's rounds pass, attempts come and go."""


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
    parser.add_argument("--add", action="store_true", help="to the runs on the page")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    return Options(**vars(parser.parse_args()))


class Chaos:
    """One run on ``cluster``."""

    def __init__(self, cluster: ChaosCluster, run: Run) -> None:
        self.cluster, self.run = cluster, run
        self._rng = random.Random(f"{run.seed} faults")
        self._faults = Faults(cluster, self._rng, run.faults)
        self._set_back = StoreSetBack(cluster)
        self._starting_seconds = 1.0

    def inject_faults(self, kills: int) -> None:
        """Kill the controller so often, with other faults in between."""
        self.cluster.set_fault_rates(FREQUENT_FAULTS)
        for done in range(1, kills + 1):
            for _ in range(self._rng.choice(_FAULTS_FOR_A_KILL)):
                self._faults.inject_one()
            self._kill_server()
            if done % _PAUSE_KILLS == 0:
                self._let_jobs_progress()
            if kills > 2 * _PAUSE_KILLS:
                self._inject_rare_faults(8 * done // kills, first=8 * done % kills < 8)

    def _inject_rare_faults(self, eighth: int, *, first: bool) -> None:
        """After every eighth of the kills a fault that takes long."""
        self._faults.join()
        match eighth if first else 0:
            case 1:
                self._faults.note(self._faults.delete_a_folder())
                self._faults.note(self._faults.stop_the_server())
            case 2 | 5:
                self._set_back.keep()
            case 3 | 6:
                self._faults.note(self._set_back.set_back())
            case 4:
                self._faults.remove_a_node_until_given_up()
            case 7:
                self._faults.note(self._faults.take_the_store_away())
                self._faults.note(self._faults.stop_the_server())

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
                met = cluster.backend.frames.wait(
                    1 + int(rng.expovariate(1 / 15)), _TRIGGER_SECONDS
                )
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
        cluster.set_fault_rates(NO_FAULTS)
        self._faults.set_clocks_right()
        acknowledged = cluster.end_clients(_STUCK_SECONDS)
        began = since = iterated = time.monotonic()
        mark, attempts, without_rounds = (
            cluster.progress_mark,
            0,
            "queues that drained under fifo",
        )
        while True:
            queue = cluster.get("/v1/jobs")
            if queue is not None and not queue["jobs"]:
                break
            now = time.monotonic()
            given = attempts if queue is None else _attempts(queue["jobs"])
            if cluster.progress_mark != mark:
                iterated = now
            elif now - iterated > _NO_ITERATION_SECONDS and not self.run.figures[without_rounds]:
                self.run.figures[without_rounds] = int(cluster.set_policy("fifo"))
            if (cluster.progress_mark, given) != (mark, attempts):
                mark, attempts, since = cluster.progress_mark, given, now
            if now - since > _STUCK_SECONDS or now - began > _DRAIN_SECONDS:
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
            self._set_back.silent,
            list(gpus_held_twice(traces)),
            list(jobs_run_twice(traces)),
            list(broken_histories(traces, submissions.totals, self._faults.damage.before)),
            stuck,
            self._faults.unserved,
            [*self._faults.noticed.unnoticed, *cluster.backend.unnoticed],
            cluster.tracebacks,
        )
        run.violations = dict(zip(PROPERTIES, found, strict=True))
        run.faults += cluster.backend.injected + cluster.requests.injected
        run.figures.update(
            {
                "jobs": len(submissions.totals),
                "processes traced": len(traces),
                "attempts": len({(one.job, one.attempt) for one in traces}),
                "iterations run": sum(len(one.iterations) for one in traces),
                "iterations that survive": sum(submissions.totals.values()),
                "checkpoints refused by the disk": sum(len(one.unsaved) for one in traces),
                "acknowledged jobs lost with the store": self._set_back.lost,
                "submissions repeated after their answer": submissions.repeated,
                "requests tried again": submissions.retried,
                "connections of floods": self._faults.flood_connections,
                "starts of the controller": cluster.server.starts,
                "starts it refused": cluster.server.exits,
            }
        )


def _attempts(jobs: list[dict[str, int]]) -> int:
    """How often the jobs of the queue were started and preempted."""
    return sum(job["attempt"] + job["preemptions"] for job in jobs)


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


def run(given: Options, index: int) -> Run | str:
    """One of the runs, or why there is none."""
    kills = given.kills // given.runs + (index < given.kills % given.runs)
    store = STORES[index % len(STORES)]
    try:
        return one_run(given.executor, store, given.seed + index, kills, given.clients)
    except (LookupError, NotStartedError) as missing:
        return f"Not run on {store}, seed {given.seed + index}: {missing}."


def main() -> None:
    given = options()
    before = read_runs(given.out / f"{page_name(given)}.csv") if given.add else []
    runs: list[Run] = []
    with ProcessPoolExecutor(given.at_once) as pool:  # Ray wants the main thread
        for made in as_completed([pool.submit(run, given, index) for index in range(given.runs)]):
            result = made.result()
            if isinstance(result, str):
                print(result, file=sys.stderr)
            else:
                runs.append(result)
                write_report(before + sorted(runs, key=lambda one: one.seed), given, __doc__)
    if not runs:
        write_report(before, given, __doc__)
    sys.exit(any(each for run in runs for each in run.violations.values()))


if __name__ == "__main__":
    main()
