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

from chaos_site import CLUSTER, ChaosSite
from evidence import broken_histories, gpus_held_twice, jobs_run_twice, read_traces
from fault_proxy import CALM, STORM
from faults import Faults
from grounds import GROUNDS

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
"""A kill waits so long at most for what is to trigger it."""
_MOMENTS = (
    "while it starts",
    "at a message",
    "at a request",
    "at an acknowledgement",
    "at any moment",
)
_FAULTS_FOR_A_KILL = (0, 1, 1, 2)
_BREATHER_KILLS = 6
_BREATHER_SECONDS = 20.0
_STUCK_SECONDS = 120.0


@dataclass(frozen=True)
class Options:
    """What the command line said."""

    executor: str
    kills: int
    runs: int
    clients: int
    seed: int
    at_once: int
    out: Path
    setting: str


def options() -> Options:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--executor", choices=list(GROUNDS), default="dial-in")
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
    """One run at ``site``."""

    def __init__(self, site: ChaosSite, run: Run) -> None:
        self.site, self.run = site, run
        self._rng = random.Random(f"{run.seed} faults")
        self._faults = Faults(site, self._rng, run.faults)
        self._starting_seconds = 1.0

    def rage(self, kills: int) -> None:
        """Kill the controller so often, and whatever else comes to mind."""
        self.site.ground.be(STORM)
        for done in range(1, kills + 1):
            for _ in range(self._rng.choice(_FAULTS_FOR_A_KILL)):
                self._faults.one()
            self._kill_server()
            if done % _BREATHER_KILLS == 0:
                self._breathe()
            if done == kills // 2 and kills > 2 * _BREATHER_KILLS:
                self._faults.give_up_a_node()

    # ------------------------------------------------------------------ the controller

    def _kill_server(self) -> None:
        rng, site = self._rng, self.site
        how = rng.choice(_MOMENTS)
        met = True
        if how == "while it starts":
            time.sleep(rng.uniform(0.0, self._starting_seconds))
        else:
            self._wait_until_it_serves()
        match how:
            case "at a message":
                met = self._wait_for_words(1 + int(rng.expovariate(1 / 15)))
            case "at a request":
                met = site.known.requests.wait(rng.randint(1, 12), _TRIGGER_SECONDS)
                time.sleep(rng.expovariate(1 / 0.01))
            case "at an acknowledgement":
                met = site.known.answers.wait(1, _TRIGGER_SECONDS)
            case "at any moment":
                time.sleep(rng.uniform(0.0, 2 * self._starting_seconds))
        while not site.server.kill():
            time.sleep(0.01)
        self.run.kills[how if met else "at any moment"] += 1

    def _wait_for_words(self, count: int) -> bool:
        """So many messages of agents, or where nobody counts these, lines of traces; whether they came."""
        if (frames := self.site.ground.frames) is not None:
            return frames.wait(count, _TRIGGER_SECONDS)
        goal = self.site.words + count
        until = time.monotonic() + _TRIGGER_SECONDS
        while self.site.words < goal:
            if time.monotonic() > until:
                return False
            time.sleep(0.005)
        return True

    def _wait_until_it_serves(self) -> None:
        """Not for ever: a store that is away lets nobody serve."""
        began = time.monotonic()
        while time.monotonic() - began < _TRIGGER_SECONDS:
            if self.site.ask("/readyz") is not None:
                self._starting_seconds = 0.8 * self._starting_seconds
                self._starting_seconds += 0.2 * (time.monotonic() - began)
                return
            time.sleep(0.02)

    def _breathe(self) -> None:
        """Let some jobs get on; nobody can be expected to work while he is killed all the time."""
        self._faults.join()
        began, before = time.monotonic(), self.site.mark
        while time.monotonic() - began < _BREATHER_SECONDS:
            if self.site.mark[1] > before[1] + 1:
                return
            time.sleep(0.2)

    # ------------------------------------------------------------------ afterwards

    def drain(self) -> list[str]:
        """Let nothing more go wrong, and wait until no job is left; what is wrong with that."""
        self._faults.join()
        site = self.site
        site.ground.be(CALM)
        acknowledged = site.end_clients(_STUCK_SECONDS)
        mark, since = site.mark, time.monotonic()
        while True:
            queue = site.ask("/v1/jobs")
            if queue is not None and not queue["jobs"]:
                break
            if site.mark != mark:
                mark, since = site.mark, time.monotonic()
            if time.monotonic() - since > _STUCK_SECONDS:
                return [f"nothing happens any more, and there are {queue}"]
            time.sleep(0.2)
        until = time.monotonic() + _STUCK_SECONDS
        while (left := site.processes()) and time.monotonic() < until:
            time.sleep(0.2)
        stuck = [] if acknowledged else ["a client was never answered"]
        return stuck + [
            f"a process is left of jobs that are over: {line}" for line in left.values()
        ]

    def judge(self, stuck: list[str]) -> None:
        """Read what is left of it all."""
        site, known, run = self.site, self.site.known, self.run
        over = {job["number"]: job for job in site.over()}
        lost = list(known.contradictions)
        for number in known.totals:
            state = over[number]["state"] if number in over else "not there"
            if state != "finished":
                reason = over.get(number, {}).get("reason", "")
                lost.append(f"job {number} was acknowledged and is {state}: {reason}")
        if len(over) != known.keys:
            lost.append(f"{known.keys} jobs were submitted, {len(over)} are there")
        traces = read_traces(site.traces)
        found = (
            lost,
            list(gpus_held_twice(traces)),
            list(jobs_run_twice(traces)),
            list(broken_histories(traces, known.totals)),
            stuck,
        )
        run.violations = dict(zip(PROPERTIES, found, strict=True))
        run.faults += site.ground.injected
        run.figures.update(
            {
                "jobs": len(known.totals),
                "processes traced": len(traces),
                "attempts": len({(one.job, one.attempt) for one in traces}),
                "iterations run": sum(len(one.iterations) for one in traces),
                "iterations that survive": sum(known.totals.values()),
                "checkpoints refused by the disk": sum(len(one.unsaved) for one in traces),
                "submissions repeated after their answer": known.repeated,
                "requests tried again": known.retried,
                "starts of the controller": site.server.lives,
                "starts it refused": site.server.deaths,
            }
        )


def one_run(executor: str, store: str, seed: int, kills: int, clients: int) -> Run:
    """A whole run, with its evidence."""
    began = time.monotonic()
    run = Run(store, seed)
    with tempfile.TemporaryDirectory(prefix="volvelle-chaos-") as folder:
        site = ChaosSite(Path(folder), executor, store, seed, clients)
        try:
            chaos = Chaos(site, run)
            chaos.rage(kills)
            chaos.judge(chaos.drain())
        finally:
            site.close()
    if not site.disk.real:
        run.figures["no disk could be mounted, so none was filled"] = 1
    run.figures["seconds"] = round(time.monotonic() - began)
    return run


def tell(runs: list[Run], report: Report) -> None:
    """The page."""
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
    tell(runs, report)
    for missing in (each for each in results if isinstance(each, str)):
        report.say(missing)
    report.close()
    sys.exit(any(each for run in runs for each in run.violations.values()))


if __name__ == "__main__":
    main()
