"""Connections without TLS: between processes of one machine, and elsewhere only where that is asked for."""

from ipaddress import ip_address


def stays_on_machine(host: str) -> bool:
    """Whether what is sent to ``host``, an address or a name, never leaves this machine."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
