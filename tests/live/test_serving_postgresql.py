"""``volvelle serve`` with its store in PostgreSQL: a whole life, as its users see it."""

import json
from pathlib import Path

from databases import postgresql
from served import served, volvelle
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


def test_a_whole_life_with_its_store_in_postgresql(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with postgresql() as database, served(tmp_path) as server:
        server.start(CONFIG.format(policy="fifo", url=database.url, seed=0))
        waits = f"echo before; until test -e {gate}; do sleep 0.05; done; echo after"
        server.volvelle("submit", "--wait", "--gpus", "1", "echo", "done")
        server.volvelle("submit", "--gpus", "2", "--", "sh", "-c", waits)
        until(lambda: server.job(1).get("state") == "running")
        server.kill()
        server.start(CONFIG.format(policy="srsf", url=database.url, seed=7))
        assert "warning: policy: fifo until now, srsf from now on" in server.said
        assert "has 0, the configuration 7; 0 goes on to hold" in server.said
        assert "1 jobs from before, see: volvelle queue" in server.said
        gate.touch()
        until(lambda: not server.job(1))
        assert server.volvelle("logs", "1") == "before\nafter\n"
        ended = json.loads(server.volvelle("history", "-o", "json"))
        assert [(job["number"], job["state"]) for job in ended] == [
            (1, "finished"),
            (0, "finished"),
        ]
        server.volvelle("journal", "--out", "life")
        assert (tmp_path / "life" / "report.html").exists()
        assert " JCT " in server.volvelle("report", "life")
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
