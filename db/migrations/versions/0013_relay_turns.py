"""Relay: merchants in turn, and a limit on what waits for a paused endpoint. The statements: 0013_relay_turns.sql."""

from pathlib import Path

from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    statements = Path(__file__).with_suffix(".sql").read_text()
    op.get_bind().connection.driver_connection.execute(statements)  # as written: no placeholders
