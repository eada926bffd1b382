"""Jobs to look at a server with (``volvelle serve --demo``): three users submit work that sleeps.

The jobs save how long they slept, and end with their server.
"""

import random
import threading
import time
from typing import Any

from volvelle.live.control.controller import Controller
from volvelle.live.control.requests import Cancel
from volvelle.live.http.client import ApiClient
from volvelle.model.problems import Problem

_NAMES = ("bert", "resnet50", "gpt-small", "t5", "whisper", "evaluate")
_USERS = ("dana", "kim", "lee")
_AT_FIRST, _MOST = 40, 60
_GPU_SECONDS = 450.0
"""Of a job, about."""
_FAILS, _DUE = 0.05, 0.2
_SLEEP = """
kept="$VOLVELLE_CHECKPOINT/seconds"; slept=$(cat "$kept" 2>/dev/null || echo 0); began=$(date +%s)
trap 'kill $!; mkdir -p "${kept%/*}"; echo $((slept + $(date +%s) - began)) > "$kept"; exit 75' TERM
sleep $(($1 > slept ? $1 - slept : 0)) & wait $!; exit $2
"""
"""A script that sleeps for so many seconds in all and ends with a status; it goes on after a stop."""
_END_SECONDS = 5.0
"""How long their ends are waited for when the server ends."""


def submit_demo_jobs(client: ApiClient, gpus: int) -> None:
    """Submit a burst and then as much work as so many GPUs do, in a thread that ends with the process."""
    threading.Thread(target=_submit, args=(client, gpus), name="demo jobs", daemon=True).start()


def end_jobs(controller: Controller) -> None:
    """Cancel all jobs and wait for their ends, for a while: agents without jobs end with the server."""
    for number in list(controller.status.jobs):
        controller.request(Cancel(number))
    until = time.monotonic() + _END_SECONDS
    while time.monotonic() < until and any(node.jobs for node in controller.status.nodes):
        time.sleep(0.05)


def _submit(client: ApiClient, gpus: int) -> None:
    chance = random.Random(7)
    try:
        made = [client.post("/v1/tokens", {"user": user})["token"] for user in _USERS]
        users = [ApiClient(client.url, one, client.certificate) for one in made]
        for at in range(10**6):
            if at >= _AT_FIRST:
                time.sleep(_GPU_SECONDS / gpus)
                while len(client.get("/v1/jobs", limit=_MOST)["jobs"]) >= _MOST:
                    time.sleep(_GPU_SECONDS / gpus)
            chance.choice(users).post("/v1/jobs", _job(chance, gpus))
    except Problem:
        return  # the server ends


def _job(chance: random.Random, most: int) -> dict[str, Any]:
    """One to sixteen GPUs for a minute or two in the median, estimated too long as users do."""
    seconds = round(min(900.0, max(20.0, chance.lognormvariate(4.5, 0.9))))
    status = "1" if chance.random() < _FAILS else "0"
    job: dict[str, Any] = {
        "name": chance.choice(_NAMES),
        "command": ["sh", "-c", _SLEEP, "sleeps", str(seconds), status],
        "checkpoint": {"takes": 1},
        "gpus": min(most, chance.choice((1, 1, 1, 2, 2, 4, 4, 8, 16))),
        "estimate": round(seconds * chance.uniform(1.0, 2.5)),
        "retries": 0,
    }
    if chance.random() < _DUE:
        job["deadline"] = {"kind": "soft", "within": round(seconds * chance.uniform(2.0, 8.0))}
    return job
