"""How well attach tells beside a simulated Kueue (`simulated_kueue.py`), whose run times it has to learn.

    python experiments/kueue/attach_kueue.py [--seeds 5] [--hours 12] [--page FILE] [--record FOLDER]

At each poll the follower sees the objects and tells all workloads. What it told is judged by what came, and
stands beside a moving average of the waits of each queue, told at the same moments. ``--record`` writes the
first hours of one seed as attach records them.
"""

import argparse
import time
from collections.abc import Collection
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

from simulated_kueue import SimulatedKueue

from volvelle.incumbents.attach.accuracy import Figures, Judged
from volvelle.incumbents.attach.session import Replay, Session
from volvelle.incumbents.kueue.attach import Reader, incumbent
from volvelle.incumbents.kueue.forecast import foresee

IN_RACKS = (
    "The same with a topology: racks of two nodes; gangs of 3 pods of 4 GPUs require one rack, gangs of 4"
    " pods of 2 GPUs prefer one:"
)


class Run(NamedTuple):
    """The figures of a seed. jobs: how many ended."""

    seed: int
    told: int
    unanswered: int
    ours: Figures
    naive: Figures
    ends_held: float
    jobs: int
    cpu_seconds: float


def followed(kueue: SimulatedKueue, seed: int, polls: int) -> Run:
    """Follow a simulated cluster from its first poll."""
    leads = Replay(incumbent())
    leads.feed({"t": kueue.time, "site": kueue.site()})
    told = unanswered = 0
    began = time.process_time()
    for _ in range(polls):
        answers = kueue.poll()
        leads.feed({"t": kueue.time, "poll": answers})
        assert leads.follower is not None
        waiting = {job.key for job in leads.follower.snapshot.jobs if job.pending}
        answered = {one.key for one in leads.follower.tell()}
        told, unanswered = told + len(waiting), unanswered + len(waiting - answered)
    spent = time.process_time() - began
    assert leads.follower is not None
    accuracy = leads.follower.accuracy
    ours, naive = accuracy.of_starts()
    assert ours is not None
    assert naive is not None
    ended = sum(one.end is not None for one in kueue.workloads.values())
    return Run(seed, told, unanswered, ours, naive, _held(accuracy.ends), ended, spent)


def _held(judged: Collection[Judged]) -> float:
    polls = sum(one.polls for one in judged)
    return sum(one.polls for one in judged if one.held) / max(polls, 1)


HEAD = (
    "| seed | told starts judged | no answer | P90 held, starts | ends | jobs ended "
    "| start error, mean / median s | by average of the queue | CPU s |",
    "|---|---|---|---|---|---|---|---|---|",
)


def row(run: Run) -> str:
    """A seed's row of the table."""
    return (
        f"| {run.seed} | {run.ours.polls:,} | {run.unanswered} of {run.told:,} | {run.ours.held:.1%}"
        f" | {run.ends_held:.1%} | {run.jobs} | {run.ours.mean:.0f} / {run.ours.median:.0f}"
        f" | {run.naive.mean:.0f} / {run.naive.median:.0f} | {run.cpu_seconds:.0f} |"
    )


def over_seeds(runs: list[Run]) -> str:
    """The share for which P90 held, over the seeds."""
    starts, ends = [run.ours.held for run in runs], [run.ends_held for run in runs]
    said = [
        f"of {name} {mean(held):.1%}, from {min(held):.1%} to {max(held):.1%}"
        f" (standard deviation {stdev(held) if len(held) > 1 else 0.0:.1%})"
        for name, held in (("starts", starts), ("ends", ends))
    ]
    return f"P90 held over these seeds: {'; '.join(said)}."


def with_true_times(asked: argparse.Namespace, *, topology: bool) -> str:
    """How far starts are from those foreseen with true run times, where no workload arrives any more."""
    off: list[float] = []
    arriving = asked.hours / 2 * 3600.0
    for seed in range(asked.seeds):
        kueue = SimulatedKueue(seed, asked.every, asked.load, arriving, topology=topology)
        kueue.run_until(kueue.time + arriving)
        reader, now, answers = Reader(), kueue.time, kueue.site() | kueue.shown()
        snapshot = reader.snapshot(answers, now)
        lasting = {one.key: one.seconds for one in kueue.workloads.values()}
        foreseen = foresee(reader.site(answers).at(snapshot), snapshot, lasting)
        kueue.run_until(now + 1000.0 * arriving)
        waiting = {job.key for job in snapshot.jobs if job.pending}
        for one in kueue.workloads.values():
            if one.key in waiting and (told := foreseen[one.key].start) is not None:
                off.append(abs(next(start for start in one.starts if start > now) - told))
    return (
        f"With true run times, half-way and with no workload to come, {len(off)} workloads that wait start"
        f" within {max(off, default=0.0):.1f} s of what is foreseen."
    )


def main() -> None:
    """Follow each seed, print the tables, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--hours", type=float, default=12.0)
    parser.add_argument("--every", type=float, default=60.0)
    parser.add_argument("--load", type=float, default=1.0)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--record", type=Path)
    asked = parser.parse_args()
    polls = int(asked.hours * 3600.0 / asked.every)
    if asked.record is not None:
        kueue = SimulatedKueue(0, asked.every, asked.load)
        session = Session(kueue, asked.record, incumbent(), clock=lambda: kueue.time)
        for _ in range(polls):
            session.step()
        session.close()
        return
    given = " ".join(
        f"--{name} {getattr(asked, name):g}" for name in ("seeds", "hours", "every", "load")
    )
    lines = [
        "# Times told beside a simulated Kueue",
        "",
        f"By `python experiments/kueue/attach_kueue.py {given}`: all workloads that wait at each poll."
        " Run times are learned as the run goes on. The average of a queue is judged where it has not passed"
        " yet.",
    ]
    for topology, said in ((False, "Quota alone decides:"), (True, IN_RACKS)):
        lines += ["", said, "", *HEAD]
        runs = []
        for seed in range(asked.seeds):
            kueue = SimulatedKueue(seed, asked.every, asked.load, topology=topology)
            runs.append(followed(kueue, seed, polls))
            lines.append(row(runs[-1]))
            print(lines[-1], flush=True)
        lines += ["", over_seeds(runs), "", with_true_times(asked, topology=topology)]
    if asked.page is not None:
        asked.page.parent.mkdir(parents=True, exist_ok=True)
        asked.page.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
