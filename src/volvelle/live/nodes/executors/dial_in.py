"""Machines whose agents are started by ``volvelle agent`` and dial in."""

import resource
import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from volvelle.live.messages import Report
from volvelle.live.nodes.agents_server import AgentsServer
from volvelle.live.nodes.current_agents import CurrentAgents
from volvelle.live.nodes.executor import Executor, ExecutorContext, OpenExecutor, executors
from volvelle.live.nodes.served_tls import ServedTls
from volvelle.live.plain_connections import stays_on_machine
from volvelle.model.cluster import Cluster
from volvelle.model.problems import Problem

_DESCRIPTORS_BESIDE_AGENTS = 256


@executors.register
class DialIn(Executor):
    """Machines whose agents, started by `volvelle agent`, dial in."""

    name: ClassVar[str] = "dial-in"
    joining: ClassVar[str] = "start `volvelle agent` on each"

    host: str = Field("127.0.0.1", description="address to listen at; 0.0.0.0: all")
    port: int = Field(7475, ge=0, le=65_535, description="port to listen at")
    lease_seconds: float = Field(
        600.0, gt=0, description="how long jobs of a node run on without contact to the controller"
    )
    certificate: str = Field("", description="PEM file for TLS, with its chain")
    key: str = Field("", description="PEM file of the certificate's key")
    insecure: bool = Field(
        False,
        description="listen on a network without TLS: who is on the way can run code on nodes",
    )

    def joining_command(self, cluster: Cluster, token: Path) -> str:
        """``volvelle agent`` as the first node runs it."""
        host = "HOST" if self.host in ("0.0.0.0", "::") else self.host
        words = ["volvelle", "agent", "--connect", f"{host}:{self.port}"]
        words += ["--node", cluster.nodes[0].name, "--token-file", str(token)]
        if self.certificate:
            words += ["--authority", self.certificate]
        return shlex.join(words + ["--insecure"] * (self.insecure and not self.certificate))

    def open(self, context: ExecutorContext, report: Callable[[Report], None]) -> OpenExecutor:
        """Listen. Raises `Problem`."""
        nodes, leaving = context.cluster.nodes, context.leaving
        agents = len(nodes) + len(leaving)
        raise_descriptor_limit(agents)
        return AgentsServer(
            nodes,
            context.joined or context.given_keys,
            report,
            leaving=leaving,
            host=self.host,
            port=self.port,
            lease_seconds=self.lease_seconds,
            current_agents=CurrentAgents(context.folder / "current-agents"),
            tls=self.served_tls(),
            position=context.position,
            placed=context.placed,
            is_down=context.is_down,
            uploads=context.uploads,
            tell=partial(print, file=sys.stderr, flush=True),
        )

    def served_tls(self) -> ServedTls | None:
        """TLS for the agents; None where what they say stays on this machine. Raises `Problem`."""
        if not self.certificate:
            if self.insecure or stays_on_machine(self.host):
                return None
            raise Problem(
                f"executor {self.name!r}: whoever is on the way to {self.host} could run code on nodes, "
                "as there is no TLS",
                mend="give certificate and key, or say insecure=true",
            )
        try:
            return ServedTls.read(self.certificate, self.key)
        except (OSError, ValueError) as error:  # among them those of ssl
            raise Problem(
                f"executor {self.name!r}: cannot use certificate {self.certificate}: {error}",
                mend="name PEM files of a certificate and of its key",
            ) from None


def raise_descriptor_limit(agents: int) -> None:
    """Allow connections to so many agents. Raises `Problem` if the system does not."""
    wanted = 2 * agents + _DESCRIPTORS_BESIDE_AGENTS  # two where one reconnects
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise Problem(
            f"{wanted} open files are needed for so many agents, the system allows {hard}",
            mend="raise the limit (ulimit -n)",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
