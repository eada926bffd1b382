"""Jobs that run as other users of the system read nothing of the server's, and nothing of each other's."""

import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import until

from volvelle.live.agent.job_users import check_run_as, job_user
from volvelle.live.config import ServeConfig
from volvelle.live.messages import (
    AttemptEnded,
    AttemptKey,
    AttemptProgress,
    Grant,
    Launch,
    NodeJoined,
    Outcome,
    Report,
    Start,
    Stop,
)
from volvelle.live.nodes.executor import ExecutorContext
from volvelle.live.nodes.executors.local import Local
from volvelle.live.serve_folder import write_secret
from volvelle.live.serving import run_server
from volvelle.model.cluster import parse_cluster
from volvelle.model.problems import Problem

RUN_AS = {"dana": "daemon", "*": "nobody"}

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs jobs as other users")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody may pass through; pytest's own are closed."""
    path = Path(tempfile.mkdtemp(prefix="volvelle-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


class Nodes:
    """The agents of one node, and jobs on it."""

    def __init__(self, folder: Path) -> None:
        self.reports: list[Report] = []
        self.context = ExecutorContext(
            parse_cluster("1x2"), folder / "serve" / "jobs", "the token", run_as=RUN_AS
        )
        executor = Local(pretend=True, linger_seconds=2.0, progress_seconds=0.05)
        self.opened = executor.open(self.context, self.reports.append)
        until(lambda: any(isinstance(each, NodeJoined) for each in self.reports))

    def start(self, number: int, user: str, script: str, stop_signal: str | None = None) -> Path:
        """The job's own folder."""
        start = Start(
            number=number,
            attempt=1,
            user=user,
            grants=(Grant("node-0", (number,)),),
            launch=Launch(command=("sh", "-c", script), stop_signal=stop_signal),
        )
        self.opened.send(start)
        return self.context.folder / "work" / str(number)

    def end(self, number: int) -> AttemptEnded:
        def found() -> AttemptEnded | None:
            ends = (each for each in self.reports if isinstance(each, AttemptEnded))
            return next((each for each in ends if each.number == number), None)

        return until(found)


@as_root
def test_jobs_of_two_users_read_neither_the_servers_files_nor_each_others(folder: Path) -> None:
    serve = folder / "serve"
    serve.mkdir(mode=0o700)
    check_run_as(RUN_AS, [serve])
    write_secret(serve / "token", "the operator's")
    nodes = Nodes(folder)
    metric = """echo '{"metrics": {"loss": 0.5}}' >> $VOLVELLE_RUN/metrics.jsonl"""
    try:
        danas = nodes.start(
            0, "dana", f"id -u > who; echo $HOME > home; echo $$ > pid; {metric}; sleep 60"
        )
        until(lambda: any(isinstance(each, AttemptProgress) for each in nodes.reports))
        pid = int((danas / "pid").read_text())
        agent = nodes.context.folder / "nodes" / "node-0"
        run = agent / "attempts" / str(AttemptKey(0, 1))
        closed = [
            serve / "token",
            agent / "agent.json",
            danas / "pid",
            run / "control-block",
            run / "order.json",
            Path(f"/proc/{pid}/environ"),
        ]
        assert all(path.read_bytes() for path in closed)
        tried = "".join(f"cat {path} > /dev/null 2>&1 && exit 3; " for path in closed)
        tried += f'touch "$VOLVELLE_RUN/exit.json" && exit 4; ls {run.parent} && exit 5; '
        tried += f"kill {pid} && exit 6; "
        lees = nodes.start(1, "lee", f'id -u > who; {tried} touch "$VOLVELLE_DONE"')
        assert nodes.end(1).outcome is Outcome.FINISHED
        assert (agent / "attempts" / str(AttemptKey(1, 1)) / "done").exists()
        for path, name in ((danas, "daemon"), (lees, "nobody")):
            user, own = pwd.getpwnam(name), path.stat()
            assert (path / "who").read_text().strip() == str(user.pw_uid)
            assert (own.st_uid, own.st_mode & 0o777) == (user.pw_uid, 0o700)
        assert (danas / "home").read_text().strip() == pwd.getpwnam("daemon").pw_dir
        nodes.opened.send(Stop(0, 1, kill=True))
        assert nodes.end(0).outcome is Outcome.STOPPED
    finally:
        nodes.opened.close()


@as_root
def test_a_link_where_a_job_says_that_it_is_done_tells_of_no_file(folder: Path) -> None:
    nodes = Nodes(folder)
    secret = folder / "closed" / "secret"
    secret.parent.mkdir(mode=0o700)
    secret.write_text("there")
    try:
        outcomes = []
        for number, path in enumerate((secret, secret.with_name("not there"))):
            waits = f'ln -s "{path}" "$VOLVELLE_DONE"; touch linked; trap "exit 0" TERM; sleep 60 & wait'
            own = nodes.start(number, "lee", waits, stop_signal="SIGTERM")
            until((own / "linked").exists)
            nodes.opened.send(Stop(number, 1))
            outcomes.append(nodes.end(number).outcome)
        assert outcomes == [Outcome.STOPPED] * 2
    finally:
        nodes.opened.close()


@as_root
def test_users_folders_and_executors_that_do_not_fit_are_refused(folder: Path) -> None:
    for wrong, message in (
        ("no-such-user", "has no user 'no-such-user'"),
        ("root", "as root may do"),
    ):
        with pytest.raises(Problem, match=message):
            check_run_as({"*": wrong}, [folder])
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(Problem, match=f"{closed} is closed to them"):
        check_run_as(RUN_AS, [closed / "serve"])
    document = {"cluster": "1x1", "run_as": RUN_AS, "folder": folder / "serve"}
    config = ServeConfig.model_validate(document | {"executor": "dial-in"})
    with pytest.raises(
        Problem, match=r"'dial-in' does not start jobs as other users\. Leave run_as out"
    ):
        run_server(config, lambda running: None)


def test_jobs_run_as_the_user_that_is_named_for_theirs_or_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert job_user({}, "dana") is None
    for user, name in (("dana", "daemon"), ("eve", "nobody")):
        found = job_user(RUN_AS, user)
        assert found is not None
        assert found.pw_name == name
    with pytest.raises(PermissionError, match="no user as whom jobs of 'eve' may run"):
        job_user({"dana": "daemon"}, "eve")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Problem, match="only root may run jobs as other users"):
        check_run_as(RUN_AS, [])
