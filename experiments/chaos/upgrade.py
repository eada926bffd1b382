"""A running cluster is upgraded to this checkout from an earlier commit: first the server, then the agents.

    python experiments/chaos/upgrade.py                   # from the commit before
    python experiments/chaos/upgrade.py --since REVISION

Server and agents of the earlier commit run jobs that trace what they do; others wait, one is held. The server
ends in good order and the one of this checkout goes on with its store, beside agents of the earlier commit;
then these are replaced, one after the other, while their jobs run. Traces show whether an acknowledged job
was lost, run twice or interrupted (`evidence`).
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from commands import kill, processes_with
from evidence import broken_histories, gpus_held_twice, jobs_run_twice, read_traces

from volvelle.live.agent.launch import free_port
from volvelle.live.http.client import ApiClient

ROOT = Path(__file__).resolve().parents[2]
NODES = ("node-0", "node-1")
JOBS = 5
_ITERATIONS, _SECONDS = 80, 0.1
_PATIENCE_SECONDS = 240.0
_CONFIG = 'cluster = "2x2"\nexecutor = "dial-in:port={port}"\n\n[listen]\nport = 0\n'


@dataclass
class Running:
    """A server and its agents in ``folder``, each a process of some checkout."""

    folder: Path
    port: int
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, checkout: Path) -> None:
        """Start the server or a node's agent from the sources in ``checkout``."""
        where = [
            "--connect",
            f"127.0.0.1:{self.port}",
            "--token-file",
            "volvelle-serve/agents.token",
        ]
        agent = ["agent", *where, "--node", name, "--gpus", "2", "--pretend", "--folder", name]
        command = ["serve", "--config", "cluster.toml"] if name == "server" else agent
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "volvelle.cli.main", *command],
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(checkout / "src")},
                stdout=log,
                stderr=log,
            )
        if name == "server":
            until(self._is_ready, "the server")

    def end(self, name: str) -> None:
        """End it as systemd does."""
        process = self.processes.pop(name)
        process.terminate()
        process.wait(60.0)

    @property
    def client(self) -> ApiClient:
        """A client of the present server."""
        return ApiClient.find({}, self.folder)

    def _is_ready(self) -> bool:
        process = self.processes["server"]
        if process.poll() is not None:
            raise SystemExit((self.folder / "server.log").read_text(encoding="utf-8"))
        return (self.folder / "volvelle-serve" / "server.json").exists()

    def close(self) -> None:
        """Kill everything."""
        for pid in processes_with(str(self.folder)):
            kill(pid)
        for process in self.processes.values():
            process.kill()
            process.wait()


def until(found: Callable[[], object], what: str) -> None:
    """Wait until there is something."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while not found():
        if time.monotonic() > end:
            raise SystemExit(f"waited {_PATIENCE_SECONDS:.0f} s for {what}")
        time.sleep(0.1)


@contextmanager
def checkout_of(revision: str) -> Iterator[Path]:
    """A worktree of the revision."""
    git = ["git", "-C", str(ROOT), "worktree"]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        subprocess.run([*git, "add", "-q", "--detach", str(tree), revision], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def submit(client: ApiClient, traces: Path, place: int) -> int:
    """Submit a job that traces what it does, on one or two GPUs; its number."""
    script = Path(__file__).with_name("traced_job.py")
    words = [sys.executable, str(script), str(traces), str(_ITERATIONS), str(_SECONDS), "5"]
    body = {"command": words, "gpus": 1 + place % 2, "estimate": _ITERATIONS * _SECONDS}
    (number,) = client.post("/v1/jobs", body, key=f"upgrade-{place}")["numbers"]
    return int(number)


def upgrade(folder: Path, before: Path) -> tuple[list[str], dict[str, int]]:
    """What was violated, and counts of what happened."""
    traces = folder / "traces"
    traces.mkdir()
    running = Running(folder, free_port())
    (folder / "cluster.toml").write_text(_CONFIG.format(port=running.port), encoding="utf-8")
    with ExitStack() as closing:
        closing.callback(running.close)
        for name in ("server", *NODES):
            running.start(name, before)
        numbers = [submit(running.client, traces, place) for place in range(JOBS)]
        running.client.post(f"/v1/jobs/{numbers[-1]}/hold")
        until(lambda: _at_work(traces), "two jobs at work")
        at_work = _at_work(traces)
        running.end("server")
        running.start("server", ROOT)
        known = {job["number"] for job in running.client.get("/v1/jobs")["jobs"]}
        known |= {job["number"] for job in running.client.get("/v1/jobs", over="true")["jobs"]}
        for name in NODES:
            until(lambda: _at_work(traces) or not _open(running), "jobs at work")
            at_work |= _at_work(traces)
            running.end(name)
            running.start(name, ROOT)
        running.client.post(f"/v1/jobs/{numbers[-1]}/release")
        until(lambda: not _open(running), "the end of all jobs")
        over = running.client.get("/v1/jobs", over="true")["jobs"]
    found = read_traces(traces)
    violations = [
        *(
            f"job {number} is not known after the upgrade"
            for number in numbers
            if number not in known
        ),
        *(f"job {job['number']} is {job['state']}" for job in over if job["state"] != "finished"),
        *gpus_held_twice(found),
        *jobs_run_twice(found),
        *broken_histories(found, dict.fromkeys(numbers, _ITERATIONS)),
    ]
    attempts = {(one.job, one.attempt) for one in found}
    violations += [f"job {job} was interrupted" for job, attempt in sorted(attempts) if attempt > 1]
    return violations, {"jobs": len(numbers), "at work meanwhile": len(at_work)}


def _at_work(traces: Path) -> set[int]:
    """Jobs that have done an iteration and have more to do; fewer than two: none yet."""
    found = {one.job for one in read_traces(traces) if 0 < len(one.iterations) < _ITERATIONS // 2}
    return found if len(found) > 1 else set()


def _open(running: Running) -> list[Any]:
    """The jobs that are neither over nor held."""
    found: list[Any] = running.client.get("/v1/jobs")["jobs"]
    return [job for job in found if job["state"] != "held"]


def main() -> int:
    """Upgrade, and say what was lost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--since", default="HEAD~1", help="the earlier commit")
    chosen = parser.parse_args()
    with checkout_of(chosen.since) as before, tempfile.TemporaryDirectory() as folder:
        violations, counts = upgrade(Path(folder), before)
    print(*(f"{count} {what}" for what, count in counts.items()), sep="\n")
    print(*violations or ["nothing was lost, run twice or interrupted"], sep="\n")
    return int(bool(violations))


if __name__ == "__main__":
    sys.exit(main())
