"""``volvelle serve`` with pools of two teams: who borrows, and for whom GPUs are kept."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from server_process import server_process, volvelle
from waiting import until

CONFIG = """
policy = "anticipatory:quanta=1s/3s,threshold=0.02"
estimator = "declared"
executor = { name = "local", pretend = true, linger_seconds = 5 }

[[nodes]]
name = "node-0"
gpus = 4

[[pools]]
name = "vision"
quota = 2
lends = true

[[pools]]
name = "text"
quota = 2
lends = true

[listen]
port = 0
"""


def submit(folder: Path, pool: str, gpus: int, name: str, *command: str) -> str:
    options = ("--pool", pool, "--gpus", str(gpus), "--estimate", "3s", "--name", name)
    ran = volvelle(folder, "submit", *options, "--", *command)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split()[1]


def test_idle_gpus_are_lent_and_who_owns_them_waits_no_longer_than_alone(tmp_path: Path) -> None:
    with server_process(tmp_path, CONFIG) as server:
        folder = server.folder

        def job(name: str) -> dict[str, Any]:
            queue = json.loads(volvelle(folder, "queue", "-o", "json").stdout)
            return next(each for each in queue if each["name"] == name)

        def reason_is(name: str, words: str) -> Callable[[], bool]:
            return lambda: words in job(name)["reason"]

        submit(folder, "text", 2, "own", "sleep", "120")
        borrower = submit(folder, "text", 1, "borrower", "sleep", "120")
        until(reason_is("borrower", "on GPUs that its pool borrows"))
        assert job("own")["reason"] == ""
        assert volvelle(folder, "cancel", borrower).returncode == 0
        for _ in range(2):  # vision has work, so more is expected
            submit(folder, "vision", 2, "short", "true")
        number = submit(folder, "text", 1, "late", "sleep", "120")
        until(reason_is("late", "GPUs of pool vision are kept for work expected within"))
        assert "kept for work expected" in volvelle(folder, "why", number).stdout
        submit(folder, "vision", 2, "burst", "sleep", "120")
        until(lambda: job("burst")["state"] == "running")
        burst = job("burst")  # alone vision would start it at once as well
        assert burst["first_started"] == burst["submitted"]
        assert job("late")["state"] == "waiting"
        server.stop()
