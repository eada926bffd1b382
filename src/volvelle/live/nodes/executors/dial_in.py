"""Nodes that come by themselves: agents that somebody starts there with ``volvelle agent``."""

import resource
import ssl
from collections.abc import Callable
from typing import ClassVar

from pydantic import Field

from volvelle.live.messages import Report
from volvelle.live.nodes.agents_server import AgentsServer
from volvelle.live.nodes.current_agents import Speakers
from volvelle.live.nodes.executor import Executor, OpenExecutor, Site, executors
from volvelle.model.problems import Problem

_DESCRIPTORS_BESIDE_AGENTS = 256


@executors.register
class DialIn(Executor):
    """Machines whose agents, started there with `volvelle agent`, dial in."""

    name: ClassVar[str] = "dial-in"

    host: str = Field("127.0.0.1", description="address to listen at; 0.0.0.0: all")
    port: int = Field(7475, ge=0, le=65_535, description="port to listen at")
    lease_seconds: float = Field(
        600.0, gt=0, description="how long jobs of a node run on that hears no controller"
    )
    certificate: str = Field("", description="PEM file for TLS, with its chain")
    key: str = Field("", description="PEM file of the certificate's key")

    def open(self, site: Site, report: Callable[[Report], None]) -> OpenExecutor:
        """Listen. Raises `Problem`."""
        _allow_descriptors(len(site.cluster.nodes) + len(site.leaving) + _DESCRIPTORS_BESIDE_AGENTS)
        return AgentsServer(
            site.cluster.nodes,
            site.token,
            report,
            leaving=site.leaving,
            host=self.host,
            port=self.port,
            lease_seconds=self.lease_seconds,
            speakers=Speakers(site.folder / "speakers"),
            security=self._security(),
        )

    def _security(self) -> ssl.SSLContext | None:
        if not self.certificate:
            return None
        security = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            security.load_cert_chain(self.certificate, self.key or None)
        except (OSError, ssl.SSLError) as error:
            raise Problem(
                f"executor 'dial-in': cannot use certificate {self.certificate}: {error}",
                mend="name PEM files of a certificate and of its key",
            ) from None
        return security


def _allow_descriptors(wanted: int) -> None:
    """Have room for a connection to each agent. Raises `Problem` where the system does not give it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise Problem(
            f"{wanted} open files are needed for so many agents, the system allows {hard}",
            mend="raise the limit (ulimit -n)",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
