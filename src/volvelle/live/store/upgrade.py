"""Upgrades a store to the current schema, and refuses one that a newer Volvelle wrote."""

from sqlalchemy import Connection, Engine, inspect, text

from volvelle.live.store.backends import Backend, Sqlite
from volvelle.live.store.backup import copy_database
from volvelle.live.store.schema import VERSION, metadata
from volvelle.model.problems import Problem

_OLDEST = 6
"""The oldest version that is upgraded."""


def upgrade_store(backend: Backend, engine: Engine) -> None:
    """Run the missing migrations in one transaction; a store in SQLite is copied before.

    The copy stands beside the store, with its version in its name. A store whose upgrade fails stays as it
    was. Raises `Problem` if the store is too new or in use, or if its upgrade fails.
    """
    with engine.connect() as connection:
        version = _version(connection)
    if version == VERSION:
        return
    if version is not None and not _OLDEST <= _number(version) < int(VERSION):
        raise Problem(
            f"the store is of version {version or 'nothing'}, this Volvelle knows {_OLDEST} to {VERSION}",
            mend="start the Volvelle that wrote it, or a newer one",
        )
    if not backend.lock():
        raise Problem(
            f"the store is of version {version or 'nothing'}, and another volvelle serve writes to it",
            mend="stop it first: this Volvelle upgrades the store",
        )
    try:
        if version is not None and isinstance(backend, Sqlite):
            copy = backend.path.with_name(f"{backend.path.name}.version-{version}")
            copy_database(backend.path, copy)
        with engine.execution_options(writing=True).begin() as connection:
            _run_migrations(connection)
            _check_columns(connection)
    finally:
        backend.unlock()


def _version(connection: Connection) -> str | None:
    """The version of the store; None if it is empty."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return str(connection.scalar(text("select version_num from alembic_version")) or "")


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else 0


def _run_migrations(connection: Connection) -> None:
    from alembic import command  # noqa: PLC0415 - slow, and rarely needed
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", "volvelle.live.store:migrations")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _check_columns(connection: Connection) -> None:
    """Raise `Problem` if a column of the schema is missing."""
    found = inspect(connection)
    for table in metadata.sorted_tables:
        columns = {column["name"] for column in found.get_columns(table.name)}
        if missing := [column.name for column in table.columns if column.name not in columns]:
            raise Problem(
                f"the store cannot be upgraded: its table {table.name} has no {missing[0]}",
                mend="start the Volvelle that wrote it; the store is as it was",
            )
