"""Upgrades a store to the current schema, and refuses one that a newer Volvelle wrote."""

from sqlalchemy import Connection, Engine, inspect, text

from volvelle.live.store.schema import VERSION
from volvelle.model.problems import Problem


def upgrade_store(engine: Engine) -> None:
    """Run the missing migrations in one transaction. Raises `Problem` if the store is too new."""
    with engine.begin() as connection:
        version = _version(connection)
        if version == VERSION:
            return
        if version is not None and not 0 < _number(version) < int(VERSION):
            raise Problem(
                f"the store is of version {version or 'nothing'}, this Volvelle knows 1 to {VERSION}",
                mend="start the Volvelle that wrote it, or a newer one",
            )
        _run_migrations(connection)


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
