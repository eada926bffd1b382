"""A PyTorch model under a server with Pollux: what it measures decides on its batch size and on its GPUs."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from server_process import server_process
from waiting import until

from volvelle.core.events import TrainingReported
from volvelle.core.journal import read_journal
from volvelle.live.http.client import ApiClient

CONFIG = """
cluster = "1x2"
policy = "pollux:round=5,generations=10,population=10"
estimator = "measured"
executor = { name = "local", pretend = true, progress_seconds = 0.2 }

[listen]
port = 0
"""
SCRIPT = Path(__file__).parents[2] / "client" / "pollux_job.py"
EPOCHS, BATCHES = 2000, 16
"""Batches of an epoch at its own size."""


@pytest.mark.slow  # PyTorch is imported at each start of a job, and rounds pass
def test_a_pytorch_model_is_tuned_by_a_server_to_its_end(tmp_path: Path) -> None:
    if find_spec("torch") is None:
        pytest.skip("no PyTorch")
    with server_process(tmp_path, CONFIG) as server:
        client = ApiClient(server.url, (tmp_path / "volvelle-serve/token").read_text().strip())
        path = os.pathsep.join(each for each in sys.path if each)
        job = {
            "command": [sys.executable, str(SCRIPT), str(EPOCHS)],
            "gpus": 1, "estimate": 60, "environment": {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        }  # fmt: skip
        client.post("/v1/jobs", job)
        until(lambda: client.get("/v1/jobs", over="true")["jobs"], "the model to be trained", 300)
        (over,) = client.get("/v1/jobs", over="true")["jobs"]
        assert over["state"] == "finished", b"".join(client.stream("/v1/jobs/0/logs"))
        assert 0 < over["iterations"] < EPOCHS * BATCHES, "it was given larger batches than its own"
        server.volvelle("journal", "--out", "run")
    _, moments = read_journal(tmp_path / "run" / "journal.jsonl")
    events = [event for moment in moments for event in moment.events]
    told = [event.goodput for event in events if isinstance(event, TrainingReported)]
    assert any(goodput is not None for goodput in told)
