"""Harvest: which sources may lead into our own network. The statements: 0012_harvest_reach.sql."""

from pathlib import Path

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    statements = Path(__file__).with_suffix(".sql").read_text()
    op.get_bind().connection.driver_connection.execute(statements)  # as written: no placeholders
