"""``volvelle serve`` with pools of two teams: who borrows, and for whom GPUs are kept."""

from pathlib import Path

from server_process import server_process
from waiting import until

import volvelle as vv
from volvelle.notebook.records import Record

CONFIG = """
policy = "anticipatory:quanta=1s/3s,threshold=0.02"
estimator = "declared"
executor = { name = "local", pretend = true }

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


def test_idle_gpus_are_lent_and_who_owns_them_waits_no_longer_than_alone(tmp_path: Path) -> None:
    with server_process(tmp_path, CONFIG) as server:
        folder = server.folder
        token = (folder / "volvelle-serve" / "token").read_text().strip()
        connection = vv.connect(url=server.url, token=token)

        def submit(pool: str, gpus: int, name: str, *command: str) -> int:
            rows = connection.submit(command, pool=pool, gpus=gpus, estimate="3s", name=name)
            return int(rows[0].number)

        def job(number: int) -> Record:
            found: Record = connection.job(number)
            return found

        def borrows(number: int) -> bool:
            return "on GPUs that its pool borrows" in job(number).reason

        own = submit("text", 2, "own", "sleep", "120")
        borrower = submit("text", 1, "borrower", "sleep", "120")
        until(lambda: borrows(borrower))
        assert job(own).reason == ""
        server.volvelle("cancel", str(borrower))

        def kept_from() -> int | None:
            """A job of text that waits for what vision is expected to need; None if it came too late."""
            vision = submit("vision", 2, "short", "true")
            late = submit("text", 1, "late", "sleep", "120")
            until(lambda: job(vision).state == "finished")
            until(lambda: job(late).state == "running" or "kept for work" in job(late).reason)
            if job(late).state != "running":
                return late
            server.volvelle("cancel", str(late))
            return None

        late = until(kept_from)
        why = str(connection.why(late))
        burst = submit("vision", 2, "burst", "sleep", "120")
        assert "GPUs of pool vision are kept for work expected within" in why
        until(lambda: job(burst).state == "running")
        # Alone vision would start it at once as well.
        assert job(burst).first_started == job(burst).submitted
        assert job(late).state == "waiting"
        server.stop()
