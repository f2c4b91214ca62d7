"""ETL: documents by upload are counted against a quota. The statements: 0014_etl_content.sql."""

from pathlib import Path

from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    statements = Path(__file__).with_suffix(".sql").read_text()
    op.get_bind().connection.driver_connection.execute(statements)  # as written: no placeholders
