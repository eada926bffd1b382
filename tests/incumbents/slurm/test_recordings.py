"""Recordings: what was seen comes back as it was, half a line is no harm, a replay tells as it was told."""

import gzip
import json
import shutil
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slurm_runs import recorded, snapshots
from typer.testing import CliRunner

from volvelle.cli.moments import local
from volvelle.cli.options import Form
from volvelle.incumbents.attach.accuracy import Told
from volvelle.incumbents.attach.any_command import show
from volvelle.incumbents.attach.command import app
from volvelle.incumbents.attach.listing import heading, prometheus, rows, summary
from volvelle.incumbents.attach.recording import Recording, read
from volvelle.incumbents.attach.session import Replay, replay, resumed
from volvelle.incumbents.slurm.attach import POLLED, incumbent
from volvelle.incumbents.slurm.read_jobs import read_snapshot
from volvelle.model.problems import Problem

_FIELDS = st.dictionaries(
    st.sampled_from(["JobState", "Priority", "NodeList", "Reason"]),
    st.sampled_from(["1", "RUNNING", "a[1-2]", "(null)"]),
)
_POLL = st.dictionaries(st.sampled_from(["1", "2", "3"]), _FIELDS)


def _lines(poll: dict[str, dict[str, str]]) -> str:
    return "".join(
        " ".join([f"JobId={name}", *(f"{key}={value}" for key, value in fields.items())]) + "\n"
        for name, fields in poll.items()
    )


