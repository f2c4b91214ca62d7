"""Alembic runs here. One migrator at a time: the others wait for the advisory lock, then find nothing to do."""

from alembic import context
from sqlalchemy import create_engine, pool, text

_LOCK = 0x70656E73746F636B  # "penstock"

url = context.config.attributes["url"]
engine = create_engine(url, poolclass=pool.NullPool)
with engine.connect() as connection:
    connection.execute(text("select pg_advisory_lock(:lock)"), {"lock": _LOCK})
    connection.commit()
    try:
        context.configure(connection=connection, transaction_per_migration=True)
        with context.begin_transaction():
            context.run_migrations()
    finally:
        connection.rollback()
        connection.execute(text("select pg_advisory_unlock(:lock)"), {"lock": _LOCK})
        connection.commit()
engine.dispose()
