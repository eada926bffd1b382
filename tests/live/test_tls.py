"""API and agents over TLS; clients with a wrong certificate authority, or none, get an error."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from certificates import make_certificates
from server_process import ServerProcess, server_process, volvelle
from waiting import until

from volvelle.live.agent.launch import free_port

CONFIG = """
cluster = "1x1"
executor = "dial-in:port={port},certificate=head.pem,key=head.key"

[listen]
port = 0
certificate = "head.pem"
key = "head.key"
"""


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("tls")
    make_certificates(folder)
    with server_process(folder, CONFIG.format(port=port)) as server:
        server.start_agent("node-0", port, "--authority", str(folder / "ca.pem"))
        yield server


@pytest.fixture
def dana(server: ServerProcess) -> dict[str, str]:
    """A client on another machine, which has the URL of the server and its CA certificate."""
    token = server.volvelle("token", "create", "--user", "dana").strip()
    api = urlsplit(server.url)
    assert (api.scheme, api.hostname) == ("https", "127.0.0.1")
    return {
        "VOLVELLE_SERVER": f"https://localhost:{api.port}",
        "VOLVELLE_TOKEN": token,
        "SSL_CERT_FILE": str(server.folder / "ca.pem"),
    }


def test_jobs_are_submitted_run_and_read_over_tls(
    server: ServerProcess, dana: dict[str, str], tmp_path: Path
) -> None:
    ran = volvelle(tmp_path, "submit", "--wait", "echo", "secret", **dana)
    assert ran.returncode == 0, ran.stderr
    assert volvelle(tmp_path, "logs", ran.stdout.split()[1], **dana).stdout == "secret\n"
    assert "node-0  up" in server.volvelle("nodes")  # beside its folder, as 127.0.0.1


def test_users_with_a_wrong_certificate_or_without_tls_get_an_error(
    server: ServerProcess, dana: dict[str, str], tmp_path: Path
) -> None:
    other = dana | {"SSL_CERT_FILE": str(server.folder / "other.pem")}
    url = dana["VOLVELLE_SERVER"]
    error = volvelle(tmp_path, "queue", **other).stderr
    assert error.startswith(f"error: {url} has no trusted certificate: ")
    assert error.endswith("Set SSL_CERT_FILE to its certificate, or that of its authority.\n")
    plain = volvelle(tmp_path, "queue", **dana | {"VOLVELLE_SERVER": f"http{url[5:]}"})
    assert plain.returncode == 1
    assert plain.stderr.startswith(f"error: no answer from http{url[5:]}: ")
    assert plain.stderr.endswith("write https:// if it uses TLS.\n")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("--authority", "other.pem"), "its certificate is not trusted ("),
        ((), "it sends nothing. If it uses TLS, give --authority"),
    ],
    ids=["wrong authority", "plain"],
)
def test_agents_with_a_wrong_certificate_or_without_tls_log_an_error(
    server: ServerProcess, port: int, more: tuple[str, ...], why: str
) -> None:
    given = [str(server.folder / word) if word.endswith(".pem") else word for word in more]
    name = f"late-{len(more)}"
    server.start_agent(name, port, *given)
    log = server.folder / f"{name}.log"
    start = f"no connection to the controller at localhost:{port}: {why}"
    until(lambda: log.read_text().startswith(start))
    assert server.agents[name].poll() is None
    server.kill_agent(name)
    assert log.read_text().count("\n") == 1


def test_a_tls_client_of_a_plain_server_gets_an_error(tmp_path: Path) -> None:
    with server_process(
        tmp_path, 'cluster = "1x1"\nexecutor = "local:pretend=true"\nlisten.port = 0'
    ) as plain:
        url = plain.url.replace("http:", "https:")
        ran = volvelle(tmp_path, "queue", VOLVELLE_SERVER=url, VOLVELLE_TOKEN="any")
        assert ran.stderr == (
            f"error: {url} does not use TLS. Write http:// in place of https://.\n"
        )


def test_a_tls_agent_of_a_plain_server_logs_an_error(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    port = free_port()
    with server_process(
        tmp_path, f'cluster = "1x1"\nexecutor = "dial-in:port={port}"\nlisten.port = 0'
    ) as plain:
        plain.start_agent("node-0", port, "--authority", str(tmp_path / "ca.pem"))
        log = tmp_path / "node-0.log"
        until(lambda: "it does not use TLS. Leave --authority out" in log.read_text())
