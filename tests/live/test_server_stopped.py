"""A server that was stopped for a while dates what attempts did as they say, not as it hears of it."""

import signal
import time
from pathlib import Path

import pytest
from server_process import DIAL_IN, server_process
from waiting import until

from volvelle.core.journal import read_journal
from volvelle.live.agent.launch import free_port
from volvelle.live.http.client import ApiClient
from volvelle.metrics.recorder import outcomes_of

LEASE, STOPPED = 3.0, 12.0
TICKS = "while :; do date +%s.%N >> {folder}/ticks-$VOLVELLE_JOB-$VOLVELLE_ATTEMPT; sleep 0.1; done"


def _ran(folder: Path) -> float:
    """Seconds that attempts ran, by what they wrote."""
    ticks = [list(map(float, file.read_text().split())) for file in folder.glob("ticks-*")]
    return sum(each[-1] - each[0] for each in ticks)


def test_what_ended_while_the_server_was_stopped_is_dated_by_its_node(tmp_path: Path) -> None:
    port = free_port()
    more = f",lease_seconds={LEASE:g}"
    with server_process(tmp_path, DIAL_IN.format(cluster="2x1", port=port, more=more)) as server:
        for node in ("node-0", "node-1"):
            server.start_agent(node, port)
        script = TICKS.format(folder=tmp_path)
        for _ in range(2):
            server.volvelle("submit", "--gpus", "1", "--retries", "9", "--", "sh", "-c", script)
        until(lambda: len(list(tmp_path.glob("ticks-*-1"))) == 2)
        assert server.process is not None
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(STOPPED)
        server.process.send_signal(signal.SIGCONT)
        until(lambda: len(list(tmp_path.glob("ticks-*-2"))) == 2)
        for number in ("0", "1"):
            server.volvelle("cancel", number)
        until(lambda: not server.jobs())
        token = (tmp_path / "volvelle-serve" / "token").read_text().strip()
        client = ApiClient(server.url, token)
        holdings = client.get("/v1/holdings")["holdings"]
        journal = tmp_path / "journal.jsonl"
        journal.write_bytes(b"".join(client.stream("/v1/journal")))
    outcomes = outcomes_of(*read_journal(journal))
    ran = _ran(tmp_path)
    assert ran < 2 * (STOPPED - 1.0)  # the lease had ended both
    assert float(outcomes.gpu_seconds.sum()) == pytest.approx(ran, abs=4.0)
    held = sum(end - start for *_, start, end, _ in holdings)
    assert held == pytest.approx(ran, abs=4.0)
