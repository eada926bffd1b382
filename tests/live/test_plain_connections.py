"""On a network there is TLS, or the configuration says that there is none."""

from pathlib import Path

import pytest

from volvelle.live.config import ServeConfig
from volvelle.live.nodes.executor import ExecutorContext
from volvelle.live.nodes.executors.dial_in import DialIn
from volvelle.live.plain_connections import stays_on_machine
from volvelle.model.cluster import parse_cluster
from volvelle.model.problems import Problem


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "::1", "[::1]"])
def test_loopback_stays_on_the_machine(host: str) -> None:
    assert stays_on_machine(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "head.example", ""])
def test_all_else_does_not(host: str) -> None:
    assert not stays_on_machine(host)


def test_the_api_listens_on_a_network_with_tls_or_if_it_is_said_to_be_insecure() -> None:
    with pytest.raises(Problem, match="could read tokens, as there is no TLS: give certificate"):
        ServeConfig.load(None, {"listen.address": "0.0.0.0"})
    ServeConfig.load(None, {"listen.address": "0.0.0.0", "listen.insecure": True})
    pair = {"listen.certificate": "head.pem", "listen.key": "head.key"}
    ServeConfig.load(None, {"listen.address": "0.0.0.0", **pair})


def test_agents_are_listened_for_on_a_network_with_tls_or_if_it_is_said_to_be_insecure(
    tmp_path: Path,
) -> None:
    context = ExecutorContext(parse_cluster("1x1"), tmp_path, "token")
    with pytest.raises(Problem, match=r"on the way to 0\.0\.0\.0 could run code on nodes"):
        DialIn(host="0.0.0.0", port=0).open(context, lambda _: None)
    DialIn(host="0.0.0.0", port=0, insecure=True).open(context, lambda _: None).close()
