"""Sessions that were signed out. See 0010_ended_sessions.sql."""

from pathlib import Path

from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    statements = Path(__file__).with_suffix(".sql").read_text()
    op.get_bind().connection.driver_connection.execute(statements)  # as written: no placeholders
