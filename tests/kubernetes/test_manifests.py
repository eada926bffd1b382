"""The manifests of examples/kubernetes: all fields are known ones, and the rights are enough."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from executor_harnesses import KubernetesHarness
from fake_api_server import Rule, User

from volvelle.live.config import ServeConfig
from volvelle.live.messages import Outcome, Stop

FOLDER = Path(__file__).parents[2] / "examples" / "kubernetes"


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects that the kustomizations name, with their places."""
    for kustomization in sorted(FOLDER.glob("*/kustomization.yaml")):
        for name in yaml.safe_load(kustomization.read_text())["resources"]:
            file = kustomization.parent / name
            for document in yaml.safe_load_all(file.read_text()):
                yield f"{file.parent.name}/{name} {document['kind']}", document


DOCUMENTS = list(documents())


def manifest(kind: str, name: str) -> dict[str, Any]:
    return next(
        each for _, each in DOCUMENTS if (each["kind"], each["metadata"]["name"]) == (kind, name)
    )


@pytest.mark.parametrize(
    "document", [each for _, each in DOCUMENTS], ids=[place for place, _ in DOCUMENTS]
)
def test_every_field_is_one_of_its_kind(document: dict[str, Any]) -> None:
    codecs = pytest.importorskip("lightkube.codecs", reason="no models of Kubernetes' objects")
    assert codecs.from_dict(document).to_dict() == document


def test_every_file_is_named_by_a_kustomization() -> None:
    named = {place.partition(" ")[0] for place, _ in DOCUMENTS} | {
        f"{folder.name}/kustomization.yaml" for folder in FOLDER.iterdir() if folder.is_dir()
    }
    assert {f"{file.parent.name}/{file.name}" for file in FOLDER.rglob("*.yaml")} == named


def test_the_servers_configuration_is_read(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(manifest("ConfigMap", "volvelle")["data"]["cluster.toml"])
    executor = ServeConfig.load(file, {}).make_executor()
    assert executor.name == "kubernetes"


def test_the_rights_are_enough_to_run_jobs(tmp_path: Path) -> None:
    harness = KubernetesHarness(tmp_path)
    granted = [
        Rule(tuple(rule["verbs"]), tuple(rule["resources"]), namespace)
        for kind, name, namespace in (
            ("Role", "volvelle", "default"),
            ("ClusterRole", "volvelle-nodes", ""),
        )
        for rule in manifest(kind, name)["rules"]
    ]
    server = harness.cluster.server
    server.users["account"] = User("system:serviceaccount:default:volvelle", tuple(granted))
    kubeconfig = server.kubeconfig(tmp_path, token="account")
    harness.written = harness.written.replace("kubeconfig-all", kubeconfig.name)
    try:
        harness.open()
        harness.start(command=("echo", "seen"), nodes=2)
        assert harness.end().outcome is Outcome.FINISHED
        assert harness.logs.log_sizes(harness.nodes[0], 1, "").result(9) == {"1-1": 5}
        harness.start(attempt=2, command=(sys.executable, "-c", ""), first=1)
        harness.send(Stop(1, 2, kill=True))
        harness.end(attempt=2)
    finally:
        harness.kill_all()
