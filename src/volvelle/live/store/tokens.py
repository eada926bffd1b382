"""The table of access tokens."""

import msgspec
from sqlalchemy import insert, select, update

from volvelle.live.store.database import Database
from volvelle.live.store.rows import Token
from volvelle.live.store.schema import tokens as table


class TokenTable:
    """The tokens in ``database``. Every method may raise `StoreFailed`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, token: Token) -> None:
        """Add a token."""
        with self._database.writing() as connection:
            connection.execute(insert(table), msgspec.to_builtins(token))

    def find(self, digest: str) -> Token | None:
        """The token with this digest; None if there is none, or it was revoked."""
        query = select(table).where(table.c.digest == digest, table.c.revoked.is_(False))
        with self._database.reading() as connection:
            row = connection.execute(query).mappings().first()
        return None if row is None else Token(**row)

    def of_role(self, role: str, user: str | None = None) -> list[Token]:
        """All tokens of ``role``, of ``user`` if one is given, revoked ones too."""
        query = select(table).where(table.c.role == role)
        if user is not None:
            query = query.where(table.c.user == user)
        with self._database.reading() as connection:
            return [Token(**row) for row in connection.execute(query).mappings()]

    def list_all(self) -> list[Token]:
        """All tokens, revoked ones too, the oldest first."""
        query = select(table).order_by(table.c.created, table.c.digest)
        with self._database.reading() as connection:
            return [Token(**row) for row in connection.execute(query).mappings()]

    def revoke(self, digest: str) -> bool:
        """Revoke a token; whether there was one."""
        statement = update(table).where(table.c.digest == digest).values(revoked=True)
        with self._database.writing() as connection:
            return bool(connection.execute(statement).rowcount)
