"""The API servers that the contract is shown on: the fake one, and a real one where its programs are."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from fake_api_server import READ_ONLY, FakeApiServer, User
from waiting import until

ASSETS = "KUBEBUILDER_ASSETS"
"""The variable that names the folder of etcd and kube-apiserver, as Kubernetes' own projects have it."""

OPERATOR, READER = "operator-token", "reader-token"
_TOKENS = f"{OPERATOR},operator,1,system:masters\n{READER},reader,2,readers\n"


@dataclass
class Api:
    """An API server, as an operator sees it."""

    url: str
    namespace: str = "default"
    fake: FakeApiServer | None = None
    client: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.client = self.of(OPERATOR)

    def of(self, token: str) -> httpx.Client:
        """A client with a token."""
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, headers=headers, verify=False, timeout=30)

    def namespaced(self, plural: str, name: str = "", api: str = "api/v1") -> str:
        """The path of objects in the namespace."""
        return f"/{api}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")


@contextlib.contextmanager
def fake_api() -> Iterator[Api]:
    """The fake server, with an operator and a reader."""
    users = {OPERATOR: User("operator"), READER: User("reader", (READ_ONLY,))}
    with FakeApiServer(users=users, bookmark_seconds=0.1) as server:
        yield Api(server.url, fake=server)


@contextlib.contextmanager
def real_api(folder: Path) -> Iterator[Api]:
    """etcd and kube-apiserver from the folder that `ASSETS` names; skips where there is none."""
    named = os.environ.get(ASSETS)
    if not named:
        pytest.skip(f"no real API server: {ASSETS} names no folder with etcd and kube-apiserver")
    (folder / "tokens.csv").write_text(_TOKENS)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    encoding = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL
    (folder / "accounts.pem").write_bytes(
        key.private_bytes(*encoding, serialization.NoEncryption())
    )
    etcd, peer, port = 32379, 32380, 36443
    commands = (
        [
            f"{named}/etcd",
            f"--data-dir={folder}/etcd",
            f"--listen-client-urls=http://127.0.0.1:{etcd}",
            f"--advertise-client-urls=http://127.0.0.1:{etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
        ],
        [
            f"{named}/kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{etcd}",
            f"--cert-dir={folder}/certificates",
            f"--secure-port={port}",
            "--bind-address=127.0.0.1",
            f"--token-auth-file={folder}/tokens.csv",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://volvelle.test",
            f"--service-account-key-file={folder}/accounts.pem",
            f"--service-account-signing-key-file={folder}/accounts.pem",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount",
            "--watch-cache=false",  # so that what etcd has compacted is too old for watches, too
        ],
    )
    with (folder / "log").open("wb") as log:
        running = [subprocess.Popen(each, stdout=log, stderr=log) for each in commands]
        try:
            api = Api(f"https://127.0.0.1:{port}")

            def ready() -> bool:
                with contextlib.suppress(httpx.HTTPError):
                    return api.client.get("/readyz").status_code == 200
                return False

            until(ready, f"kube-apiserver, see {folder}/log")
            yield api
        finally:
            for each in reversed(running):
                each.terminate()
                each.wait()
