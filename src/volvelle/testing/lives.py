"""The auditor's second half: whole lives of jobs, checked when a run is over.

When GPUs were physically held (a decision may give GPUs that are free only when a checkpoint is written),
that all work was done at the true rates, and that the outcomes say the same.
"""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Collection

import pytest

from volvelle.metrics.outcomes import JobStatus, Outcomes
from volvelle.testing.ledger import TOLERANCE, Books, Holding, Ledger


class Lives:
    """The jobs of a run that is over."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def check(self, outcomes: Outcomes) -> None:
        """Check whole lives: GPUs physically held, work done, and that the outcomes say the same."""
        self._settle_physical()
        self._check_physical()
        for number in range(self.ledger.submitted):
            books = self.ledger.books[number]
            status = outcomes.status[number]
            if number in self.ledger.rejected:
                assert status in (JobStatus.REJECTED, JobStatus.FAILED)
                assert outcomes.reason[number] == self.ledger.rejected[number]
            else:
                assert status == JobStatus.FINISHED, f"job {number} is {status} at the end"
            self._check_work(number, books)
            self._check_outcome(number, books, outcomes)

    def _settle_physical(self) -> None:
        """Work out when each holding had its GPUs in fact: after those before it had gone."""
        past: list[Holding] = []
        for holding in self._in_order_of_decision():
            free_from = self._free_from(holding, past)
            if holding.started is not None and not self._beside_one_that_grows(holding):
                assert free_from > holding.decided, "nobody waits for GPUs that are free"
                assert holding.started == free_from, "it starts as soon as its GPUs are free"
            if holding.started is not None:
                # Stopped just when it would start, it holds its GPUs only for a checkpoint, if it writes one.
                writes = holding.free_at > holding.ended == holding.started
                holding.never = holding.ended <= holding.started and not writes
                assert holding.end != "finished" or not holding.never
            else:
                assert free_from == holding.decided, "a start on GPUs that are not free"
            past.append(holding)

    def _beside_one_that_grows(self, holding: Holding) -> bool:
        """Whether GPUs are counted and another job of the decision grows: whose old GPUs are free is open."""
        return not holding.slots and any(
            other.resized and other.decided == holding.decided and other.number != holding.number
            for books in self.ledger.books.values()
            for other in books.holdings
        )

    def _in_order_of_decision(self) -> list[Holding]:
        """The holdings; jobs that shrink come first within a decision: they keep some of their own GPUs."""
        found: list[tuple[int, bool, int, Holding]] = []
        for books in self.ledger.books.values():
            for before, holding in itertools.pairwise([*books.holdings[:1], *books.holdings]):
                keeps = (
                    holding.resized
                    and before.start <= holding.decided
                    and holding.gpus < before.gpus
                )
                decision, row = holding.place
                found.append((decision, not keeps, row, holding))
        return [holding for *_, holding in sorted(found, key=lambda one: one[:3])]

    def _free_from(self, holding: Holding, past: list[Holding]) -> float:
        """When the GPUs given to ``holding`` were free: its decision or later.

        A job may not start either before its own last checkpoint is written.
        """
        now = holding.decided
        mine = [h.free_at for h in past if h.number == holding.number and not h.never]
        own = max([now, *mine])
        if holding.slots:
            before = [
                h.free_at
                for h in past
                if set(h.slots) & set(holding.slots) and not h.never and not h.ended > now
            ]  # others that go on hold parts beside it
            return max([own, *before])
        there = self.ledger.gpus_of(holding.kind)
        others = [h for h in past if h.kind == holding.kind]

        def fits(time: float) -> bool:
            """Whether there is room at ``time``, by what was known at the decision."""
            busy = sum(
                h.gpus
                for h in others
                if h.start <= time and (h.ended > now or (h.free_at > time and not h.never))
            )
            return busy + holding.gpus <= there + TOLERANCE

        changes = sorted({now, *(t for h in others for t in (h.start, h.free_at) if t > now)})
        room = [time for time in changes if all(fits(later) for later in changes if later >= time)]
        return max(own, room[0])

    def _check_physical(self) -> None:
        """No GPU physically in two hands, checkpoints being written included."""
        holdings = [h for h in self._in_order_of_decision() if not h.never]
        for kind in sorted({holding.kind for holding in holdings}):
            moments: list[tuple[float, float]] = []
            for holding in holdings:
                if holding.kind == kind:
                    moments += [(holding.start, holding.gpus), (holding.free_at, -holding.gpus)]
            there = self.ledger.gpus_of(kind)
            held = 0.0
            for _, change in sorted(moments):
                held += change
                assert held <= there + TOLERANCE, f"more GPUs of {kind} in use than there are"
        hands: dict[int, list[tuple[float, float]]] = defaultdict(list)
        for holding in sorted(holdings, key=lambda holding: holding.start):
            for slot in holding.slots:
                beside = [(end, part) for end, part in hands[slot] if end > holding.start]
                hands[slot] = [*beside, (holding.free_at, holding.part)]
                held = sum(part for _, part in hands[slot])
                assert held <= 1 + TOLERANCE, f"more than all of slot {slot} in use"

    def _check_work(self, number: int, books: Books) -> None:
        """Every holding advanced the job by its true rates; a finished job did exactly its work."""
        spec, truth = self.ledger.jobs[number].spec, self.ledger.jobs[number].truth
        work = 0.0
        failures = iter(books.failures)
        for run in self._runs(books):
            holding, last = run[0], run[-1]
            gap = self.ledger.overheads.gap_seconds(
                spec, resumed=holding.attempt > 1, resized=holding.resized
            )
            begin = holding.start + gap
            if last.end == "failed":
                failed = next(failures)
                saved, at = self._last_checkpoint(run, work, begin, failed.work_done)
                assert failed.work_done == pytest.approx(saved, rel=TOLERANCE, abs=1e-9)
                lost = 0.0 if last.never else (last.ended - at) * last.gpus
                assert failed.lost_gpu_seconds == pytest.approx(lost, rel=1e-6, abs=1e-6)
                work = saved
            elif not last.never:
                work = self._work_of(run, work, begin, last.ended)
        if books.concluded:
            assert 0 <= work <= truth.work * (1 + TOLERANCE)
        elif not math.isnan(books.finish):
            assert work == pytest.approx(truth.work, rel=TOLERANCE), "exactly the work there was"

    @staticmethod
    def _runs(books: Books) -> list[list[Holding]]:
        """The holdings of a job, those together in which it ran on where it was."""
        runs: list[list[Holding]] = []
        for holding in books.holdings:
            if holding.in_place:
                runs[-1].append(holding)
            else:
                runs.append([holding])
        return runs

    def _work_of(self, run: list[Holding], work: float, begin: float, end: float) -> float:
        """Work done at ``end`` by a job with ``work`` done at ``begin``, partner after partner."""
        for holding in run:
            since = max(begin, holding.start)
            work = self._work_at(holding, work, since, min(end, holding.ended))
        return work

    def _work_at(self, holding: Holding, work: float, begin: float, end: float) -> float:
        """Work done at ``end`` by a job with ``work`` done at ``begin``, regime after regime."""
        truth = self.ledger.jobs[holding.number].truth
        there = self.ledger.nodes(holding.slots)
        nodes, share = len(there) or 1, 1.0
        if holding.slots and truth.spread_slowdown:
            share = 1.0 / (1.0 + truth.spread_slowdown * self._nodes_too_many(there, holding.gpus))
        share /= max(self.ledger.slowdowns(holding), default=1.0)
        now = begin
        while now < end:
            reached = work * (1 + 1e-12)  # a boundary that rounding left a hair ahead
            rate = share * self._rate(holding, nodes, reached)
            if truth.sensitivity is not None:
                has = [amounts for time, amounts in holding.amounts if time <= now][-1]
                rate *= truth.sensitivity.share(*has)
            ahead = [r.start_work for r in truth.regimes if r.start_work > reached]
            changes = [time for time, _ in holding.amounts if time > now]
            until = min([end, *changes, *(now + (bound - work) / rate for bound in ahead[:1])])
            work += rate * (until - now)
            now = until
        return work

    def _nodes_too_many(self, there: Collection[int], gpus: float) -> float:
        """Nodes beyond the fewest, with those as which racks and blocks beyond the fewest count."""
        cluster = self.ledger.cluster
        fewest = math.ceil(gpus / max(node.gpus for node in cluster.nodes))
        found = float(max(len(there) - fewest, 0))
        for depth, level in enumerate(cluster.levels, 1):
            sizes = Counter[tuple[str, ...]]()
            for node in cluster.nodes:
                sizes[node.domain[:depth]] += node.gpus
            spanned = {cluster.nodes[at].domain[:depth] for at in there}
            found += level.weight * max(len(spanned) - math.ceil(gpus / max(sizes.values())), 0)
        return found

    def _rate(self, holding: Holding, nodes: int, work: float) -> float:
        """Units of work per second of a job on the GPUs it holds, CPUs and memory aside."""
        job = self.ledger.jobs[holding.number]
        spec, truth = job.spec, job.truth
        if holding.partner >= 0:
            beside = self.ledger.jobs[holding.partner].spec.name
            return truth.beside[beside].rate(spec.gpus, holding.kind.gpu_type)
        rate = truth.rate(max(holding.gpus, spec.least_gpus), holding.kind.gpu_type, nodes, work)
        return rate * min(holding.gpus / spec.least_gpus, 1.0)  # with less: for part of the time

    def _last_checkpoint(
        self, run: list[Holding], work: float, begin: float, told: float
    ) -> tuple[float, float]:
        """Work in the last checkpoint before a failure, and when it was written (or it started).

        Where a failure falls on the moment of a checkpoint to the last bit, either is right.
        """
        every, holding = self.ledger.overheads.checkpoint_every, run[-1]
        if holding.never or every is None or holding.ended < begin:
            return work, run[0].start
        written = (holding.ended - begin) / every
        choices = []
        for count in {math.floor(written * (1 - 1e-12)), math.floor(written * (1 + 1e-12))}:
            at = begin + count * every
            choices.append((self._work_of(run, work, begin, at), at if count else run[0].start))
        return min(choices, key=lambda choice: abs(choice[0] - told))

    def _check_outcome(self, number: int, books: Books, outcomes: Outcomes) -> None:
        finish = outcomes.finish[number]
        assert finish == pytest.approx(books.finish, rel=0, abs=0, nan_ok=True)
        stops = sum(h.end == "stopped" for h in books.holdings)
        assert outcomes.preemptions[number] == stops
        assert outcomes.restarts[number] == max(books.attempts - 1, 0)
        held = books.holdings
        if any(h.never for h in held):
            return  # events do not tell of a start that was taken back before its GPUs were free
        gpu_seconds = sum(h.gpus * (h.free_at - h.start) for h in held)
        run_seconds = sum(h.free_at - h.start for h in held)
        assert outcomes.gpu_seconds[number] == pytest.approx(gpu_seconds, rel=TOLERANCE, abs=1e-9)
        assert outcomes.run_seconds[number] == pytest.approx(run_seconds, rel=TOLERANCE, abs=1e-9)
        first = min((h.start for h in held), default=math.nan)
        assert outcomes.first_start[number] == pytest.approx(first, rel=0, abs=0, nan_ok=True)
