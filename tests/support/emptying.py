"""The tests' database as it was after its migrations."""

import psycopg


def empty(url: str) -> None:
    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "select format('%I.%I', schemaname, tablename) from pg_tables"
            " where schemaname in ('public', 'catalog') and tablename not in"
            " ('alembic_version', 'outbox_slots', 'threshold_profiles')"
        ).fetchall()
        connection.execute("truncate " + ", ".join(name for (name,) in tables) + " restart identity cascade")
        connection.execute("delete from threshold_profiles where created_by is distinct from 'penstock'")
        connection.execute("update threshold_profiles set is_active = true")
