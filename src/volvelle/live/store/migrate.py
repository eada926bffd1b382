"""Bringing a store up to date, and refusing one that a newer Volvelle wrote."""

from sqlalchemy import Connection, Engine, inspect, text

from volvelle.live.store.schema import VERSION
from volvelle.model.problems import Problem


def bring_up_to_date(engine: Engine) -> None:
    """Run what migrations are missing, in one transaction. Raises `Problem` where it is too new."""
    with engine.begin() as connection:
        version = _version(connection)
        if version == VERSION:
            return
        if version is not None and int(version) > int(VERSION):
            raise Problem(
                f"the store is of version {version}, this Volvelle knows up to {VERSION}",
                mend="install a newer Volvelle",
            )
        _upgrade(connection)


def _version(connection: Connection) -> str | None:
    """The version of the store; None where it is empty."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    version: str | None = connection.scalar(text("select version_num from alembic_version"))
    return version


def _upgrade(connection: Connection) -> None:
    from alembic import command  # noqa: PLC0415 - slow, and rarely wanted
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", "volvelle.live.store:migrations")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
