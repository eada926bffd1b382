"""Which keys open for which node: an agent speaks only for the node whose key it has."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from volvelle.live.agent import wire
from volvelle.live.agent.node_key import derived_key, joining_verifier, key_is_proven, verifier_of


class NodeKeys(Protocol):
    """The keys of all nodes, as verifiers (see `volvelle.live.agent.node_key`). Methods may wait for a store.

    join_token: with which a node that never had a key is given that of its agent; empty: none is given one.
    """

    join_token: str

    def of(self, node: str) -> tuple[str, ...] | None:
        """The verifiers of its valid keys; None: it never had a key. Raises OSError."""
        ...

    def join(self, node: str, verifier: str) -> bool:
        """Give a node its first key; whether it has it now. Raises OSError.

        An agent whose first try was too slow to be answered asks again, with the same key.
        """
        ...

    def invalid(self, used: Mapping[str, str]) -> list[str]:
        """The nodes whose key in ``used`` (verifiers by node) is not valid any more."""
        ...


class GivenKeys:
    """Keys that the server gives to the agents that it starts: each is made of ``secret`` and the name."""

    join_token = ""

    def __init__(self, secret: str) -> None:
        self._secret = secret

    def key(self, node: str) -> str:
        """The key of a node."""
        return derived_key(self._secret, node)

    def of(self, node: str) -> tuple[str, ...]:
        """The verifier of its key."""
        return (verifier_of(self.key(node)),)

    def join(self, node: str, verifier: str) -> bool:
        """Every node has its key already."""
        return False

    def invalid(self, used: Mapping[str, str]) -> list[str]:
        """They stay valid."""
        return []


@dataclass(frozen=True)
class CheckedKey:
    """The verifier of the key that an agent has proven; empty: it is refused, with the reason ``refusal``.

    joins: its node has no key yet, and gets this one.
    """

    verifier: str = ""
    joins: bool = False
    refusal: str = ""


def check_key(keys: NodeKeys, hello: wire.Hello, *transcript: str) -> CheckedKey:
    """Whether an agent has proven a key of its node, or may join with it. Raises OSError."""
    if hello.version != wire.VERSION:
        return CheckedKey(
            refusal=f"the agent has version {hello.version}, the controller {wire.VERSION}"
        )
    known = keys.of(hello.node.name)
    if known is not None:
        found = (each for each in known if key_is_proven(hello.proof, each, *transcript))
        verifier = next(found, "")
        return CheckedKey(verifier, refusal="" if verifier else another_key(hello.node.name))
    joining = (
        joining_verifier(hello.join, keys.join_token, *transcript) if keys.join_token else None
    )
    if joining is None or not key_is_proven(hello.proof, joining, *transcript):
        return CheckedKey(refusal="its token is not that of this cluster")
    return CheckedKey(joining, joins=True)


def another_key(node: str) -> str:
    """The refusal of an agent with another key, and the way to a right one."""
    return (
        f"its key is not, or no longer, that of node {node!r}: another agent joined as this node, or the key "
        "is another node's (a token only lets a node join that has no key yet: it was not looked at); "
        "say another --node, or the --work folder or --key-file with which it joined. Where that is lost "
        f"or revoked, an operator makes one: volvelle token create --role agent --user {node}"
    )
