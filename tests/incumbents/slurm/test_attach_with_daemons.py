"""``volvelle attach slurm`` beside real daemons, which the test starts and kills."""

import getpass
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from slurm_daemons import ACCOUNTING, Daemons, missing

from volvelle.incumbents.attach.recording import read
from volvelle.incumbents.attach.session import Session
from volvelle.incumbents.slurm.ask import Slurm
from volvelle.incumbents.slurm.attach import incumbent
from volvelle.incumbents.slurm.publish import PREFIX, Publisher
from volvelle.incumbents.slurm.read_jobs import past_reservations
from volvelle.incumbents.slurm.read_site import read_site

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "-")


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Daemons]:
    folder = tmp_path / "slurm"
    folder.mkdir()
    found = Daemons(folder)
    try:
        yield found
    finally:
        found.stop()


def attach(daemons: Daemons, record: Path, *more: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "volvelle.cli.main", "attach", "slurm", "--once"]
    return subprocess.run(
        [*command, "--record", str(record), "--timeout", "5s", *more],
        env=daemons.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


WRITTEN = (
    r"\b(JobId|JobName|Priority|Nice|Account|QOS|TimeLimit|Partition|Features|Dependency|Requeue|Comment"
    r"|AdminComment|SystemComment|Reservation|NodeName|Weight|AvailableFeatures|Gres|Extra)=(\S*)"
)
"""Keys of jobs and nodes that a command can change, and Slurm by itself does not."""


def said(daemons: Daemons) -> list[str]:
    """All that the controller says of itself, and of jobs and nodes what can be written."""
    found = [
        daemons.run("scontrol", "show", "config").partition("\n")[2]
    ]  # the first line is a clock
    for what in ("partition", "reservation", "licenses"):
        found.append(daemons.run("scontrol", "-o", "show", what))
    for what in ("job", "node"):
        shown = re.findall(WRITTEN, daemons.run("scontrol", "-o", "show", what))
        found += sorted("=".join(pair) for pair in shown)
    return found


def test_from_nothing_to_the_first_table_and_nothing_is_written(
    daemons: Daemons, tmp_path: Path
) -> None:
    jobs = [daemons.submit(60, 4) for _ in range(2)] + [daemons.submit(1, 2) for _ in range(3)]
    until = time.monotonic() + 20
    while daemons.run("squeue", "-h", "-t", "R").count("\n") < 2 and time.monotonic() < until:
        time.sleep(0.2)
    before = said(daemons)
    metrics = tmp_path / "metrics.prom"
    done = attach(daemons, tmp_path / "record", "--metrics", str(metrics))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("small (Slurm ")
    assert lines[0].endswith("2 nodes, 8 GPUs, 1 partitions; 2 running, 3 pending")
    assert [line.split()[0] for line in lines[4:]] == [*jobs[2:], *jobs[:2]]
    assert "keeps no accounting" in done.stderr
    assert "volvelle_attach_jobs_pending 3" in metrics.read_text()
    assert said(daemons) == before


def test_a_controller_that_is_killed_and_comes_back(daemons: Daemons, tmp_path: Path) -> None:
    record = tmp_path / "record"
    daemons.submit(60, 4)
    assert attach(daemons, record).returncode == 0
    daemons.kill_controller()
    gone = attach(daemons, record)
    assert gone.returncode == 1
    assert gone.stderr.startswith("error: 'scontrol show config' ")  # no answer, or no contact
    assert "Traceback" not in gone.stderr
    daemons.controller()
    back = attach(daemons, record)
    assert back.returncode == 0, back.stderr
    entries = list(read(record))
    assert sum("poll" in entry for entry in entries) == 2
    assert sum("failed" in entry for entry in entries) == 1


def test_told_starts_stand_in_admin_comments_until_the_end(
    daemons: Daemons, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in daemons.environment.items():
        monkeypatch.setenv(name, value)
    jobs = [daemons.submit(300, 4) for _ in range(4)]
    daemons.run("scontrol", "update", f"JobId={jobs[3]}", "AdminComment=ask ada")

    def comments() -> str:
        return daemons.run("scontrol", "-o", "show", "job")

    until = time.monotonic() + 20
    while daemons.run("squeue", "-h", "-t", "R").count("\n") < 2 and time.monotonic() < until:
        time.sleep(0.2)
    slurm = Slurm()
    session = Session(slurm, tmp_path / "record", incumbent(), publisher=Publisher(slurm))
    session.step()
    assert comments().count(f"AdminComment={PREFIX}starts 2") == 1
    assert "AdminComment=ask ada" in comments()
    session.close()
    assert PREFIX not in comments()
    assert "AdminComment=ask ada" in comments()


def session_of(
    daemons: Daemons, record: Path, monkeypatch: pytest.MonkeyPatch, clock: Callable[[], float]
) -> Session:
    """Attach within this process."""
    for name, value in daemons.environment.items():
        monkeypatch.setenv(name, value)
    return Session(Slurm(), record, incumbent(), clock=clock)


def test_a_number_that_is_given_again_is_another_job(
    daemons: Daemons, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = session_of(daemons, tmp_path / "record", monkeypatch, time.time)
    first = [daemons.submit(300, 4) for _ in range(3)]
    session.step()
    assert session.follower is not None
    before = session.follower.seen
    time.sleep(1.1)  # submissions are told in whole seconds
    daemons.lose_state()
    assert [daemons.submit(300, 1) for _ in range(3)] == first
    session.step()
    after = session.follower.seen
    assert after.keys() == before.keys()
    assert all(after[key].submit > before[key].submit for key in first)
    assert {after[key].gpus for key in first} == {1.0}
    assert not session.follower.accuracy.starts, "starts told of others are not judged"


def test_a_clock_that_goes_back_is_said(
    daemons: Daemons, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offset = 0.0
    session = session_of(daemons, tmp_path / "record", monkeypatch, lambda: time.time() + offset)
    jobs = [daemons.submit(300, 4) for _ in range(3)]
    session.step()
    offset = -3600.0
    told = session.step()
    assert session.follower is not None
    assert any("clock went back by 3" in remark for remark in session.follower.remarks)
    assert {one.key for one in told} == set(jobs)
    assert all(one.start <= one.start_p90 for one in told)


def test_a_job_that_is_purged_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """slurm.conf(5), ``MinJobAge``: slurmctld forgets it once a minute."""
    (tmp_path / "slurm").mkdir()
    daemons = Daemons(tmp_path / "slurm", more="MinJobAge=2")
    try:
        session = session_of(daemons, tmp_path / "record", monkeypatch, time.time)
        job, other = daemons.submit(1, 4), daemons.submit(600, 4)
        session.step()
        until = time.monotonic() + 120
        while (
            f"JobId={job} " in daemons.run("scontrol", "-o", "show", "job")
            and time.monotonic() < until
        ):
            time.sleep(1)
        told = session.step()
        assert [one.key for one in told] == [other]
        assert session.follower is not None
        assert job not in session.follower.seen
    finally:
        daemons.stop()


def test_what_ordinary_users_may_not_see_is_said(tmp_path: Path) -> None:
    """slurm.conf(5), ``PrivateData``."""
    with TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        found = Daemons(Path(place), more="PrivateData=jobs")
        try:
            own = found.submit(60, 4, user="nobody")
            found.submit(60, 4)
            found.environment["PATH"] = f"{found.of_user('nobody')}:{found.environment['PATH']}"
            done = attach(found, tmp_path / "record")
            found.conf.write_text(found.conf.read_text().replace("=jobs", "=partitions"))
            found.kill_controller()
            found.controller()
            refused = attach(found, tmp_path / "record")
        finally:
            found.stop()
    assert done.returncode == 0, done.stderr
    assert [line.split()[:2] for line in done.stdout.splitlines()[4:]] == [[own, "nobody"]]
    assert "PrivateData hides jobs" in done.stderr
    assert refused.returncode == 1
    assert "'scontrol -o show partition' failed: " in refused.stderr
    assert "attach by an operator's account" in refused.stderr


NO_ACCOUNTS = missing(ACCOUNTING, "mariadb-server slurmdbd slurm-client")


@pytest.mark.skipif(bool(NO_ACCOUNTS), reason=NO_ACCOUNTS or "-")
def test_limits_of_slurmdbd_are_read_and_nothing_there_changes(tmp_path: Path) -> None:
    folder = tmp_path / "slurm"
    folder.mkdir()
    found = Daemons(folder, accounting=True)

    def accounts() -> str:
        shown = ("qos", "assoc", "account", "user", "tres", "cluster")
        return "".join(found.run("sacctmgr", "-P", "show", what) for what in shown)

    try:
        user = getpass.getuser()
        for change in (
            "modify qos normal set MaxTRESPerUser=gres/gpu=2",
            "add account vision Fairshare=3 GrpTRES=gres/gpu=6",
            f"add user {user} account=vision",
        ):
            found.run("sacctmgr", "-i", *change.split())
        kept = "ReservationName=course StartTime=now Duration=5 Users=root Nodes=n1"
        found.run("scontrol", "create", "reservation", *kept.split())
        jobs = [found.submit(60, 2) for _ in range(3)]
        until = time.monotonic() + 30
        while found.run("squeue", "-h", "-t", "R").count("\n") < 1 and time.monotonic() < until:
            time.sleep(0.2)
        before, queue = accounts(), said(found)
        assert "gres/gpu=2" in before
        assert f"|{user}|" in before
        done = attach(found, tmp_path / "record", "--metrics", str(tmp_path / "metrics.prom"))
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[0].endswith("1 running, 2 pending")
        assert "accounting" not in done.stderr
        entries = list(read(tmp_path / "record"))
        site = read_site(entries[0]["site"] | entries[1]["poll"])
        assert site.qos[0].limits.per_user == {"gres/gpu": 2.0}
        assert ("vision", "", 3.0, {"gres/gpu": 6.0}) in [
            (one.account, one.user, one.shares, one.limits.group) for one in site.associations
        ]
        told = {line.split()[0] for line in done.stdout.splitlines()[4:]}
        assert told == set(jobs)
        past = "show reservation start=now-1days format=name,start,end,nodenames"
        (course,) = past_reservations(found.run("sacctmgr", "-P", *past.split()))
        assert (course.name, course.nodes, course.end - course.start) == ("course", ("n1",), 300.0)
        assert (accounts(), said(found)) == (before, queue)
    finally:
        found.stop()


def test_where_slurm_is_not_there_a_sentence_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "volvelle.cli.main", "attach", "slurm", "--once"],
        env={"PATH": str(tmp_path), "SLURM_CONF": "/nonexistent"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "there is no command" in done.stderr
