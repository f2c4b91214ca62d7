"""ETL: places in the queue. The statements: 0007_etl_queue.sql."""

from pathlib import Path

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    statements = Path(__file__).with_suffix(".sql").read_text()
    op.get_bind().connection.driver_connection.execute(statements)  # as written: no placeholders
