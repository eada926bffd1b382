"""What every executor keeps to, shown with real processes."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from executor_stages import STAGES, Stage
from waiting import until

from volvelle.live.messages import (
    AttemptEnded,
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
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    stage = STAGES[request.param](tmp_path)
    try:
        stage.open()
        yield stage
    finally:
        stage.end_all()


def test_a_job_runs_tells_its_progress_and_finishes(stage: Stage) -> None:
    stage.start("iterations=20", saved=5)
    ended = stage.end()
    assert (ended.outcome, ended.exit_code, ended.iterations) == (Outcome.FINISHED, 0, 20)
    assert stage.since(AttemptStarted) == [AttemptStarted(1, 1)]
    assert [p.iterations for p in stage.since(AttemptProgress)] == sorted(
        p.iterations for p in stage.since(AttemptProgress)
    )
    assert stage.trace() == ["1 0 began 5", "1 0 finished 20"]


def test_however_short_a_job_is_its_start_is_told_before_its_end(stage: Stage) -> None:
    for number in range(1, 6):
        stage.start(command=("true",), number=number)
        stage.end(number)
        told = [type(r) for r in stage.reports if getattr(r, "number", 0) == number]
        assert told[:2] == [AttemptStarted, AttemptEnded]


def test_a_stopped_job_leaves_at_an_iteration_and_a_resized_one_goes_on_from_there(
    stage: Stage,
) -> None:
    stage.start()
    stage.wait(AttemptProgress)
    stage.send(Stop(1, 1))
    ended = stage.end()
    assert (ended.outcome, ended.reason) == (Outcome.STOPPED, "")
    assert ended.saved_iterations == ended.iterations > 0
    stage.send(Forget(1, 1))
    total = ended.saved_iterations + 5
    stage.start(f"iterations={total}", attempt=2, nodes=2, saved=ended.saved_iterations)
    assert stage.end(attempt=2).outcome is Outcome.FINISHED


def test_a_gang_ends_after_the_same_iteration_on_all_nodes(stage: Stage) -> None:
    stage.start(nodes=2)
    stage.wait(AttemptStarted)
    until(lambda: len(stage.trace()) == 2)
    stage.send(Stop(1, 1))
    assert stage.end().outcome is Outcome.STOPPED
    left = [line.split() for line in stage.trace() if " left " in line]
    assert sorted(rank for _, rank, _, _ in left) == ["0", "1"]
    assert left[0][3] == left[1][3]


def test_what_a_job_writes_is_read_while_it_runs_and_after_its_end(stage: Stage) -> None:
    node, logs = stage.nodes[0], stage.logs
    stage.start(command=("sh", "-c", "echo one; read forever < /dev/zero"))
    until(lambda: logs.log_sizes(node, 1).result(5) == {1: 4})
    assert logs.read_log(node, 1, 1, 0).result(5) == b"one\n"
    assert logs.read_log(node, 1, 1, 2).result(5) == b"e\n"
    stage.send(Stop(1, 1, kill=True))
    stage.end()
    stage.send(Forget(1, 1))
    stage.start(command=("sh", "-c", "head -c 70000 /dev/zero"), attempt=2)
    stage.end(attempt=2)
    assert logs.log_sizes(node, 1).result(5) == {1: 4, 2: 70_000}
    first = logs.read_log(node, 1, 2, 0).result(5)
    assert len(first) == CHUNK_BYTES
    assert len(first + logs.read_log(node, 1, 2, CHUNK_BYTES).result(5)) == 70_000
    for number, attempt in ((1, 3), (2, 1)):
        assert logs.read_log(node, number, attempt, 0).result(5) == b""


def test_a_repeated_start_starts_nothing_also_after_the_end(stage: Stage) -> None:
    order = stage.start("iterations=10")
    stage.send(order)
    stage.wait(AttemptStarted)
    stage.send(order)
    ended = stage.end()
    told = len(stage.reports)
    stage.send(order)
    assert stage.wait(AttemptEnded, told=told) == ended
    stage.send(Forget(1, 1))
    stage.send(order)
    stage.start("iterations=5", number=2)
    stage.end(number=2)
    assert [line for line in stage.trace() if "began" in line] == ["1 0 began 0"]


def test_an_attempt_older_than_one_that_was_ordered_is_not_started(stage: Stage) -> None:
    stage.start("iterations=5", attempt=3)
    stage.end(attempt=3)
    stage.start("iterations=5", attempt=2)
    stage.send(Stop(1, 2))
    assert stage.end(attempt=2).outcome in (Outcome.LOST, Outcome.STOPPED)
    assert {line.split()[0] for line in stage.trace()} == {"3"}


def test_the_end_is_told_until_it_is_forgotten(stage: Stage) -> None:
    stage.start("iterations=3")
    ended = stage.end()
    told = len(stage.reports)
    assert stage.wait(AttemptEnded, told=told) == ended  # nobody said anything meanwhile
    stage.send(Forget(1, 1))
    stage.close()
    told = len(stage.reports)
    stage.open()
    stage.start("iterations=3", number=2)
    stage.end(number=2)
    assert 1 not in [end.number for end in stage.since(AttemptEnded, told)]


def test_a_stop_of_what_nobody_knows_is_answered(stage: Stage) -> None:
    stage.send(Stop(7, 4))
    assert stage.end(7, 4).outcome is Outcome.LOST


def test_jobs_run_on_while_nobody_is_there_and_are_found_again(stage: Stage) -> None:
    stage.start()
    stage.start("iterations=20", number=2, first=1)
    stage.wait(AttemptProgress)
    stage.close()
    until(lambda: "1 0 finished 20" in stage.trace(2))
    told = len(stage.reports)
    stage.open()
    assert {key for r in stage.since(NodeJoined, told) for key in r.attempts} == {(1, 1), (2, 1)}
    assert stage.wait(AttemptEnded, number=2, told=told).outcome is Outcome.FINISHED
    stage.wait(AttemptProgress, told=told)
    stage.send(Stop(1, 1))
    assert stage.end().outcome is Outcome.STOPPED
    assert [line for line in stage.trace() if "began" in line] == ["1 0 began 0"]


def test_a_killed_agent_loses_nothing(stage: Stage) -> None:
    stage.start(nodes=2)
    stage.wait(AttemptStarted)
    until(lambda: len(stage.trace()) == 2)
    told = len(stage.reports)
    stage.kill(stage.agents(stage.nodes[0]))
    joined = until(lambda: next(iter(stage.since(NodeJoined, told)), None))
    assert joined.attempts == ((1, 1),)
    stage.send(Stop(1, 1))
    assert stage.end().outcome is Outcome.STOPPED
    assert len([line for line in stage.trace() if "began" in line]) == 2


def test_a_killed_agent_remembers_that_it_was_to_stop_a_job(stage: Stage) -> None:
    stage.start("deaf", grace=1.0)
    stage.wait(AttemptProgress)
    stage.send(Stop(1, 1))
    until((stage.attempt_folder(stage.nodes[0]) / "stop.json").exists)
    stage.kill(stage.agents(stage.nodes[0]))
    assert stage.end().reason == "ignored its lease: killed after 1 s"


def test_a_killed_keeper_is_a_failed_attempt_of_which_no_process_is_left(stage: Stage) -> None:
    stage.start("orphan")
    stage.wait(AttemptProgress)
    until(lambda: len(stage.jobs()) == 2)
    stage.kill(stage.keepers(stage.nodes[0]))
    ended = stage.end()
    assert (ended.outcome, ended.reason) == (Outcome.FAILED, "its supervisor was killed")
    assert stage.jobs() == []


def test_a_killed_job_fails_with_its_signal_and_leaves_no_child(stage: Stage) -> None:
    stage.start("orphan")
    stage.wait(AttemptProgress)
    job = until(lambda: len(stage.jobs()) == 2 and min(stage.jobs()))
    stage.kill([job])
    ended = stage.end()
    assert (ended.outcome, ended.exit_code) == (Outcome.FAILED, -9)
    assert ended.reason.startswith("killed by SIGKILL")
    assert stage.jobs() == []


def test_a_node_on_which_everything_is_killed_comes_back_without_the_job(stage: Stage) -> None:
    stage.start(first=1)
    stage.wait(AttemptProgress)
    node = stage.nodes[1]
    told = len(stage.reports)
    stage.kill([*stage.agents(node), *stage.keepers(node), *stage.jobs()])
    assert stage.end().outcome in (Outcome.FAILED, Outcome.LOST)
    until(lambda: stage.since(NodeJoined, told))
    stage.start("iterations=3", attempt=2, first=1)
    assert stage.end(attempt=2).outcome is Outcome.FINISHED


def test_a_gang_of_which_one_rank_fails_ends_as_a_whole(stage: Stage) -> None:
    fails = 'test "$VOLVELLE_NODE_RANK" = 0 || { echo no such layer; exit 3; }; sleep 1000'
    stage.start(nodes=2, command=("sh", "-c", fails))
    ended = stage.end()
    assert (ended.outcome, ended.exit_code) == (Outcome.FAILED, 3)
    assert ended.reason == f"{stage.nodes[1]}: exit code 3: no such layer"
    assert stage.jobs() == []


def test_ranks_of_a_gang_are_told_where_to_meet(stage: Stage) -> None:
    says = "echo $MASTER_ADDR $MASTER_PORT $VOLVELLE_NODE_RANK $VOLVELLE_NODES"
    stage.start(nodes=2, command=("sh", "-c", f"{says} >> {stage.folder / 'said'}; sleep 1"))
    stage.end()
    said = sorted(line.split() for line in (stage.folder / "said").read_text().splitlines())
    assert [line[2:] for line in said] == [["0", "2"], ["1", "2"]]
    assert said[0][:2] == said[1][:2]


def test_a_job_that_ignores_its_lease_is_killed_after_its_grace(stage: Stage) -> None:
    stage.start("deaf", grace=0.3)
    stage.wait(AttemptProgress)
    stage.send(Stop(1, 1))
    ended = stage.end()
    assert (ended.outcome, ended.reason) == (
        Outcome.STOPPED,
        "ignored its lease: killed after 0.3 s",
    )


def test_a_job_is_killed_at_once_by_order(stage: Stage) -> None:
    stage.start("deaf", grace=1000.0)
    stage.wait(AttemptProgress)
    stage.send(Stop(1, 1))
    stage.send(Stop(1, 1, kill=True))
    assert stage.end().outcome is Outcome.STOPPED


def test_a_script_without_a_page_is_told_by_its_signal(stage: Stage) -> None:
    script = "trap 'echo saved; exit 0' USR1; echo ready; while :; do sleep 0.01; done"
    stage.start(command=("sh", "-c", script), stop_signal="SIGUSR1")
    output = stage.attempt_folder(stage.nodes[0]) / "output.log"
    until(lambda: output.exists() and output.read_text() == "ready\n")
    stage.send(Stop(1, 1))
    ended = stage.end()
    assert (ended.outcome, ended.exit_code) == (Outcome.STOPPED, 0)
    assert output.read_text() == "ready\nsaved\n"


def test_a_gang_of_scripts_without_pages_is_told_by_its_signal_on_every_node(stage: Stage) -> None:
    script = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.01; done"
    stage.start(command=("sh", "-c", script), nodes=2)
    outputs = [stage.attempt_folder(node) / "output.log" for node in stage.nodes]
    until(lambda: all(file.exists() and file.read_text() == "ready\n" for file in outputs))
    stage.send(Stop(1, 1))
    assert stage.end().exit_code == 0
    assert [file.read_text() for file in outputs] == ["ready\nsaved\n"] * 2


def test_a_job_stopped_before_its_nodes_were_asked_never_begins(stage: Stage) -> None:
    stage.start(nodes=2)
    stage.send(Stop(1, 1, kill=True))
    assert stage.end().outcome is Outcome.STOPPED
    assert stage.jobs() == []


def test_a_job_that_cannot_start_where_it_is_told_to_fails_with_the_reason(stage: Stage) -> None:
    stage.start(directory="/proc/nowhere")
    ended = stage.end()
    assert ended.outcome is Outcome.FAILED
    assert ended.reason == "cannot start in '/proc/nowhere': No such file or directory"


def test_a_job_whose_checkpoints_could_not_be_written_is_not_started(stage: Stage) -> None:
    stage.start(checkpoint="/proc/1/here")
    ended = stage.end()
    assert ended.outcome is Outcome.FAILED
    assert ended.reason.startswith("could not begin: checkpoints cannot be written to /proc/1/here")
    assert stage.trace() == []


def test_a_program_that_is_not_there_is_named(stage: Stage) -> None:
    stage.start(command=("no-such-program",))
    assert stage.end().reason == "cannot run 'no-such-program': No such file or directory"


def test_words_of_a_command_reach_it_as_they_are(stage: Stage) -> None:
    words = ("$(touch pwned)", "; exit 7", "a\nb", "'\"", "é")
    script = "import sys; print(ascii(sys.argv[1:]))"
    stage.start(command=(sys.executable, "-I", "-S", "-c", script, *words))
    assert stage.end().outcome is Outcome.FINISHED
    output = stage.attempt_folder(stage.nodes[0]) / "output.log"
    assert output.read_text().strip() == ascii(list(words))


def test_what_belongs_to_a_job_is_readable_by_its_owner_alone(stage: Stage) -> None:
    stage.start("iterations=3")
    stage.end()
    folder = stage.attempt_folder(stage.nodes[0])
    assert {path.stat().st_mode & 0o077 for path in (folder, *folder.iterdir())} == {0}
    stage.send(Forget(1, 1))
    until(lambda: not folder.exists())
    over = folder.parent.parent / "ended" / "1-1"
    until(lambda: {path.name for path in over.iterdir()} == {"exit.json", "output.log"})
