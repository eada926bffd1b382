"""How well attach tells beside a simulated Kueue (`simulated_kueue.py`), whose run times it has to learn.

    python experiments/kueue/attach_kueue.py [--seeds 5] [--hours 12] [--page FILE] [--record FOLDER]

At each poll the follower sees the objects and tells all workloads. What it told is judged by what came, and
stands beside a moving average of the waits of each queue, told at the same moments. ``--record`` writes the
first hours of one seed as attach records them.
"""

import argparse
import time
from pathlib import Path
from typing import NamedTuple

from simulated_kueue import SimulatedKueue

from volvelle.incumbents.attach.accuracy import Figures, Judged
from volvelle.incumbents.attach.session import Replay, Session
from volvelle.incumbents.kueue.attach import incumbent


class Run(NamedTuple):
    """The figures of a seed."""

    seed: int
    told: int
    unanswered: int
    ours: Figures | None
    naive: Figures | None
    ends_held: float
    cpu_seconds: float


def followed(seed: int, hours: float, every: float, load: float) -> Run:
    """Follow a simulated cluster from its first poll."""
    kueue, leads = SimulatedKueue(seed, every, load), Replay(incumbent())
    leads.feed({"t": kueue.time, "site": kueue.site()})
    told = unanswered = 0
    began = time.process_time()
    for _ in range(int(hours * 3600.0 / every)):
        answers = kueue.poll()
        leads.feed({"t": kueue.time, "poll": answers})
        assert leads.follower is not None
        waiting = {job.key for job in leads.follower.snapshot.jobs if job.pending}
        answered = {one.key for one in leads.follower.tell()}
        told, unanswered = told + len(waiting), unanswered + len(waiting - answered)
    spent = time.process_time() - began
    assert leads.follower is not None
    accuracy = leads.follower.accuracy
    return Run(seed, told, unanswered, *accuracy.of_starts(), _held(list(accuracy.ends)), spent)


def _held(judged: list[Judged]) -> float:
    polls = sum(one.polls for one in judged)
    return sum(one.polls for one in judged if one.held) / max(polls, 1)


def main() -> None:
    """Follow each seed, print the table, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--hours", type=float, default=12.0)
    parser.add_argument("--every", type=float, default=60.0)
    parser.add_argument("--load", type=float, default=1.0)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--record", type=Path)
    asked = parser.parse_args()
    if asked.record is not None:
        kueue = SimulatedKueue(0, asked.every, asked.load)
        session = Session(kueue, asked.record, incumbent(), clock=lambda: kueue.time)
        for _ in range(int(asked.hours * 3600.0 / asked.every)):
            session.step()
        session.close()
        return
    lines = [
        "| seed | told starts judged | no answer | P90 held, starts | ends | start error, mean / median s "
        "| by average of the queue | CPU s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for seed in range(asked.seeds):
        run = followed(seed, asked.hours, asked.every, asked.load)
        assert run.ours is not None
        assert run.naive is not None
        lines.append(
            f"| {seed} | {run.ours.polls:,} | {run.unanswered} of {run.told:,} | {run.ours.held:.1%}"
            f" | {run.ends_held:.1%} | {run.ours.mean:.0f} / {run.ours.median:.0f}"
            f" | {run.naive.mean:.0f} / {run.naive.median:.0f} | {run.cpu_seconds:.0f} |"
        )
        print(lines[-1], flush=True)
    if asked.page is not None:
        asked.page.parent.mkdir(parents=True, exist_ok=True)
        given = " ".join(
            f"--{name} {getattr(asked, name):g}" for name in ("seeds", "hours", "every", "load")
        )
        head = [
            "# Times told beside a simulated Kueue",
            "",
            f"By `python experiments/kueue/attach_kueue.py {given}`: all workloads that wait at each poll."
            " Run times are learned as the run goes on.",
            "",
        ]
        asked.page.write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
