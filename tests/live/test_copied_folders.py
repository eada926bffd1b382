"""A folder of an agent that was copied, such as in the image of a node: one of two agents is refused."""

import shutil
from pathlib import Path

from server_process import DIAL_IN, ServerProcess, server_process
from waiting import until

from volvelle.live.agent.launch import free_port


def _is_up(server: ServerProcess) -> bool:
    return " up " in server.volvelle("nodes")


def test_of_two_agents_with_one_identity_the_second_is_refused_and_jobs_run_once(
    tmp_path: Path,
) -> None:
    port = free_port()
    with server_process(tmp_path, DIAL_IN.format(cluster="1x1", port=port, more="")) as server:
        server.start_agent("node-0", port)
        until(lambda: _is_up(server))
        shutil.copytree(tmp_path / "node-0", tmp_path / "copy")
        first = server.agents.pop("node-0")
        server.start_agent("node-0", port, "--folder", str(tmp_path / "copy"))
        second, server.agents["first"] = server.agents["node-0"], first
        script = f"echo $VOLVELLE_JOB >> {tmp_path}/ran; sleep 1"
        for _ in range(4):
            server.volvelle("submit", "--", "sh", "-c", script)
        assert second.wait(30) == 1
        said = "an agent with the same identity runs for node 'node-0' at 127.0.0.1"
        assert said in (tmp_path / "node-0.log").read_text()
        assert said in server.output
        assert first.poll() is None
        until(lambda: not server.jobs())
        assert sorted((tmp_path / "ran").read_text().split()) == ["0", "1", "2", "3"]


def test_an_agent_that_was_killed_comes_back_in_its_folder(tmp_path: Path) -> None:
    port = free_port()
    with server_process(tmp_path, DIAL_IN.format(cluster="1x1", port=port, more="")) as server:
        server.start_agent("node-0", port)
        until(lambda: _is_up(server))
        server.volvelle("submit", "--", "sh", "-c", f"sleep 2; echo ran >> {tmp_path}/ran")
        until(lambda: server.job(0)["state"] == "running")
        server.kill_agent("node-0")
        server.start_agent("node-0", port)
        until(lambda: not server.job(0))
        assert (tmp_path / "ran").read_text() == "ran\n"
