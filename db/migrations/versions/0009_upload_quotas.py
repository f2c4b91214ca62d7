"""Quotas of uploads: what a merchant's uploads hold of the disk, reserved as they begin. See 0009_upload_quotas.sql."""

from pathlib import Path

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    statements = Path(__file__).with_suffix(".sql").read_text()
    op.get_bind().connection.driver_connection.execute(statements)  # as written: no placeholders
