"""How a job's end is understood, and when it was: of real processes, and by the controller."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Timer, get_ident

import msgspec
import pytest
from executor_harnesses import LocalHarness
from fake_cluster import ControllerHarness, sleeping
from waiting import until

from volvelle.core.events import JobFinished
from volvelle.live.agent import supervisor
from volvelle.live.control.requests import Submit
from volvelle.live.messages import AttemptEnded, AttemptStarted, Outcome, Stop

TRAPPED = "trap '{}' TERM; echo ready; while :; do sleep 0.02; done"


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[LocalHarness]:
    with LocalHarness(tmp_path) as harness:
        yield harness


def test_only_a_job_that_is_done_counts_as_finished(harness: LocalHarness) -> None:
    def start(number: int, script: str) -> None:
        harness.start(command=("sh", "-c", script), number=number, first=number % 2)
        log = harness.attempt_folder(harness.nodes[number % 2], number) / "output.log"
        until(lambda: log.exists() and log.read_text() == "ready\n")

    def ended(number: int) -> tuple[Outcome, str]:
        found = harness.end(number)
        return found.outcome, found.reason

    start(1, "echo ready; exit 75")
    start(2, TRAPPED.format("exit 0"))
    harness.send(Stop(2, 1))
    assert ended(1) == (Outcome.STOPPED, "exited by itself: it is not done")
    assert ended(2) == (Outcome.STOPPED, "")  # it may have been on the way
    start(3, TRAPPED.format('touch "$VOLVELLE_DONE"; exit 0'))
    start(4, TRAPPED.format("exit 0"))
    harness.send(Stop(3, 1))
    shut_down(harness, harness.nodes[0])
    assert ended(3) == (Outcome.FINISHED, "")
    assert ended(4) == (Outcome.STOPPED, "its machine was shut down")
    start(5, "echo ready; exec sleep 600")
    shut_down(harness, harness.nodes[1])
    assert ended(5) == (Outcome.STOPPED, "its machine was shut down")


def test_set_up_commands_come_first_and_one_that_fails_is_the_end(harness: LocalHarness) -> None:
    def log(number: int) -> str:
        return (harness.attempt_folder(harness.nodes[0], number) / "output.log").read_text()

    first = ("sh", "-c", "echo first; sleep 600 & touch made")
    harness.start(command=("ls",), setup=(first, ("echo", "second")), number=1, nodes=1)
    assert harness.end(1).outcome is Outcome.FINISHED
    first_heading = "==> set-up: sh -c 'echo first; sleep 600 & touch made' <=="
    lines = [
        first_heading,
        "first",
        "==> set-up: echo second <==",
        "second",
        "==> command <==",
        "made",
    ]
    assert log(1).splitlines() == lines
    for number, setup, reason in (
        (2, ("sh", "-c", "echo no disk; exit 75"), "exit code 75 of the set-up command"),
        (3, ("no-such-program",), "cannot run 'no-such-program'"),
    ):
        harness.start(command=("echo", "ran"), setup=(setup,), number=number, nodes=1)
        end = harness.end(number)
        assert (end.outcome, end.permanent) == (Outcome.FAILED, True)
        assert reason in end.reason
        assert "ran" not in log(number)
    harness.start(command=("echo", "ran"), setup=(("sleep", "600"),), number=4, nodes=1)
    harness.wait(AttemptStarted, 4)
    harness.send(Stop(4, 1))
    assert harness.end(4).outcome is Outcome.STOPPED
    assert "ran" not in log(4)


def shut_down(harness: LocalHarness, node: str) -> None:
    """SIGTERM to every process of the node's jobs and to their supervisors, which are stopped meanwhile.

    The last step of systemd, and killall5, do so with all processes.
    """
    supervisors = harness.supervisors(node)
    for pid in supervisors:
        os.kill(pid, signal.SIGSTOP)
    for pid in harness.jobs():
        with suppress(ProcessLookupError, FileNotFoundError):  # it ended by itself
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            if str(harness.agent_folder(node)).encode() in environment:
                os.kill(pid, signal.SIGTERM)
    for pid in supervisors:
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("code", [0, 143, -signal.SIGTERM])
def test_the_supervisor_may_be_sent_its_sigterm_after_the_job_has_ended(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("_SUCCESS_SECONDS", "_OTHERS_SECONDS"):
        monkeypatch.setattr(supervisor, name, 60.0)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, supervisor._AWAITED)
    late = (get_ident(), signal.SIGTERM)
    try:
        Timer(0.05, signal.pthread_kill, late).start()
        assert supervisor._shutdown_follows(code, {})
        monkeypatch.setattr(supervisor, "_OTHERS_SECONDS", 0.0)
        done = tmp_path / "done"
        done.touch()
        assert not supervisor._shutdown_follows(code, {"VOLVELLE_DONE": str(done)})
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_an_end_that_nobody_saw_has_its_own_time(harness: LocalHarness) -> None:
    harness.start(command=("sh", "-c", "sleep 0.2"))
    harness.wait(AttemptStarted)
    harness.close()
    file = harness.attempt_folder(harness.nodes[0]) / "exit.json"
    until(file.exists)
    seen = time.time()
    record = msgspec.json.decode(file.read_bytes())
    assert 0.2 <= record["ended"] - record["started"] < 5.0
    time.sleep(1.0)
    harness.open()
    ago = harness.end().ago
    assert ago is not None
    assert 1.0 <= ago <= time.time() - record["ended"] + 0.1
    assert record["ended"] <= seen


@pytest.mark.parametrize(
    ("ago", "took"), [(15.0, 5.0), (None, 20.0), (-5.0, 20.0), (1e9, 0.0), (float("nan"), 20.0)]
)
def test_a_job_takes_as_long_as_it_ran_though_the_server_was_down(
    tmp_path: Path, ago: float | None, took: float
) -> None:
    harness = ControllerHarness.at(tmp_path)
    (number,) = submit(harness)
    fake_cluster = harness.fake_cluster
    fake_cluster.pass_time(5.0)
    fake_cluster.now += 15.0  # the server is down
    (end,) = fake_cluster.ended.values()
    fake_cluster.outbox[:] = [msgspec.structs.replace(end, ago=ago)]
    harness.deliver()
    record = harness.controller.store.jobs.find(number)
    assert record is not None and record.ended is not None
    assert record.ended == pytest.approx(record.submitted + took)
    events = [
        event for stored in harness.controller.store.entries() for event in stored.entry.events
    ]
    (finished,) = (event for event in events if isinstance(event, JobFinished))
    assert finished.time == pytest.approx(record.ended - epoch_of(harness))  # what is learned


def epoch_of(harness: ControllerHarness) -> float:
    header = harness.controller.store.header()
    assert header is not None
    return header[1]


def submit(harness: ControllerHarness) -> tuple[int, ...]:
    answer = harness.controller.request(Submit("ada", sleeping(5, retries=0)))
    harness.deliver()
    numbers: tuple[int, ...] = answer.result(timeout=0.0)
    return numbers


@pytest.mark.parametrize(("ran", "state"), [(100.0, "running"), (10.0, "failed")])
def test_a_job_that_asks_to_be_run_again_is_unless_it_gets_nowhere(
    tmp_path: Path, ran: float, state: str
) -> None:
    harness = ControllerHarness.at(tmp_path)
    (number,) = submit(harness)
    run = harness.fake_cluster.runs.pop(number)
    harness.fake_cluster.now += ran
    ended = AttemptEnded(*run.start.key, outcome=Outcome.STOPPED, exit_code=75, ago=0.0)
    harness.fake_cluster.outbox.append(ended)
    harness.deliver()
    job, record = (
        harness.controller.status.jobs.get(number),
        harness.controller.store.jobs.find(number),
    )
    assert record is not None
    assert (record.state or (job and job.state.value)) == state
    if job is not None:
        assert (job.attempt, job.failures) == (2, 0)
