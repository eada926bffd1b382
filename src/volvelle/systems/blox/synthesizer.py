"""The automatic scheduler synthesizer (Blox, EuroSys'24, section 5.2 and appendix A).

Every ten rounds of five minutes the running scheduler is forked, every admission x policy combination is
run ahead on the jobs in the system, those in the admission queue too, and the best goes on::

    now ─▶ for each combination: fork ─▶ handle(Recomposed) ─▶ forecast ─▶ value
        └▶ Recomposed(policy, admission) of the best, where that is not what rules already

The scheduler stays a pure state machine: the synthesizer stands outside, and its choice is an event like
any other. So a journal holds the choices, its replay needs no looking ahead, and a live controller can ask
the same synthesizer and feed the same event (decision 17 tells why).

What the paper leaves open: jobs are run ahead to the end of the last, and nobody else comes. A new policy
starts without memory of its own; jobs that were admitted stay admitted. A policy that could never serve one
of the jobs (Slurm gives no half of a GPU) is passed over. Of equals the one that rules goes
on, or the first as written. For several objectives at once (appendix A: "minimizes both these values
simultaneously") the combination is chosen whose worst ratio to the best of each objective is the least;
`_GRAIN_SECONDS`, a round, is added to both, so that a wait of a second is not infinitely worse than none.
"""

import multiprocessing
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numpy as np

from volvelle.core.events import Recomposed
from volvelle.core.fork import Fork
from volvelle.core.policy import policies
from volvelle.core.scheduler import Scheduler
from volvelle.model.tolerances import SAME_SHARE
from volvelle.simulate.synthesis import ForeseenObjective, Synthesis, read_foreseen

_GRAIN_SECONDS = 300.0
_PAYS_SECONDS = 0.5
"""Processes of their own pay where looking ahead took longer than this the last time."""


class Synthesizer:
    """Chooses for one scheduler. ``workers``: processes to look ahead with; results do not depend on it."""

    def __init__(self, synthesis: Synthesis, workers: int = 1) -> None:
        self.every = synthesis.every
        self._combinations = synthesis.combinations
        self._objectives = [read_foreseen(text) for text in synthesis.objectives]
        self._workers = workers
        self._now_rules: int | None = None  # until the first choice nothing is known to rule
        self._last_took = 0.0

    def choose(self, scheduler: Scheduler, now: float) -> list[Recomposed]:
        """Further events at ``now``: a switch, or none."""
        policy_of = {name: policies.make(name) for name, _ in self._combinations}
        able = [
            at
            for at, (name, _) in enumerate(self._combinations)
            if not scheduler.obstacle_to(policy_of[name])
        ]
        if not able:
            return []
        choices = [Recomposed(now, *self._combinations[at]) for at in able]
        began = time.monotonic()
        values = self._values(_Question(scheduler, now, choices, self._objectives))
        self._last_took = time.monotonic() - began
        best = self._best(values, able)
        if able[best] == self._now_rules:
            return []
        self._now_rules = able[best]
        return [choices[best]]

    def _values(self, question: "_Question") -> list[list[float]]:
        count = len(question.choices)
        workers = min(self._workers, count) if self._last_took > _PAYS_SECONDS else 1
        if workers <= 1:
            return [question.answer(index) for index in range(count)]
        global _question  # noqa: PLW0603 - forked workers find the question here
        _question = question
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(workers, context) as pool:
            return list(pool.map(_answer, range(count)))

    def _best(self, values: Sequence[Sequence[float]], able: Sequence[int]) -> int:
        table = np.array(values) + _GRAIN_SECONDS
        with np.errstate(invalid="ignore"):
            worst = np.nan_to_num(table / table.min(axis=0), nan=1.0).max(axis=1)
        least = float(worst.min())
        equals = np.flatnonzero(worst <= least * (1.0 + SAME_SHARE))
        return next((at for at in equals.tolist() if able[at] == self._now_rules), int(equals[0]))


class _Question(NamedTuple):
    """The forecast outcome of each choice."""

    scheduler: Scheduler
    now: float
    choices: list[Recomposed]
    objectives: list[ForeseenObjective]

    def answer(self, index: int) -> list[float]:
        """The objectives' values under choice ``index``."""
        fork = Fork(self.scheduler).under(self.choices[index])
        ahead = fork.scheduler
        submitted = {number: job.spec.submit_time for number, job in ahead.known.items()}
        submitted |= {event.number: event.spec.submit_time for event in ahead.admissions.waiting}
        foreseen = fork.until()
        return [objective.of(foreseen, submitted) for objective in self.objectives]


_question: _Question | None = None


def _answer(index: int) -> list[float]:
    """The answer to choice ``index``, in a worker."""
    assert _question is not None
    return _question.answer(index)
