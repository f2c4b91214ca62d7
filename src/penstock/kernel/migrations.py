"""Bringing a database up to date: forward only, safe to run by several instances at once.

A migration's file starts with its revision (`0002_gateway.py`), so a server knows the newest one without Alembic,
which takes as much memory as the server itself; only `migrate` loads it.
"""

from pathlib import Path

import psycopg

import penstock


class SchemaTooNew(Exception):
    """The database is at a revision that this code does not know: a newer release made it."""

    def __init__(self, found: str, newest: str) -> None:
        super().__init__(f"the database is at revision {found}, and the newest known here is {newest}")
        self.found = found
        self.newest = newest


def migrate(url: str) -> str:
    """Apply what is missing; returns the revision the database is now at."""
    from alembic import command
    from alembic.config import Config

    found = current_revision(url)
    if found is not None and found not in known_revisions():
        raise SchemaTooNew(found, newest_revision())
    config = Config()
    config.set_main_option("script_location", str(directory() / "migrations"))
    config.attributes["url"] = "postgresql+psycopg" + url.removeprefix("postgresql").removeprefix("postgres")
    command.upgrade(config, "head")
    return newest_revision()


def newest_revision() -> str:
    return max(known_revisions())


def known_revisions() -> set[str]:
    found = {file.name.partition("_")[0] for file in (directory() / "migrations" / "versions").glob("[0-9]*_*.py")}
    if not found:
        raise FileNotFoundError(f"no migrations in {directory()}")
    return found


def current_revision(url: str) -> str | None:
    """What the database says of itself; None before the first migration."""
    with psycopg.connect(url, connect_timeout=3) as connection:
        if connection.execute("select to_regclass('alembic_version')").fetchone() == (None,):
            return None
        row = connection.execute("select version_num from alembic_version").fetchone()
        return str(row[0]) if row else None


def directory() -> Path:
    """`db/` of the checkout, or its copy inside an installed wheel."""
    package = Path(penstock.__file__).parent
    packed = package / "_db"
    return packed if packed.exists() else package.parents[1] / "db"
