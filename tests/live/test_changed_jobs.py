"""Jobs that are changed while they wait, and put back while they run, on a fake cluster."""

from pathlib import Path

import pytest
from fake_cluster import ControllerHarness, sleeping

from volvelle.core.events import JobChanged
from volvelle.core.journal import Journal, read_journal
from volvelle.live.control.requests import Change, Hold, Recompose, Release, Requeue
from volvelle.live.http.job_checks import begins_again
from volvelle.live.job_change import JobChange
from volvelle.live.job_request import JobRequest
from volvelle.live.messages import AttemptEnded, Outcome
from volvelle.live.scheduler_queries import estimated_work, starts_over
from volvelle.live.status.reasons import WaitingReason
from volvelle.live.status.view import JobState
from volvelle.metrics.recorder import outcomes_of
from volvelle.model.problems import Problem
from volvelle.simulate.counterfactual import counterfactual
from volvelle.workload.reading import read_trace


@pytest.fixture
def harness(tmp_path: Path) -> ControllerHarness:
    return ControllerHarness.at(tmp_path, policy="sjf", estimator="declared")


def test_a_change_of_a_waiting_job_decides_also_through_a_restart(
    harness: ControllerHarness,
) -> None:
    harness.submit(sleeping(5, 2))
    first, second = harness.submit(sleeping(5, 2)), harness.submit(sleeping(5, 2))
    harness.execute(Change(second, JobChange(estimate=2.0, priority=3), "dana"))
    harness.crash()
    harness.deliver()
    view = harness.controller.status.jobs[second]
    assert view.changed == {"estimate": (5.0, 2.0), "priority": (0, 3)}
    assert view.request["estimate"] == 2.0
    harness.step(6)
    assert (harness.state(first), harness.state(second)) == ("waiting", "running")
    harness.step(6)
    record = harness.controller.store.jobs.find(second)
    assert record is not None
    assert record.status is not None
    assert record.status["changed"] == {"estimate": [5.0, 2.0], "priority": [0, 3]}


def test_a_change_is_in_a_snapshot(harness: ControllerHarness) -> None:
    harness.submit(sleeping(50, 2))
    number = harness.submit(sleeping(5, 2))
    harness.execute(Change(number, JobChange(time_limit=60.0)))
    harness.crash(snapshot=True)
    harness.deliver()
    assert harness.controller.status.jobs[number].request["time_limit"] == 60.0
    assert harness.controller.status.jobs[number].changed == {"time_limit": (None, 60.0)}


def test_a_change_that_was_repeated_is_one_event(harness: ControllerHarness) -> None:
    harness.submit(sleeping(50, 2))
    number = harness.submit(sleeping(5, 2))
    for _ in range(2):
        harness.execute(Change(number, JobChange(priority=3)))
    events = [event for one in harness.controller.store.entries() for event in one.entry.events]
    changes = [event.changes for event in events if isinstance(event, JobChanged)]
    assert changes == [{"priority": 3}]


def test_what_cannot_be_changed_says_why(harness: ControllerHarness) -> None:
    number = harness.submit(sleeping(50, 2))
    with pytest.raises(Problem, match="job 0 has its GPUs: what it declares changes only while"):
        harness.execute(Change(number, JobChange(priority=3)))
    harness.execute(Change(number, JobChange(priority=0)))  # as it is
    harness.step(4)
    harness.execute(Hold(number))
    harness.step(1)
    with pytest.raises(Problem, match="has run for 4s: a time limit of 3s is over already"):
        harness.execute(Change(number, JobChange(time_limit=3.0)))
    harness.execute(Change(number, JobChange(time_limit=9.0)))
    harness.execute(Release(number))
    harness.step(6)
    record = harness.controller.store.jobs.find(number)
    assert record is not None
    assert record.reason == "its time limit of 9s is over"
    with pytest.raises(Problem, match="job 0 is over"):
        harness.execute(Change(number, JobChange(priority=3)))


def test_a_requeued_job_goes_on_from_its_checkpoint_and_has_all_its_retries(
    harness: ControllerHarness,
) -> None:
    number = harness.submit(sleeping(9, 2))
    harness.step(3)
    shorter = harness.submit(sleeping(2, 2))
    harness.execute(Requeue(number, 1, "root"))
    assert harness.state(number) == "stopping"
    harness.execute(Requeue(number, 1))  # the same again
    harness.step(1)
    assert (harness.state(number), harness.state(shorter)) == ("waiting", "running")
    with pytest.raises(Problem, match="job 0 has no GPUs to give up"):
        harness.execute(Requeue(number))
    harness.execute(Requeue(number, 1))
    with pytest.raises(Problem, match="job 0 has had 1 attempts"):
        harness.execute(Requeue(number, 2))
    harness.crash()
    harness.deliver()
    harness.step(3)
    run = harness.fake_cluster.runs[number]
    assert (run.start.attempt, run.start.saved_iterations) == (2, 4)
    job = harness.controller.status.jobs[number]
    assert (job.state, job.failures, job.preemptions) == (JobState.RUNNING, 0, 0)
    harness.step(7)
    assert harness.state(number) == "finished"


