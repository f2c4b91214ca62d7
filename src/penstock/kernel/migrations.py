"""Bringing a database up to date: forward only, safe to run by several instances at once."""

from pathlib import Path

import psycopg
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

import penstock


class SchemaTooNew(Exception):
    """The database is at a revision that this code does not know: a newer release made it."""

    def __init__(self, found: str, newest: str) -> None:
        super().__init__(f"the database is at revision {found}, and the newest known here is {newest}")
        self.found = found
        self.newest = newest


def migrate(url: str) -> str:
    """Apply what is missing; returns the revision the database is now at."""
    config = _config()
    found = current_revision(url)
    if found is not None and found not in known_revisions():
        raise SchemaTooNew(found, newest_revision())
    config.attributes["url"] = "postgresql+psycopg" + url.removeprefix("postgresql").removeprefix("postgres")
    command.upgrade(config, "head")
    return newest_revision()


def newest_revision() -> str:
    head = ScriptDirectory.from_config(_config()).get_current_head()
    if head is None:
        raise FileNotFoundError(f"no migrations in {directory()}")
    return head


def known_revisions() -> set[str]:
    return {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}


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


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(directory() / "migrations"))
    return config
