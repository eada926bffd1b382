"""``volvelle serve`` as a process of a test's own: commands right after its start, a demo, what ends it."""

import csv
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import pytest
from server_process import ServerProcess, server_process, volvelle
from test_serving import CONFIG
from waiting import until

from volvelle.live.config import ServeConfig
from volvelle.live.http.client import ApiClient
from volvelle.live.serve_folder import ServeFolder, ServerAddress
from volvelle.model.cluster import Pool
from volvelle.model.problems import Problem


def test_submit_says_how_many_jobs_were_rejected_at_once_and_fails(tmp_path: Path) -> None:
    strict = CONFIG.replace("[listen]", 'admission = "deadlines:otherwise=reject"\n[listen]', 1)
    due = ("submit", "--no-preempt", "--gpus", "4", "--estimate", "1h", "--deadline", "1h10m")
    with server_process(tmp_path, strict):
        some = volvelle(tmp_path, *due, "--array", "4", "--", "sleep", "60")
        assert some.stderr == "3 of 4 rejected: it would finish 50m 00s after its deadline\n"
        assert (some.stdout.splitlines()[0].split("  ")[0], some.returncode) == ("job 0", 1)
        one = volvelle(tmp_path, *due, "--", "sleep", "60")
        assert "rejected after 0s: it would finish " in one.stdout
        as_numbers = volvelle(tmp_path, *due, "-o", "csv", "--", "sleep", "60")
        assert (as_numbers.stdout, as_numbers.stderr) == ("number\n5\n", "")
        assert (one.returncode, as_numbers.returncode) == (1, 1)
        later = volvelle(tmp_path, "submit", "--gpus", "1", "--array", "2", "--", "true")
        assert later.returncode == 0, later.stderr
        assert "\nthe first starts about " in later.stdout
        queue = volvelle(tmp_path, "queue")
        assert queue.stderr == ""


@pytest.fixture
def listening() -> Iterator[str]:
    """The URL of what accepts connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_command_right_after_serve_waits_until_it_listens(tmp_path: Path, listening: str) -> None:
    folder = ServeFolder(tmp_path / "volvelle-serve")
    with folder.starting():
        Timer(0.2, folder.write_address, [ServerAddress(listening)]).start()
        found = ApiClient.find({"VOLVELLE_TOKEN": "x"}, tmp_path)
    assert found.url == listening
    assert not folder.starts
    other = ServeFolder(tmp_path / "b" / "volvelle-serve")
    with other.starting(), pytest.raises(Problem, match=r"or not running\. Try again in a moment"):
        other.read_address()
    assert not (tmp_path / "b" / "volvelle-serve").exists()
    around = {"VOLVELLE_SERVER": str(tmp_path), "VOLVELLE_TOKEN": "x"}
    assert ApiClient.find(around).url == listening  # the folder that it is in


def test_a_command_pasted_with_serve_waits_for_its_process(tmp_path: Path, listening: str) -> None:
    folder = ServeFolder(tmp_path / "volvelle-serve")
    folder.prepare()
    Timer(0.3, folder.write_address, [ServerAddress(listening)]).start()
    assert ApiClient.find({"VOLVELLE_TOKEN": "x"}, tmp_path).url == listening


def test_a_command_right_after_a_killed_server_is_started_again_waits_for_it(
    tmp_path: Path, listening: str
) -> None:
    folder = ServeFolder(tmp_path / "volvelle-serve")
    folder.prepare()
    with socket.socket() as gone:
        gone.bind(("127.0.0.1", 0))
        folder.write_address(ServerAddress(f"http://127.0.0.1:{gone.getsockname()[1]}"))
        Timer(0.3, folder.write_address, [ServerAddress(listening)]).start()
        assert ApiClient.find({"VOLVELLE_TOKEN": "x"}, tmp_path).url == listening


def test_the_next_line_of_the_banner_of_a_demo_works_its_users_submit_and_all_of_it_ends(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-m", "volvelle.cli.main", "serve", "--demo", "--port", "0"]
    command += ["--cluster", "1x2"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = next(line for line in process.stdout if line.startswith("Next: "))
            variable, _, rest = line.removeprefix("Next: ").partition(" ")
            assert rest == "volvelle submit --gpus 1 -- python train.py\n"
            name, _, value = variable.partition("=")
            ran = volvelle(tmp_path, "submit", "--gpus", "1", "--", "true", **{name: value})
            assert ran.returncode == 0
            assert "begins again" in ran.stderr

            def users() -> set[str]:
                rows = volvelle(tmp_path, "queue", "-o", "csv", **{name: value}).stdout
                return {row["user"] for row in csv.DictReader(rows.splitlines())}

            until(lambda: users() >= {"dana", "kim", "lee"}, "the users' jobs")
        finally:
            process.terminate()
    demo = ServerProcess(tmp_path)
    until(lambda: not demo.remaining(), "agents, supervisors and jobs to end")


FAILS_LATER = """
from typing import ClassVar

