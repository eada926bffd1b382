"""The table of snapshots of the controller state."""

import hashlib
from collections.abc import Callable

from sqlalchemy import Connection, delete, insert, select

from volvelle.live.store import schema
from volvelle.live.store.database import Database
from volvelle.live.store.rows import StoredSnapshot
from volvelle.model.problems import Problem

_KEPT = 2
"""Snapshots that are kept: the latest, and one before it where that is damaged."""

_TABLE = schema.snapshots


class SnapshotTable:
    """Snapshots by the entries after which they were taken.

    check_writer: raises `Superseded` as `Store.append`. entry_digest: of an entry; raises `Problem` if it is
    missing.
    """

    def __init__(
        self,
        database: Database,
        check_writer: Callable[[Connection], None],
        entry_digest: Callable[[int], str],
    ) -> None:
        self._database = database
        self._check_writer, self._entry_digest = check_writer, entry_digest

    def write(self, snapshot: StoredSnapshot) -> None:
        """Store a snapshot, and forget all but the one before. Raises `Superseded`."""
        entry = self._entry_digest(snapshot.seq)
        with self._database.writing() as connection:
            self._check_writer(connection)
            kept = select(_TABLE.c.seq).order_by(_TABLE.c.seq.desc()).limit(_KEPT - 1)
            seqs = connection.scalars(kept.where(_TABLE.c.seq < snapshot.seq)).all()
            connection.execute(delete(_TABLE).where(_TABLE.c.seq.not_in(seqs)))
            row = {
                "seq": snapshot.seq,
                "format": snapshot.format,
                "entry": entry,
                "digest": hashlib.sha256(snapshot.body).hexdigest(),
                "body": snapshot.body,
            }
            connection.execute(insert(_TABLE).values(row))

    def seqs(self) -> list[int]:
        """After which entries there are snapshots, the latest first."""
        with self._database.reading() as connection:
            return list(connection.scalars(select(_TABLE.c.seq).order_by(_TABLE.c.seq.desc())))

    def read(self, seq: int) -> StoredSnapshot:
        """The snapshot after entry ``seq``. Raises `Problem` if it is not what was written."""
        with self._database.reading() as connection:
            found = connection.execute(select(_TABLE).where(_TABLE.c.seq == seq))
            row = found.mappings().one()
        if hashlib.sha256(row["body"]).hexdigest() != row["digest"]:
            raise Problem("it is not what was written")
        if self._entry_digest(seq) != row["entry"]:
            raise Problem("the journal is another than it was taken of")
        return StoredSnapshot(seq, row["format"], row["body"])
