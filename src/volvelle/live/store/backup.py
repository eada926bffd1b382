"""Backups of a store in SQLite, made while a server writes to it, and put back while none does."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from volvelle.client.durable_files import fsync
from volvelle.live.store.backends import Sqlite
from volvelle.live.store.database import backend_of
from volvelle.live.store.schema import VERSION
from volvelle.model.problems import Problem

RESTORED = "restored"
"""The writer's token in a store that was just restored from a backup."""

_PAGES_AT_A_TIME = 1024
"""The server writes in between."""


def back_up(url: str, target: Path) -> None:
    """Copy the store at ``url``, as it is at one moment, to the new file ``target``. Raises `Problem`."""
    source = _sqlite(url).path
    if not source.is_file():
        raise Problem(f"there is no store {source}", mend="say --folder with that of the server")
    if target.exists():
        raise Problem(f"{target} exists", mend="name another file")
    copy_database(source, target)


def restore(backup: Path, url: str) -> Path | None:
    """Put ``backup`` in the place of the store at ``url``, and mark it as restored.

    The store of before is kept beside it, at the path that is returned; None if there was none. Raises
    `Problem` if a server writes to the store, or if ``backup`` is none.
    """
    _check(backup)
    backend = _sqlite(url)
    if not backend.lock():
        raise Problem(f"a volvelle serve is writing to {backend.path}", mend="stop it first")
    try:
        restored = backend.path.with_name(f"{backend.path.name}.restored")
        restored.unlink(missing_ok=True)
        copy_database(backup, restored)
        with closing(sqlite3.connect(restored)) as connection, connection:
            connection.execute("delete from writer")
            connection.execute("insert into writer values (0, ?)", (RESTORED,))
        aside = _put_aside(backend.path)
        restored.replace(backend.path)
        fsync(backend.path.parent)
        return aside
    finally:
        backend.unlock()


def _sqlite(url: str) -> Sqlite:
    backend = backend_of(url)
    if not isinstance(backend, Sqlite):
        raise Problem(
            f"a store on {backend.name} is not backed up by volvelle", mend="use pg_dump and psql"
        )
    return backend


def _check(backup: Path) -> None:
    """Raise `Problem` if ``backup`` is no store, damaged, or of a newer Volvelle."""
    if not backup.is_file():
        raise Problem(
            f"there is no file {backup}", mend="name one that volvelle backup has written"
        )
    try:
        with closing(sqlite3.connect(f"file:{backup.absolute()}?mode=ro", uri=True)) as connection:
            (found,) = connection.execute("pragma quick_check(1)").fetchone()
            (version,) = connection.execute("select version_num from alembic_version").fetchone()
    except (sqlite3.Error, TypeError) as error:
        raise Problem(
            f"{backup} is no backup of a store: {error}",
            mend="name one that volvelle backup has written",
        ) from None
    if found != "ok":
        raise Problem(f"{backup} is damaged: {found}", mend="take another backup")
    if int(version) > int(VERSION):
        raise Problem(
            f"{backup} is of version {version}, this Volvelle knows up to {VERSION}",
            mend="install a newer Volvelle",
        )


def copy_database(source: Path, target: Path) -> None:
    """Copy a database by SQLite's online backup, durably; ``target`` appears once it is complete."""
    partial = target.with_name(f"{target.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with closing(sqlite3.connect(source)) as store, closing(sqlite3.connect(partial)) as copy:
            store.backup(copy, pages=_PAGES_AT_A_TIME)
            copy.execute("pragma journal_mode=delete")  # one file
        fsync(partial)
        partial.replace(target)
        fsync(target.parent)
    except (OSError, sqlite3.Error) as error:
        partial.unlink(missing_ok=True)
        raise Problem(
            f"cannot copy {source} to {target}: {error}", mend="check the disk and the permissions"
        ) from None


def _put_aside(store: Path) -> Path | None:
    """Rename a store, with the log that belongs to it; its new path."""
    if not store.exists():
        return None
    count = 1
    while (aside := store.with_name(f"{store.name}.before-restore-{count}")).exists():
        count += 1
    for suffix in ("-wal", "-shm"):
        log = store.with_name(store.name + suffix)
        if log.exists():
            log.replace(aside.with_name(aside.name + suffix))
    store.replace(aside)
    return aside