from volvelle import policy

@policy.register
class FailsLater(policy.OrderPolicy):
    \"\"\"An order that cannot be worked out once a job asks for three GPUs.\"\"\"

    name: ClassVar[str] = "fails-later"

    def key(self, jobs, now):
        if 3.0 in list(jobs.gpus):
            raise LookupError("three")
        return jobs.number
"""


def test_a_server_whose_policy_fails_goes_on_under_fifo_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "fails_later.py").write_text(FAILS_LATER)
    with server_process(tmp_path, CONFIG.replace("srsf", "fails_later.py")) as server:
        for gpus, command in (("2", "1000"), ("3", "0")):
            submitted = volvelle(tmp_path, "submit", "--gpus", gpus, "--", "sleep", command)
            assert submitted.returncode == 0, submitted.stderr
        queue = volvelle(tmp_path, "queue")
        assert "running" in queue.stdout
        for said in (queue.stderr, volvelle(tmp_path, "policy").stderr, server.output):
            assert "policy 'fails-later' failed in" in said
            assert "LookupError: three" in said
            assert "fifo decides instead" in said
        server.stop()


@pytest.mark.parametrize("anew", [False, True])
def test_an_idle_server_ends_when_its_store_is_removed_or_its_folder_is_made_anew(
    tmp_path: Path, anew: bool
) -> None:
    with server_process(tmp_path, CONFIG) as server:
        folder, old = tmp_path / "volvelle-serve", server.process
        assert old is not None
        if anew:
            folder.rename(tmp_path / "deleted")
            server.start(CONFIG)
        else:
            for file in folder.glob("store.db*"):
                file.unlink()
        assert old.wait(10.0) == 1
        assert "was removed, or another file is in its place" in server.output
        assert "put the store or a backup back, start volvelle serve again" in server.output.lower()
        assert not anew or volvelle(tmp_path, "queue").returncode == 0


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("\npolcy = 'fifo'", "cluster.toml line 2: unknown key 'polcy' (did you mean 'policy'?)"),
        ("foo = 1", "cluster.toml line 1: unknown key 'foo'. Keys are "),
        ("[listen]\nprot = 1", "unknown key 'listen.prot' (did you mean 'port'?)"),
        ("[listen]\ncertificate = 'a'", "certificate and key belong together"),
        ("policy = 'fif'\ncluster = '1x1'", "unknown policy 'fif' (did you mean 'fifo'?)"),
        ("policy = 'fifo'", "no cluster is given"),
        (
            "cluster = '1x1'\n[[nodes]]\nname = 'a'\ngpus = 1",
            "cluster and [[nodes]] describe one each",
        ),
        (
            "cluster = '1x1'\n[[pools]]\nname = 'a'\nquota = 2",
            "quotas add up to 2 GPUs, the cluster",
        ),
        ("cluster = '1x1'\nexecutor = 'locl'", "unknown executor 'locl' (did you mean 'local'?)"),
    ],
)
def test_an_error_in_the_server_file_names_the_nearest_key(
    tmp_path: Path, text: str, error: str
) -> None:
    (tmp_path / "cluster.toml").write_text(text)
    ran = volvelle(tmp_path, "serve", "--config", "cluster.toml", "--port", "0")
    assert ran.returncode in (1, 2)
    assert error in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_server_s_pools_divide_a_cluster_that_is_written_in_short(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text("cluster = '1x4'\n[[pools]]\nname = 'vision'\nquota = 3\nlends = true\n")
    for options in ({}, {"cluster": "2x2"}):
        assert ServeConfig.load(file, options).read_cluster().pools == (Pool("vision", 3.0, True),)