def test_a_job_that_its_user_holds_was_not_preempted(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, policy="srtf", estimator="declared")
    number = harness.submit(sleeping(9, 2))
    harness.step(3)
    harness.execute(Hold(number))
    harness.step(1)
    harness.execute(Release(number))
    harness.step(1)
    harness.submit(sleeping(1, 2))  # srtf stops the first for it
    harness.step(1)
    assert harness.controller.status.jobs[number].preemptions == 1
    assert harness.controller.metrics.preemptions == 1
    journal = tmp_path / "journal.jsonl"
    harness.controller.store.write_journal(journal)
    assert outcomes_of(*read_journal(journal)).preemptions.tolist() == [1, 0]


def test_a_requeued_job_that_is_alone_starts_anew(harness: ControllerHarness) -> None:
    number = harness.submit(sleeping(9, 2))
    harness.step(2)
    harness.execute(Requeue(number))
    harness.step(1)
    assert harness.fake_cluster.runs[number].start.attempt == 2
    assert not harness.controller._cycle.state.ledger.revoked


def test_a_script_that_died_of_its_stop_begins_again_and_is_believed_to(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, policy="srsf", estimator="declared")
    plain = JobRequest(command=("plain", "20"), gpus=2, estimate=20.0)
    number = harness.submit(plain)
    harness.step(8)
    short = harness.submit(sleeping(2, 2))
    harness.step(1)
    assert (harness.state(number), harness.state(short)) == ("waiting", "running")
    scheduler = harness.controller._cycle.state.scheduler
    assert estimated_work(scheduler, number, scheduler.now) == 0.0
    assert starts_over(scheduler, number)
    said = "stopped after 9s, which it had not saved: it begins again (--no-preempt prevents it)"
    assert said in harness.controller.status.jobs[number].reason
    entries = [stored.entry for stored in harness.controller.store.entries()]
    (change,) = [one for each in entries for one in each.events if isinstance(one, JobChanged)]
    assert change.changes == {"starts_over": True}
    harness.crash()
    harness.deliver()
    harness.step(3)
    harness.step(4)
    harness.execute(Requeue(number))  # alone: its GPUs are given to it again before it has ended
    harness.step(1)
    scheduler = harness.controller._cycle.state.scheduler
    assert harness.fake_cluster.runs[number].start.attempt == 3
    assert estimated_work(scheduler, number, scheduler.now) == 0.0
    harness.execute(Hold(number))
    harness.step(1)
    assert "it begins again" in harness.controller.status.jobs[number].reason
    assert starts_over(harness.controller._cycle.state.scheduler, number)


def test_a_plain_script_is_told_that_a_stop_may_lose_its_work_unless_it_is_known_to_save(
    tmp_path: Path,
) -> None:
    harness = ControllerHarness.at(tmp_path, policy="srsf")
    srsf = harness.controller
    plain = {"command": ("plain",), "gpus": 2, "estimate": 20.0}
    said = "policy 'srsf' may stop it for others: a script that saves nothing then begins again"
    (told,) = begins_again(JobRequest(**plain), "dana", srsf)
    assert told.startswith(said)
    for saves in ({"preemptible": False}, {"checkpoint": {"path": "here"}}):
        assert begins_again(JobRequest(**plain, **saves), "dana", srsf) == ()
    harness.deliver()
    harness.execute(Recompose("fifo", "accept-all"))
    assert begins_again(JobRequest(**plain), "dana", srsf) == ()


def test_a_stop_right_after_the_start_says_nothing_of_what_a_script_saves() -> None:
    died = AttemptEnded(0, 1, "", outcome=Outcome.STOPPED, exit_code=-15)
    assert [died.saved_nothing(seconds) for seconds in (0.5, 3.0)] == [None, True]


def test_yesterday_under_another_policy_goes_by_the_last_declaration(
    harness: ControllerHarness, tmp_path: Path
) -> None:
    first, second = harness.submit(sleeping(5, 2)), harness.submit(sleeping(5, 2))
    harness.execute(Change(second, JobChange(priority=4)))
    harness.execute(Requeue(first))
    for _ in range(3):
        harness.step(10)
    journal = tmp_path / "journal.jsonl"
    store = harness.controller.store
    written = Journal(harness.controller._header)
    written.entries += [stored.entry for stored in store.entries()]
    written.write(journal)
    jobs = read_trace(journal).jobs
    assert [job.spec.priority for job in jobs] == [0, 4]
    other = counterfactual(journal, "srsf", "accept-all", 0.0, 100.0)
    assert other.jobs == 2


@pytest.mark.parametrize(
    ("down_at", "said"),
    [
        (48.0, "waits for 4 GPUs: 2 free"),
        (30.0, "60% of it: waits for 4 GPUs: 2 free; 40% of it: no node takes new jobs"),
    ],
)
def test_a_job_says_what_it_waited_for_longest(
    harness: ControllerHarness, down_at: float, said: str
) -> None:
    job = harness.controller._cycle.state.jobs[harness.submit(sleeping(9, 2))]
    job.first_started, job.waiting_reason, job.waiting_since = None, "", None

    def found(text: str, at: float) -> None:
        job.update_forecast(None, None, None, WaitingReason(text), guessed=False, now=at)

    found("waits for 4 GPUs: 0 free", 0.0)
    found("waits for 4 GPUs: 2 free", 20.0)
    found("waits for 4 GPUs: 2 free", 25.0)
    found("no node takes new jobs", down_at)
    job.start(50.0)
    assert job.waited_for == said
