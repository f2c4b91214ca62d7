"""The tests' database as it was after its migrations. Only what was written to is emptied: most tests touch little."""

import psycopg

# A table that holds nothing, not even rows that were taken back, has no page.
_WRITTEN = """
select format('%I.%I', n.nspname, c.relname) from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname in ('public', 'catalog') and c.relkind = 'r' and pg_relation_size(c.oid) > 0
  and c.relname not in ('alembic_version', 'outbox_slots', 'threshold_profiles')
"""
# An insert that was refused has taken its number all the same.
_RESTART = """
select setval(s.oid::regclass, q.seqstart, false)
from pg_sequence q join pg_class s on s.oid = q.seqrelid join pg_namespace n on n.oid = s.relnamespace
join pg_depend d on d.objid = s.oid and d.classid = 'pg_class'::regclass and d.deptype in ('a', 'i')
join pg_class t on t.oid = d.refobjid and d.refclassid = 'pg_class'::regclass
where n.nspname in ('public', 'catalog') and pg_sequence_last_value(q.seqrelid) is not null
  and t.relname not in ('alembic_version', 'outbox_slots', 'threshold_profiles')
"""


def empty(url: str) -> None:
    with psycopg.connect(url) as connection:
        if written := [name for (name,) in connection.execute(_WRITTEN)]:
            connection.execute(f"truncate {', '.join(written)} restart identity cascade")
        connection.execute(_RESTART)
        connection.execute("delete from threshold_profiles where created_by is distinct from 'penstock'")
        connection.execute("update threshold_profiles set is_active = true where not is_active")
