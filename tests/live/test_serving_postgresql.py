"""``volvelle serve`` with its store in PostgreSQL, from the command line."""

import json
from pathlib import Path

from databases import postgresql
from server_process import server_process, volvelle
from waiting import until

CONFIG = """
cluster = "1x2"
policy = "{policy}"
executor = "local:pretend=true,linger_seconds=5"
store = "{url}"
seed = {seed}

[listen]
port = 0
"""


def test_a_server_with_its_store_in_postgresql_from_start_to_restart(tmp_path: Path) -> None:
    released = tmp_path / "released"
    with postgresql() as database, server_process(tmp_path) as server:
        server.start(CONFIG.format(policy="fifo", url=database.url, seed=0))
        waits = f"echo before; until test -e {released}; do sleep 0.05; done; echo after"
        server.volvelle("submit", "--wait", "--gpus", "1", "echo", "done")
        server.volvelle("submit", "--gpus", "2", "--", "sh", "-c", waits)
        until(lambda: server.job(1).get("state") == "running")
        server.kill()
        server.start(CONFIG.format(policy="srsf", url=database.url, seed=7))
        until(lambda: "1 job from before, see: volvelle queue" in server.output)
        assert "warning: policy: fifo until now, srsf from now on" in server.output
        assert "has 0, the configuration 7; 0 goes on to hold" in server.output
        released.touch()
        until(lambda: not server.job(1))
        assert server.volvelle("logs", "1") == "before\nafter\n"
        ended = json.loads(server.volvelle("history", "-o", "json"))
        assert [(job["number"], job["state"]) for job in ended] == [
            (1, "finished"),
            (0, "finished"),
        ]
        server.volvelle("journal", "--out", "exported")
        assert (tmp_path / "exported" / "report.html").exists()
        assert " JCT " in server.volvelle("report", "exported")
        assert not (tmp_path / "volvelle-serve" / "store.db").exists()

        server.stop()
        database.stop()
        ran = volvelle(tmp_path, "serve", "--config", "cluster.toml")
        assert ran.returncode == 1
        assert ran.stderr.startswith("error: cannot open the store postgresql")
        assert f"volvelle@127.0.0.1:{database.port}/postgres" in ran.stderr
        assert ran.stderr.endswith(
            "Check that it is there, that it runs and that we may write to it.\n"
        )
        database.start()
        server.start(CONFIG.format(policy="srsf", url=database.url, seed=0))
        assert json.loads(server.volvelle("history", "-o", "json")) == ended