@given(polls=st.lists(_POLL, min_size=1, max_size=6))
def test_polls_come_back_as_they_were(
    polls: list[dict[str, dict[str, str]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("recording")
    recording = Recording(folder, incumbent())
    for at, poll in enumerate(polls):
        recording.poll(float(at), {"job": _lines(poll)})
    recording.close()
    for entry, poll in zip(read(folder), polls, strict=True):
        back = entry["poll"]["job"]
        assert sorted(read_snapshot({"job": back}, 0.0).jobs, key=lambda job: job.key) == sorted(
            read_snapshot({"job": _lines(poll)}, 0.0).jobs, key=lambda job: job.key
        )


def test_half_a_line_is_cut_and_the_recording_goes_on(tmp_path: Path) -> None:
    recording = Recording(tmp_path, incumbent())
    recording.poll(1.0, {"job": "JobId=1 Priority=5\n"})
    recording.close()
    with (tmp_path / "attach.jsonl").open("a") as file:
        file.write('{"t":2.0,"poll":{"jo')
    entries = list(read(tmp_path))
    assert [entry["t"] for entry in entries] == [1.0]
    again = Recording(tmp_path, incumbent())
    again.resume(entries)
    again.poll(3.0, {"job": "JobId=1 Priority=6\nJobId=2 Priority=1\n"})
    again.close()
    last = [entry["poll"]["job"] for entry in read(tmp_path)][-1]
    assert last == "JobId=1 Priority=6\nJobId=2 Priority=1\n"
    assert '"set":{"1":{"Priority":"6"}' in (tmp_path / "attach.jsonl").read_text()


def test_command_lines_and_paths_are_not_kept(tmp_path: Path) -> None:
    recording = Recording(tmp_path, incumbent())
    secret = (
        "JobId=1 Priority=5 SubmitLine=sbatch --export=TOKEN=x1y2 WorkDir=/home/u1 Comment=x1y2\n"
    )
    recording.poll(1.0, {"job": secret})
    recording.close()
    kept = (tmp_path / "attach.jsonl").read_text()
    assert "x1y2" not in kept
    assert "/home/u1" not in kept


def test_two_attaches_do_not_write_to_one_recording(tmp_path: Path) -> None:
    first = Recording(tmp_path, incumbent())
    with pytest.raises(Problem, match="another attach writes"):
        Recording(tmp_path, incumbent())
    first.close()


def test_bad_recordings_are_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="there is no recording"):
        list(read(tmp_path))
    (tmp_path / "attach.jsonl").write_text("nonsense\n{}\n")
    with pytest.raises(Problem, match="line 1 is no entry"):
        list(read(tmp_path))


def test_a_recorded_run_is_told_better_than_slurm_told_it(shared: Path, tmp_path: Path) -> None:
    run = shared / "golden" / "slurm" / "run5"
    recorded(run, tmp_path)
    follower = None
    for follower, told in replay(tmp_path):
        answered = {one.key for one in told}
        assert {job.key for job in follower.snapshot.jobs if job.pending} <= answered
        assert all(one.start <= one.start_p90 and one.end <= one.end_p90 for one in told)
    assert follower is not None
    starts = follower.accuracy.starts
    ours = [abs(one.error) for one in starts]
    theirs = [abs(one.naive_error) for one in starts if one.naive_error is not None]
    assert sum(ours) / len(ours) < 0.5 * sum(theirs) / len(theirs)
    assert 0.85 <= sum(one.held for one in starts) / len(starts) <= 0.95
    ends = follower.accuracy.ends
    late = [abs(one.naive_error) for one in ends if one.naive_error is not None]
    assert sum(abs(one.error) for one in ends) / len(ends) < 0.5 * sum(late) / len(late)


def test_a_session_that_was_stopped_goes_on_with_what_it_told(shared: Path, tmp_path: Path) -> None:
    recorded(shared / "golden" / "slurm" / "run3", tmp_path)
    entries = list(read(tmp_path))
    leads, told = Replay(incumbent()), []
    for entry in entries:
        if leads.feed(entry) and leads.follower is not None:
            told += [{"t": entry["t"], "told": leads.follower.tell()}]
    waiting = iter(told)
    mixed = [
        one
        for entry in entries
        for one in ((entry, next(waiting)) if "poll" in entry else (entry,))
    ]
    again = resumed(mixed, incumbent()).follower
    assert leads.follower is not None
    assert again is not None
    assert again.accuracy.line() == leads.follower.accuracy.line()


def test_a_recording_may_be_packed(shared: Path, tmp_path: Path) -> None:
    recorded(shared / "golden" / "slurm" / "run3", tmp_path)
    with (tmp_path / "attach.jsonl").open("rb") as file, gzip.open(tmp_path / "x.gz", "wb") as out:
        shutil.copyfileobj(file, out)
    packed = tmp_path / "packed"
    packed.mkdir()
    (tmp_path / "x.gz").rename(packed / "attach.jsonl.gz")
    assert list(read(packed)) == list(read(tmp_path))


def test_what_is_shown_of_a_moment(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shared / "golden" / "slurm" / "run5"
    recorded(run, tmp_path)
    shown = replay(tmp_path)
    for _ in range(20):
        follower, told = next(shown)
    assert heading(follower).startswith("spike (Slurm 26.05.5): 6 nodes, 24 GPUs, 3 partitions; ")
    table = rows(follower, told)
    assert [row["state"] for row in table] == sorted(row["state"] for row in table)
    assert {row["user"] for row in rows(follower, told, "u3")} == {"u3"}
    show(follower, told, "", Form.TABLE)
    assert f" {local(table[0]['start']):%H:%M:%S}-" in capsys.readouterr().out, "as of the poll"
    figures = dict(
        line.split(" ") for line in prometheus(follower).splitlines() if not line.startswith("#")
    )
    pending = sum(job.pending for job in follower.snapshot.jobs)
    assert float(figures["volvelle_attach_jobs_pending"]) == pending
    assert "volvelle_attach_slurm_start_error_mean_seconds" in figures
    words = list(summary(follower, follower.snapshot.time - 3600))
    assert any(line.startswith("u3: ") for line in words)
    assert len(list(snapshots(run))) > 20


def test_a_told_row_survives_the_file(tmp_path: Path) -> None:
    row = Told("1", 1.0, 2.0, 3.0, 4.0, None)
    recording = Recording(tmp_path, incumbent())
    recording.told(5.0, [row])
    recording.close()
    [entry] = read(tmp_path)
    assert entry["told"] == [row]
    lines = (tmp_path / "attach.jsonl").read_text().splitlines()
    assert json.loads(lines[0]) == {"of": "slurm"}
    assert json.loads(lines[1])["t"] == 5.0
    assert tuple(POLLED) == ("job", "node", "reservation")


def test_hosts_addresses_and_paths_of_the_configuration_are_not_kept(tmp_path: Path) -> None:
    recording = Recording(tmp_path, incumbent())
    config = (
        "ClusterName = small\nSlurmctldHost[0] = login01(10.0.0.1)\nStateSaveLocation = /var/spool\n"
        "AuthInfo = socket=/run/munge/socket\nTmpFS = /tmp\nSchedulerType = sched/backfill\n"
        "Slurmctld(primary) at login01 is UP\n"
    )
    recording.site(1.0, {"config": config, "qos": "Name|Priority\n"})
    recording.close()
    [entry] = read(tmp_path)
    assert entry["site"] == {
        "config": "ClusterName = small\nSchedulerType = sched/backfill\n",
        "qos": "Name|Priority\n",
    }


def test_a_summary_is_posted_to_a_webhook(shared: Path, tmp_path: Path) -> None:
    recorded(shared / "golden" / "slurm" / "run3", tmp_path)
    posted: list[bytes] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        threading.Thread(target=server.handle_request).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        done = CliRunner().invoke(app, ["summary", str(tmp_path), "--webhook", url])
    assert done.exit_code == 0, done.output
    assert json.loads(posted[0])["text"] == done.output.strip()
    gone = CliRunner().invoke(app, ["summary", str(tmp_path), "--webhook", url])
    assert isinstance(gone.exception, Problem)
    assert "was not posted to" in str(gone.exception)
