"""Jobs in containers, by stand-ins for Podman and Apptainer that write down what they are asked for."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from executor_harnesses import LocalHarness

from volvelle.live.agent.containers import Container, NoEngineError
from volvelle.live.messages import Outcome

ENGINE = """#!/bin/sh
printf '%s\\n' "$@" > {seen}
printf '%s' "$VOLVELLE_CHECKPOINT$APPTAINERENV_VOLVELLE_CHECKPOINT" > {seen}.checkpoint
while [ "$1" != example.org/image:1 ]; do shift; done
shift
exec "$@"
"""


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHarness]:
    """Podman on the PATH of the agents."""
    engine, seen = tmp_path / "bin" / "podman", tmp_path / "seen"
    engine.parent.mkdir()
    engine.write_text(ENGINE.format(seen=seen))
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", f"{engine.parent}:/usr/bin:/bin")
    with LocalHarness(tmp_path / "cluster") as harness:
        yield harness


def test_a_job_runs_in_its_container_with_its_folders_and_variables(
    harness: LocalHarness, tmp_path: Path
) -> None:
    harness.start(
        command=("cat", "made"),
        setup=(("sh", "-c", "echo inside > made"),),
        container="example.org/image:1",
    )
    assert harness.end().outcome is Outcome.FINISHED
    attempt = harness.attempt_folder(harness.nodes[0])
    assert (attempt / "output.log").read_text().splitlines()[-1] == "inside"
    seen = (tmp_path / "seen").read_text().splitlines()
    own = harness.context.folder / "work" / "1"
    for place in (own, attempt):
        assert f"--volume={place}:{place}" in seen
    assert f"--workdir={own}" in seen
    assert {"--env=VOLVELLE_CHECKPOINT", "--env=CUDA_VISIBLE_DEVICES", "--env=PYTHONPATH"} <= set(
        seen
    )
    assert "--env=PATH" not in seen
    assert (tmp_path / "seen.checkpoint").read_text() == str(own / "checkpoint")


def test_apptainer_is_asked_for_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    engines = {"apptainer": "/usr/bin/apptainer"}
    monkeypatch.setattr("shutil.which", engines.get)
    container = Container.find(
        "pytorch/pytorch:2", "/jobs/1", [Path("/run/1")], {"A": "b,c"}, ["0"]
    )
    assert container.command(["python", "x.py"]) == [
        *("/usr/bin/apptainer", "exec", "--cleanenv", "--nv", "--bind=/jobs/1", "--bind=/run/1"),
        *("--pwd=/jobs/1", "docker://pytorch/pytorch:2", "python", "x.py"),
    ]
    assert container.variables() == {"APPTAINERENV_A": "b,c"}
    engines["podman"] = "/usr/bin/podman"
    container = Container.find("pytorch", "/jobs/1", [], {"A": "b,c"}, ["GPU-1"])
    assert {"--device=nvidia.com/gpu=GPU-1", "--env=A"} <= set(container.command(["true"]))
    assert container.variables() == {"A": "b,c", "CUDA_VISIBLE_DEVICES": "0"}
    engines.clear()
    with pytest.raises(NoEngineError, match="neither podman nor apptainer is on this node"):
        Container.find("pytorch", "/jobs/1", [], {}, [])


def test_without_an_engine_the_job_has_failed_for_good(
    harness: LocalHarness, tmp_path: Path
) -> None:
    (tmp_path / "bin" / "podman").unlink()
    harness.start(command=("true",), container="example.org/image:1")
    end = harness.end()
    assert (end.outcome, end.permanent) == (Outcome.FAILED, True)
    assert end.reason.endswith("neither podman nor apptainer is on this node")
