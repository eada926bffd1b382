"""The keys of nodes, in the table of tokens: of role ``agent``, the node as user, the verifier as digest."""

import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress

from volvelle.live.role import Role
from volvelle.live.store.database import StoreFailed
from volvelle.live.store.rows import Token
from volvelle.live.store.tokens import TokenTable


class StoredKeys:
    """The `NodeKeys` in ``tokens``; what was read last holds while the store is down.

    join_token: see `NodeKeys`.
    """

    def __init__(self, tokens: TokenTable, join_token: str) -> None:
        self.join_token = join_token
        self._tokens = tokens
        self._read: dict[str, list[Token]] = {}
        self._joining = threading.Lock()

    def of(self, node: str) -> tuple[str, ...] | None:
        """The verifiers of its valid keys; None: it never had a key. Raises OSError if it was never read."""
        try:
            self._read[node] = self._tokens.of_role(Role.AGENT, node)
        except StoreFailed as failure:
            if node not in self._read:
                raise OSError(str(failure)) from failure
        found, now = self._read[node], time.time()
        return tuple(token.digest for token in found if token.valid(now)) if found else None

    def join(self, node: str, verifier: str) -> bool:
        """Give a node its first key; whether it has it now. Raises OSError if it cannot be stored."""
        with self._joining:
            try:
                if found := self._tokens.of_role(Role.AGENT, node):
                    now = time.time()
                    return any(each.digest == verifier and each.valid(now) for each in found)
                label = "joined with agents.token"
                self._tokens.add(
                    Token(verifier, node, Role.AGENT.value, label, created=time.time())
                )
            except StoreFailed as failure:
                raise OSError(str(failure)) from failure
        return True

    def invalid(self, used: Mapping[str, str]) -> list[str]:
        """The nodes whose key in ``used`` was revoked or has expired, as far as the store can be read."""
        with suppress(StoreFailed):
            read: defaultdict[str, list[Token]] = defaultdict(list)
            for token in self._tokens.of_role(Role.AGENT):
                read[token.user].append(token)
            self._read = read
        now = time.time()
        valid = {token.digest for each in self._read.values() for token in each if token.valid(now)}
        return [node for node, verifier in used.items() if verifier not in valid]
