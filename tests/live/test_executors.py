"""The contract of every executor, tested with real processes."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from executor_harnesses import HARNESSES, ExecutorHarness
from waiting import until

from volvelle.live.messages import (
    AttemptEnded,
    AttemptKey,
    AttemptProgress,
    AttemptStarted,
    Forget,
    NodeJoined,
    Outcome,
    Stop,
)
from volvelle.live.nodes.executor import executors
from volvelle.live.nodes.node_logs import CHUNK_BYTES


@pytest.fixture(params=sorted(executors.all()))
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ExecutorHarness]:
    with HARNESSES[request.param](tmp_path) as harness:
        yield harness


def test_a_job_runs_reports_progress_and_finishes(harness: ExecutorHarness) -> None:
    harness.start("iterations=20", saved=5)
    ended = harness.end()
    assert (ended.outcome, ended.exit_code, ended.iterations) == (Outcome.FINISHED, 0, 20)
    assert harness.since(AttemptStarted) == [AttemptStarted(1, 1)]
    assert [p.iterations for p in harness.since(AttemptProgress)] == sorted(
        p.iterations for p in harness.since(AttemptProgress)
    )
    assert harness.trace() == ["1 0 started 5", "1 0 finished 20"]


def test_the_start_is_reported_before_the_end_however_short_the_job(
    harness: ExecutorHarness,
) -> None:
    for number in range(1, 6):
        harness.start(command=("true",), number=number)
        harness.end(number)
        kinds = [type(r) for r in harness.reports if getattr(r, "number", 0) == number]
        assert kinds[:2] == [AttemptStarted, AttemptEnded]


def test_a_stopped_job_ends_after_an_iteration_and_resumes_from_there_on_other_gpus(
    harness: ExecutorHarness,
) -> None:
    harness.start()
    harness.wait(AttemptProgress)
    harness.send(Stop(1, 1))
    ended = harness.end()
    assert (ended.outcome, ended.reason) == (Outcome.STOPPED, "")
    assert ended.saved_iterations == ended.iterations > 0
    harness.send(Forget(1, 1))
    total = ended.saved_iterations + 5
    harness.start(f"iterations={total}", attempt=2, nodes=2, saved=ended.saved_iterations)
    assert harness.end(attempt=2).outcome is Outcome.FINISHED


def test_all_nodes_of_an_attempt_end_after_the_same_iteration(harness: ExecutorHarness) -> None:
    harness.start(nodes=2)
    harness.wait(AttemptStarted)
    until(lambda: len(harness.trace()) == 2)
    harness.send(Stop(1, 1))
    assert harness.end().outcome is Outcome.STOPPED
    preempted = [line.split() for line in harness.trace() if " preempted " in line]
    assert sorted(rank for _, rank, _, _ in preempted) == ["0", "1"]
    assert preempted[0][3] == preempted[1][3]


def test_what_a_job_writes_is_read_while_it_runs_and_after_its_end(
    harness: ExecutorHarness,
) -> None:
    node, logs = harness.nodes[0], harness.logs
    harness.start(command=("sh", "-c", "echo one; read forever < /dev/zero"))
    until(lambda: logs.log_sizes(node, 1, "").result(5) == {"1-1": 4})
    assert logs.read_log(node, "1-1", 0).result(5) == b"one\n"
    assert logs.read_log(node, "1-1", 2).result(5) == b"e\n"
    harness.send(Stop(1, 1, kill=True))
    harness.end()
    harness.send(Forget(1, 1))
    harness.start(command=("sh", "-c", "head -c 70000 /dev/zero"), attempt=2)
    harness.end(attempt=2)
    assert logs.log_sizes(node, 1, "").result(5) == {"1-1": 4, "1-2": 70_000}
    first = logs.read_log(node, "1-2", 0).result(5)
    assert len(first) == CHUNK_BYTES
    assert len(first + logs.read_log(node, "1-2", CHUNK_BYTES).result(5)) == 70_000
    for attempt in ("1-3", "2-1", "../1-1"):
        assert logs.read_log(node, attempt, 0).result(5) == b""


def test_a_repeated_start_starts_nothing_also_after_the_end(harness: ExecutorHarness) -> None:
    order = harness.start("iterations=10")
    harness.send(order)
    harness.wait(AttemptStarted)
    harness.send(order)
    ended = harness.end()
    report_count = len(harness.reports)
    harness.send(order)
    assert harness.wait(AttemptEnded, report_count=report_count) == ended
    harness.send(Forget(1, 1))
    harness.send(order)
    harness.start("iterations=5", number=2)
    harness.end(number=2)
    assert [line for line in harness.trace() if "started" in line] == ["1 0 started 0"]


def test_an_attempt_older_than_one_that_was_ordered_is_not_started(
    harness: ExecutorHarness,
) -> None:
    harness.start("iterations=5", attempt=3)
    harness.end(attempt=3)
    harness.start("iterations=5", attempt=2)
    harness.send(Stop(1, 2))
    assert harness.end(attempt=2).outcome in (Outcome.LOST, Outcome.STOPPED)
    assert {line.split()[0] for line in harness.trace()} == {"3"}


def test_the_end_is_reported_until_it_is_forgotten(harness: ExecutorHarness) -> None:
    harness.start("iterations=3")
    ended = harness.end()
    report_count = len(harness.reports)
    assert harness.wait(AttemptEnded, report_count=report_count) == ended
    harness.send(Forget(1, 1))
    harness.close()
    report_count = len(harness.reports)
    harness.open()
    harness.start("iterations=3", number=2)
    harness.end(number=2)
    assert 1 not in [end.number for end in harness.since(AttemptEnded, report_count)]


def test_a_stop_of_an_unknown_attempt_is_answered(harness: ExecutorHarness) -> None:
    harness.send(Stop(7, 4))
    assert harness.end(7, 4).outcome is Outcome.LOST


def test_jobs_run_on_without_the_executor_and_are_found_again(harness: ExecutorHarness) -> None:
    harness.start()
    harness.start("iterations=20", number=2, first=1)
    harness.wait(AttemptProgress)
    harness.wait(AttemptStarted, number=2)
    harness.close()
    until(lambda: "1 0 finished 20" in harness.trace(2))
    report_count = len(harness.reports)
    harness.open()
    assert {key for r in harness.since(NodeJoined, report_count) for key in r.attempts} == {
        AttemptKey(1, 1),
        AttemptKey(2, 1),
    }
    assert (
        harness.wait(AttemptEnded, number=2, report_count=report_count).outcome is Outcome.FINISHED
    )
    harness.wait(AttemptProgress, report_count=report_count)
    harness.send(Stop(1, 1))
    assert harness.end().outcome is Outcome.STOPPED
    assert [line for line in harness.trace() if "started" in line] == ["1 0 started 0"]


def test_a_killed_agent_loses_nothing(harness: ExecutorHarness) -> None:
    harness.start(nodes=2)
    harness.wait(AttemptStarted)
    until(lambda: len(harness.trace()) == 2)
    report_count = len(harness.reports)
    harness.kill(harness.agents(harness.nodes[0]))
    joined = until(lambda: next(iter(harness.since(NodeJoined, report_count)), None))
    assert joined.attempts == (AttemptKey(1, 1),)
    harness.send(Stop(1, 1))
    assert harness.end().outcome is Outcome.STOPPED
    assert len([line for line in harness.trace() if "started" in line]) == 2


def test_a_stop_survives_a_killed_agent(harness: ExecutorHarness) -> None:
    harness.start("ignore-lease", grace=1.0)
    harness.wait(AttemptProgress)
    harness.send(Stop(1, 1))
    until((harness.attempt_folder(harness.nodes[0]) / "stop.json").exists)
    harness.kill(harness.agents(harness.nodes[0]))
    assert harness.end().reason == "ignored its lease: killed after 1 s"


def test_after_a_killed_supervisor_the_attempt_has_failed_and_no_process_is_left(
    harness: ExecutorHarness,
) -> None:
    harness.start("orphan")
    harness.wait(AttemptProgress)
    until(lambda: len(harness.jobs()) == 2)
    harness.kill(harness.supervisors(harness.nodes[0]))
    ended = harness.end()
    assert (ended.outcome, ended.reason) == (Outcome.FAILED, "its supervisor was killed")
    assert harness.jobs() == []


def test_what_left_its_session_and_environment_does_not_outlive_a_killed_supervisor(
    harness: ExecutorHarness,
) -> None:
    pid = harness.folder / "pid"
    hides = f"env -i setsid sh -c 'echo $$ > {pid}; exec sleep 600' & sleep 600"
    harness.start(command=("sh", "-c", hides))
    hidden = until(lambda: pid.exists() and pid.read_text().strip())
    record = json.loads((harness.attempt_folder(harness.nodes[0]) / "supervisor.json").read_text())
    harness.kill([record["supervisor"]])
    assert harness.end().reason == "its supervisor was killed"
    assert not Path(f"/proc/{hidden}").exists()


def test_a_job_outlives_the_guard_of_its_supervisor(harness: ExecutorHarness) -> None:
    harness.start(command=("sleep", "1"))
    record = harness.attempt_folder(harness.nodes[0]) / "supervisor.json"
    supervisor = until(lambda: record.exists() and json.loads(record.read_text())["supervisor"])
    stat = Path(f"/proc/{supervisor}/stat").read_text()
    guard = int(stat.rpartition(")")[2].split()[1])  # its parent
    harness.kill([guard])
    assert harness.end().outcome is Outcome.FINISHED


def test_a_killed_job_fails_with_its_signal_and_leaves_no_child(harness: ExecutorHarness) -> None:
    harness.start("orphan")
    harness.wait(AttemptProgress)
    job = until(lambda: len(harness.jobs()) == 2 and min(harness.jobs()))
    harness.kill([job])
    ended = harness.end()
    assert (ended.outcome, ended.exit_code) == (Outcome.FAILED, -9)
    assert ended.reason.startswith("killed by SIGKILL")
    assert harness.jobs() == []


def test_a_node_on_which_everything_is_killed_rejoins_without_the_job(
    harness: ExecutorHarness,
) -> None:
    harness.start(first=1)
    harness.wait(AttemptProgress)
    node = harness.nodes[1]
    report_count = len(harness.reports)
    harness.kill([*harness.agents(node), *harness.supervisors(node), *harness.jobs()])
    assert harness.end().outcome in (Outcome.FAILED, Outcome.LOST)
    until(lambda: harness.since(NodeJoined, report_count))
    harness.start("iterations=3", attempt=2, first=1)
    assert harness.end(attempt=2).outcome is Outcome.FINISHED


def test_if_one_node_of_an_attempt_fails_the_attempt_fails(harness: ExecutorHarness) -> None:
    fails = 'test "$VOLVELLE_NODE_RANK" = 0 || { echo no such layer; exit 3; }; sleep 1000'
    harness.start(nodes=2, command=("sh", "-c", fails))
    ended = harness.end()
    assert (ended.outcome, ended.exit_code) == (Outcome.FAILED, 3)
    assert ended.reason == f"{harness.nodes[1]}: exit code 3: no such layer"
    assert harness.jobs() == []


def test_all_ranks_get_the_rendezvous_address(harness: ExecutorHarness) -> None:
    script = "echo $MASTER_ADDR $MASTER_PORT $VOLVELLE_NODE_RANK $VOLVELLE_NODES"
    harness.start(
        nodes=2, command=("sh", "-c", f"{script} >> {harness.folder / 'addresses'}; sleep 1")
    )
    harness.end()
    addresses = sorted(
        line.split() for line in (harness.folder / "addresses").read_text().splitlines()
    )
    assert [line[2:] for line in addresses] == [["0", "2"], ["1", "2"]]
    assert addresses[0][:2] == addresses[1][:2]


def test_a_job_that_ignores_its_lease_is_killed_after_its_grace(harness: ExecutorHarness) -> None:
    harness.start("ignore-lease", grace=0.3)
    harness.wait(AttemptProgress)
    harness.send(Stop(1, 1))
    ended = harness.end()
    assert (ended.outcome, ended.reason) == (
        Outcome.STOPPED,
        "ignored its lease: killed after 0.3 s",
    )


def test_a_job_is_killed_at_once_by_order(harness: ExecutorHarness) -> None:
    harness.start("ignore-lease", grace=1000.0)
    harness.wait(AttemptProgress)
    harness.send(Stop(1, 1))
    harness.send(Stop(1, 1, kill=True))
    assert harness.end().outcome is Outcome.STOPPED


def test_a_script_without_the_client_library_is_stopped_by_its_signal(
    harness: ExecutorHarness,
) -> None:
    script = "trap 'echo saved; exit 0' USR1; echo ready; while :; do sleep 0.01; done"
    harness.start(command=("sh", "-c", script), stop_signal="SIGUSR1")
    output = harness.attempt_folder(harness.nodes[0]) / "output.log"
    until(lambda: output.exists() and output.read_text() == "ready\n")
    harness.send(Stop(1, 1))
    ended = harness.end()
    assert (ended.outcome, ended.exit_code) == (Outcome.STOPPED, 0)
    assert output.read_text() == "ready\nsaved\n"


def test_scripts_without_the_client_library_are_stopped_by_signal_on_every_node(
    harness: ExecutorHarness,
) -> None:
    script = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.01; done"
    harness.start(command=("sh", "-c", script), nodes=2)
    outputs = [harness.attempt_folder(node) / "output.log" for node in harness.nodes]
    until(lambda: all(file.exists() and file.read_text() == "ready\n" for file in outputs))
    harness.send(Stop(1, 1))
    assert harness.end().exit_code == 0
    assert [file.read_text() for file in outputs] == ["ready\nsaved\n"] * 2


def test_a_job_stopped_before_its_tasks_were_sent_never_starts(harness: ExecutorHarness) -> None:
    harness.start(nodes=2)
    harness.send(Stop(1, 1, kill=True))
    assert harness.end().outcome is Outcome.STOPPED
    assert harness.jobs() == []


def test_a_job_whose_directory_does_not_exist_fails_with_the_reason(
    harness: ExecutorHarness,
) -> None:
    harness.start(directory="/proc/nowhere")
    ended = harness.end()
    assert ended.outcome is Outcome.FAILED
    assert ended.reason == "cannot start in '/proc/nowhere': No such file or directory"


def test_a_job_whose_checkpoints_could_not_be_written_is_not_started(
    harness: ExecutorHarness,
) -> None:
    harness.start(checkpoint="/proc/1/here")
    ended = harness.end()
    assert ended.outcome is Outcome.FAILED
    assert ended.reason.startswith("could not begin: checkpoints cannot be written to /proc/1/here")
    assert harness.trace() == []


def test_a_missing_program_is_named(harness: ExecutorHarness) -> None:
    harness.start(command=("no-such-program",))
    ended = harness.end()
    assert ended.reason == "cannot run 'no-such-program': No such file or directory"
    assert ended.exit_code == 127


def test_arguments_are_passed_unchanged(harness: ExecutorHarness) -> None:
    words = ("$(touch pwned)", "; exit 7", "a\nb", "'\"", "é")
    script = "import sys; print(ascii(sys.argv[1:]))"
    harness.start(command=(sys.executable, "-I", "-S", "-c", script, *words))
    assert harness.end().outcome is Outcome.FINISHED
    output = harness.attempt_folder(harness.nodes[0]) / "output.log"
    assert output.read_text().strip() == ascii(list(words))


def test_files_of_an_attempt_are_private(harness: ExecutorHarness) -> None:
    harness.start("iterations=3")
    harness.end()
    folder = harness.attempt_folder(harness.nodes[0])
    assert {path.stat().st_mode & 0o077 for path in (folder, *folder.iterdir())} == {0}
    harness.send(Forget(1, 1))
    until(lambda: not folder.exists())
    archived = folder.parent.parent / "ended" / "1-1"
    until(
        lambda: (
            {path.name for path in archived.iterdir()} == {"end.json", "exit.json", "output.log"}
        )
    )
