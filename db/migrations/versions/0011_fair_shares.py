"""Fair shares: deliveries and ETL tasks are claimed by merchant. The statements: 0011_fair_shares.sql."""

from pathlib import Path

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    statements = Path(__file__).with_suffix(".sql").read_text()
    op.get_bind().connection.driver_connection.execute(statements)  # as written: no placeholders
