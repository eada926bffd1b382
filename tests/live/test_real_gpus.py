"""Real GPUs: processes, memory and sums that made-up ones do not have. Skipped where nvidia-smi lists none.

pytest tests/live/test_real_gpus.py
"""

import json
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest
from certificates import make_certificates
from server_process import DIAL_IN, ServerProcess, server_process
from waiting import until

from volvelle.live.agent.gpus import find_gpus
from volvelle.live.agent.launch import free_port

pytestmark = pytest.mark.skipif(not find_gpus(), reason="nvidia-smi lists no GPU here")

LOCAL = 'cluster = "1x1"\npolicy = "{policy}"\n\n[listen]\nport = 0\n'
TRAINING = Path(__file__).parents[2] / "examples" / "train_transformer.py"
CONTEXT_MIB = 100
"""What the driver may keep of a GPU that no process uses."""

SEES = "import torch; print('sees', torch.cuda.device_count(), torch.cuda.get_device_name())"
HOLDS = """
import signal, sys, time, torch
for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(ignored, signal.SIG_IGN)
total = torch.cuda.get_device_properties(0).total_memory
held = torch.ones(total * 6 // 10, dtype=torch.uint8, device="cuda")
print("holds", int(held[-1]), flush=True)
time.sleep(float(sys.argv[1]))
"""


def memory_used() -> int:
    """MiB of all GPUs."""
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return sum(map(int, subprocess.check_output(command, text=True).split()))


def submit(server: ServerProcess, *command: str, estimate: str = "1m") -> int:
    limits = ("--retries", "0", "--grace", "5s", "--estimate", estimate)
    (number,) = json.loads(
        server.volvelle("submit", "--gpus", "1", *limits, "-o", "json", "--", *command)
    )["numbers"]
    return int(number)


def run(server: ServerProcess, *command: str) -> str:
    """What a job wrote that ran ``command`` to its end."""
    number = submit(server, *command)
    until(lambda: not server.job(number), patience_seconds=120)
    return server.volvelle("logs", str(number))


def losses(server: ServerProcess, number: int) -> list[list[tuple[int, float]]]:
    """Iterations and losses of each attempt of a job."""
    ended = server.folder.glob(f"volvelle-serve/**/ended/{number}-*/metrics.jsonl")
    attempts = sorted(ended, key=lambda path: int(path.parent.name.split("-")[1]))
    lines = [[json.loads(line) for line in path.read_text().splitlines()] for path in attempts]
    return [[(one["iteration"], one["metrics"]["loss"]) for one in attempt] for attempt in lines]


def test_a_job_sees_the_gpu_that_it_was_given(tmp_path: Path) -> None:
    with server_process(tmp_path, LOCAL.format(policy="fifo")) as server:
        variables = "echo $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER $VOLVELLE_GPUS"
        assert f"{find_gpus()[0].device} PCI_BUS_ID 0" in run(server, "sh", "-c", variables)
        assert "sees 1 " in run(server, sys.executable, "-c", SEES)


def test_a_node_that_dials_in_runs_on_its_gpu_while_its_agent_is_away(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    tls = ",host=0.0.0.0,certificate=head.pem,key=head.key"
    port, kind = free_port(), find_gpus()[0].gpu_type
    config, node = DIAL_IN.format(cluster=f"1x1:{kind}", port=port, more=tls), f"{kind}-0"
    real = ("--no-pretend", "--authority", str(tmp_path / "ca.pem"))
    with server_process(tmp_path, config) as server:
        server.start_agent(node, port, *real, "--gpu-type", "another")
        assert server.agents.pop(node).wait(60) == 1
        refused = f"of type '{kind}', the agent has 1 of 'another'"
        assert refused in (tmp_path / f"{node}.log").read_text()
        server.start_agent(node, port, *real)
        number = submit(server, sys.executable, str(TRAINING), "200")
        until(lambda: server.job(number).get("iterations"), patience_seconds=120)
        server.kill_agent(node)
        server.start_agent(node, port, *real)
        until(lambda: not server.job(number), patience_seconds=120)
        assert "200 iterations, " in server.volvelle("logs", str(number))


@pytest.mark.parametrize(
    "launcher",
    [
        pytest.param((), id="alone"),
        pytest.param(("sh", "-c", 'setsid "$@" & sleep 100', "sh"), id="left-the-session"),
    ],
)
def test_the_memory_of_a_killed_job_is_free_before_the_next_one_starts(
    tmp_path: Path, launcher: tuple[str, ...]
) -> None:
    """The job ignores the signals to end."""
    before, holds = memory_used(), (sys.executable, "-c", HOLDS)
    with server_process(tmp_path, LOCAL.format(policy="fifo")) as server:
        first = submit(server, *launcher, *holds, "100")
        until(lambda: "holds 1" in server.volvelle("logs", str(first)))
        assert memory_used() > before + CONTEXT_MIB
        second = submit(server, *holds, "0")
        server.volvelle("cancel", str(first))
        until(lambda: not server.job(second))
        assert "holds 1" in server.volvelle("logs", str(second))
        until(lambda: memory_used() <= before + CONTEXT_MIB)


@pytest.mark.parametrize("policy", ["las:round=10", "srtf"])
def test_preempted_on_a_gpu_a_job_has_the_losses_of_one_that_was_not(
    tmp_path: Path, policy: str
) -> None:
    """The server is killed, too, and nothing is lost or done twice."""
    before = memory_used()
    config = LOCAL.format(policy=policy)
    with server_process(tmp_path, config) as server:
        whole = submit(server, sys.executable, str(TRAINING), "300")
        until(lambda: not server.job(whole), patience_seconds=180)
        ((*curve,),) = losses(server, whole)
        assert [iteration for iteration, _ in curve] == list(range(1, 301))
        jobs = {}
        for iterations in (300, 200, 100):
            seconds = f"{iterations // 25}s"
            command = (sys.executable, str(TRAINING), str(iterations))
            jobs[submit(server, *command, estimate=seconds)] = iterations
            until(lambda: any(server.job(n).get("iterations") for n in jobs))
        server.kill()
        server.start(config)
        until(lambda: not any(server.job(n) for n in jobs), patience_seconds=300)
        attempts = {number: losses(server, number) for number in jobs}
        for number, iterations in jobs.items():
            assert list(chain(*attempts[number])) == curve[:iterations]
        assert len(attempts[min(jobs)]) > 1
        until(lambda: memory_used() <= before + CONTEXT_MIB)


def test_a_loss_that_another_stream_computes_is_reported_once_it_is_known(tmp_path: Path) -> None:
    program = """
import sys, torch
from pathlib import Path
from volvelle.client.metrics import MetricsFile
loss, file = torch.zeros((), device="cuda"), MetricsFile(Path(sys.argv[1]))
torch.cuda.synchronize()
with torch.cuda.stream(torch.cuda.Stream()):
    torch.cuda._sleep(1_000_000_000)
    file.add(1, {"loss": loss.fill_(3.0)})
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "metrics")], check=True)
    (line,) = (tmp_path / "metrics").read_text().splitlines()
    assert json.loads(line)["metrics"] == {"loss": 3.0}
