"""The table of notifications that wait to be delivered: an outbox, written with what they tell of."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from volvelle.live.store.database import Database
from volvelle.live.store.rows import Notification
from volvelle.live.store.schema import notifications as table

_INSERT = insert(table)
_COLUMNS = [table.c[name] for name in Notification.__dataclass_fields__]


class Outbox:
    """The notifications in ``database``. Every method may raise `StoreFailed`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list_waiting(self) -> list[Notification]:
        """Notifications that are neither delivered nor given up, the earliest first."""
        query = select(*_COLUMNS).where(table.c.settled.is_(None)).order_by(table.c.place)
        with self._database.reading() as connection:
            return [Notification(**row) for row in connection.execute(query).mappings()]

    def ids_of(self, event: str) -> set[str]:
        """Ids of the kept notifications of an event, settled ones too."""
        query = select(table.c.id).where(table.c.event == event)
        with self._database.reading() as connection:
            return set(connection.scalars(query))

    def add(self, notifications: Sequence[Notification]) -> None:
        """Add notifications that belong to no journal entry."""
        with self._database.writing() as connection:
            self.write(connection, notifications)

    @staticmethod
    def write(connection: Connection, notifications: Sequence[Notification]) -> None:
        """Add notifications, in a transaction that is open."""
        if notifications:
            connection.execute(_INSERT, [asdict(each) for each in notifications])

    def settle(self, ids: Iterable[str], time: float, kept_event: str) -> None:
        """Mark as delivered or given up. Notifications of ``kept_event`` stay, for `ids_of`; others go."""
        settled = [{"which": each} for each in ids]
        this = table.c.id == bindparam("which")
        with self._database.writing() as connection:
            connection.execute(delete(table).where(this, table.c.event != kept_event), settled)
            connection.execute(
                update(table).where(this, table.c.event == kept_event).values(settled=time), settled
            )

    def forget(self, before: float) -> None:
        """Remove those that were settled before a time."""
        with self._database.writing() as connection:
            connection.execute(delete(table).where(table.c.settled < before))
