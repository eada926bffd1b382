"""Tiresias' queues and the Gittins index, by hand-worked examples and from the definition."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volvelle.core.policy import policies
from volvelle.model.arrays import FloatColumn
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job
from volvelle.model.problems import Problem
from volvelle.policies.growth import count_down_to, count_up_to
from volvelle.systems.tiresias.gittins import Gittins, with_samples
from volvelle.systems.tiresias.queues import LIMITS, PARAMETERS, QUANTUM, add_sample, indices
from volvelle.systems.tiresias.reproductions.tiresias import indices_of_samples
from volvelle.testing.scenario import Run, Scenario, happen, linear_job


def under(policy: str, jobs: list[Job], cluster: str = "1x1") -> Run:
    return happen(Scenario.of(parse_cluster(cluster), jobs, policy=policy))


def finishes(policy: str, jobs: list[Job], cluster: str = "1x1") -> list[float]:
    finish: list[float] = under(policy, jobs, cluster).outcomes.finish.tolist()
    return finish


class TestQueues:
    def test_a_job_falls_at_exactly_the_moment_it_reaches_the_limit(self) -> None:
        jobs = [linear_job(0, 0.0, 1.0, 100.0), linear_job(1, 10.0, 1.0, 20.0)]
        # Job 0 falls at 50; job 1 never does and runs from then on.
        assert finishes("tiresias:limits=50", jobs) == [120.0, 70.0]

    def test_service_is_gpus_times_seconds(self) -> None:
        jobs = [linear_job(0, 0.0, 4.0, 100.0), linear_job(1, 10.0, 1.0, 20.0)]
        assert finishes("tiresias:limits=50", jobs, "1x4") == [120.0, 32.5]
        seconds = "tiresias:limits=50,service=seconds"
        assert finishes(seconds, jobs, "1x4") == [120.0, 70.0]

    def test_a_newcomer_goes_before_whoever_has_fallen(self) -> None:
        jobs = [linear_job(0, 0.0, 1.0, 100.0), linear_job(1, 70.0, 1.0, 20.0)]
        run = under("tiresias:limits=50", jobs)
        assert run.outcomes.finish.tolist() == [120.0, 90.0]
        assert run.outcomes.preemptions.tolist() == [1, 0]

    def test_within_a_queue_nobody_is_preempted(self) -> None:
        jobs = [linear_job(n, 10.0 * n, 1.0, 30.0) for n in range(3)]
        run = under("tiresias:limits=100", jobs)
        assert run.outcomes.finish.tolist() == [30.0, 60.0, 90.0]
        assert not run.outcomes.preemptions.any()

    def test_several_queues(self) -> None:
        jobs = [linear_job(0, 0.0, 1.0, 100.0), linear_job(1, 0.0, 1.0, 40.0)]
        # 0 falls at 10, 1 at 20; 0 falls again at 40, 1 at 60; then both are in the last: 0 first.
        assert finishes("tiresias:limits=10/30", jobs) == [130.0, 140.0]

    def test_by_entry_whoever_fell_first_goes_first(self) -> None:
        """Job 1 started later than job 0 and fell earlier; one of them has to give way to job 2."""
        jobs = [
            linear_job(0, 0.0, 1.0, 100.0),
            linear_job(1, 10.0, 2.0, 100.0),
            linear_job(2, 70.0, 2.0, 10.0),
        ]
        by_start = under("tiresias:limits=60", jobs, "1x4").outcomes
        by_entry = under("tiresias-pollux:limits=60", jobs, "1x4").outcomes
        assert by_start.preemptions.tolist() == [0, 1, 0]
        assert by_entry.preemptions.tolist() == [1, 0, 0]

    def test_by_entry_the_first_queue_goes_by_submission(self) -> None:
        """Job 1 does not fit at first and job 2 does."""
        jobs = [
            linear_job(0, 0.0, 3.0, 50.0),
            linear_job(1, 1.0, 4.0, 5.0),
            linear_job(2, 2.0, 1.0, 100.0),
        ]
        assert finishes("tiresias", jobs, "1x4") == [50.0, 107.0, 102.0]
        assert finishes("tiresias-pollux", jobs, "1x4") == [50.0, 55.0, 107.0]

    def test_jobs_in_the_last_queue_are_served_by_first_start(self) -> None:
        jobs = [linear_job(0, 0.0, 1.0, 100.0), linear_job(1, 5.0, 1.0, 100.0)]
        assert finishes("tiresias:limits=10", jobs) == [110.0, 200.0]


class TestPromotion:
    JOBS = (
        linear_job(0, 0.0, 1.0, 60.0),
        *(linear_job(n, 20.0 * n, 1.0, 20.0) for n in range(1, 20)),
    )

    def test_a_fallen_job_starves_without_it(self) -> None:
        assert finishes("tiresias:limits=20", list(self.JOBS))[0] == 440.0

    def test_it_returns_after_waiting_its_multiple(self) -> None:
        # It fell at 20 and waits until 60 and, having run 20 s again, from 80 to 120.
        run = under("tiresias:limits=20,promote=2", list(self.JOBS))
        held = run.outcomes.segments
        assert held.start[held.job == 0].tolist() == [0.0, 60.0, 120.0]

    def test_the_moment_is_exact_though_nothing_else_happens(self) -> None:
        jobs = [linear_job(0, 0.0, 1.0, 100.0), linear_job(1, 5.0, 1.0, 500.0, preemptible=True)]
        jobs.append(linear_job(2, 6.0, 1.0, 500.0))
        # 0 falls at 40, 1 at 80: then 0 goes on by first start.
        held = under("tiresias:limits=40,promote=0.5", jobs).outcomes.segments
        # 0 is promoted at 60, behind 1 which started at 40, and runs once that has fallen at 80.
        assert held.start[held.job == 0].tolist()[:2] == [0.0, 80.0]

    def test_it_counts_anew_after_that(self) -> None:
        jobs = [linear_job(0, 0.0, 1.0, 40.0), linear_job(1, 10.0, 1.0, 200.0)]
        # 0 falls at 30, 1 at 60; 0 goes on, first started, to its end at 70.
        assert finishes("tiresias:limits=30,promote=1", jobs)[0] == 70.0


class TestReproductions:
    def test_in_the_authors_simulator_a_wide_job_falls_late(self) -> None:
        jobs = [linear_job(0, 0.0, 4.0, 100.0), linear_job(1, 1.0, 1.0, 20.0)]
        policy = "tiresias:limits=50"
        assert finishes(policy, jobs, "1x4")[1] == 12.5 + 20
        # Named: 0 + 50/4 = 12; asked at 1: 1 + 49/4 = 13, when 4 x 13 is past the limit.
        assert finishes("tiresias-simulator:limits=50", jobs, "1x4")[1] == 13.0 + 20

    def test_forgiven_jobs_are_back_in_the_first_queue(self) -> None:
        jobs = [
            linear_job(0, 0.0, 1.0, 100.0),
            linear_job(1, 0.0, 1.0, 15.0),
            linear_job(2, 30.0, 1.0, 5.0),
        ]
        # 0 falls at 10, 1 at 20 and is stopped; 0, forgiven, runs on; 2 waits until 0 falls at 30.
        run = under("tiresias-afs:limits=10", jobs)
        assert run.outcomes.first_start.tolist() == [0.0, 10.0, 30.0]

    @pytest.mark.parametrize("limits", ["20/10", "10/10", "0", "-1", "x"])
    def test_limits_that_do_not_ascend_are_refused(self, limits: str) -> None:
        with pytest.raises(Problem, match="limits"):
            policies.make(f"tiresias:limits={limits}")

    @pytest.mark.parametrize("written", ["tiresias:limits=3250/7200,promote=2", "tiresias"])
    def test_it_is_written_as_it_was_read(self, written: str) -> None:
        assert policies.make(written).label == written


def memory(*samples: float, limits: tuple[float, ...] = ()) -> FloatColumn:
    """What the policy goes by."""
    empty = np.zeros(PARAMETERS + len(limits))
    empty[LIMITS], empty[PARAMETERS:] = len(limits), limits
    return with_samples(empty, np.array(samples), 64)


SAMPLES = st.lists(st.integers(1, 50), min_size=1, max_size=30)


class TestGittins:
    @given(SAMPLES, st.integers(0, 60), st.sampled_from([1.0, 5.0, 20.0, np.inf]))
    def test_index_is_its_definition(self, sizes: list[int], age: int, quantum: float) -> None:
        alive = [size - age for size in sizes if size > age]
        expected = 0.0
        if alive:
            within = sum(rest <= quantum for rest in alive) / len(alive)
            expected = within / (sum(min(rest, quantum) for rest in alive) / len(alive))
        known = memory(*map(float, sizes), limits=() if quantum == np.inf else (quantum,))
        index = indices(np.array([float(age)]), np.zeros(1), known)
        assert index[0] == pytest.approx(expected)

    def test_the_simulators_index_rounds_halves_up(self) -> None:
        """One of 64 ends within the quantum: 1/64 = 0.015625, in five digits 0.01563; E is 3250 // 64."""
        known = memory(100.0, *[10_000.0] * 63)
        known[QUANTUM] = 50.0
        assert indices_of_samples(np.zeros(1), known) == pytest.approx(0.01563e6 / 50, abs=1e-9)

    @given(SAMPLES, st.integers(0, 60))
    def test_counting_from_above_finds_what_counting_from_below_does(
        self, sizes: list[int], limit: int
    ) -> None:
        ascending = np.sort(np.array(sizes, dtype=np.float64))
        for count in range(len(sizes) + 1):
            found = count_down_to(ascending, count, float(limit))
            assert found == count_up_to(ascending, count, float(limit))

    @given(SAMPLES)
    def test_samples_are_learnt_one_by_one(self, sizes: list[int]) -> None:
        known, all_at_once = memory(), memory(*map(float, sizes))
        for size in sizes:
            add_sample(known, float(size))
        assert known.tolist() == all_at_once.tolist()

    def test_the_likely_to_end_soon_goes_first(self, tmp_path: Path) -> None:
        (tmp_path / "samples.csv").write_text("duration\n10\n10\n10\n100\n")
        jobs = [linear_job(0, 0.0, 1.0, 100.0), linear_job(1, 20.0, 1.0, 10.0)]
        # After 10 s job 0 is known to be the long kind; with plain queues it would be served out.
        policy = f"gittins:limits=200,distribution={tmp_path / 'samples.csv'}"
        assert finishes(policy, jobs) == [110.0, 30.0]
        assert finishes("tiresias:limits=200", jobs) == [100.0, 110.0]

    def test_what_finished_is_learnt(self) -> None:
        jobs = [linear_job(n, 0.0, 2.0, 10.0 + n) for n in range(3)]
        policy = under("gittins", jobs, "1x2").scheduler.composition.policy
        assert isinstance(policy, Gittins)
        assert policy.samples.tolist() == [20.0, 22.0, 24.0]

    def test_there_is_room_for_every_sample(self) -> None:
        jobs = [linear_job(n, float(n), 2.0, 1.0 + n % 7) for n in range(150)]
        runs = [
            happen(Scenario.of(parse_cluster("1x2"), jobs, policy="gittins"), compiled=each)
            for each in (True, False)
        ]
        for run in runs:
            policy = run.scheduler.composition.policy
            assert isinstance(policy, Gittins)
            assert policy.samples.tolist() == sorted(2.0 + 2.0 * (n % 7) for n in range(150))
        assert runs[0].journal_bytes == runs[1].journal_bytes

    @pytest.mark.parametrize(
        ("text", "complaint"), [("a\nb\n", "line 2: 'b'"), ("", "no samples"), ("1\n-1", "line 2")]
    )
    def test_a_broken_file_is_named(self, tmp_path: Path, text: str, complaint: str) -> None:
        path = tmp_path / "samples.csv"
        path.write_text(text)
        with pytest.raises(Problem, match=complaint):
            policies.make(f"gittins:distribution={path}")
