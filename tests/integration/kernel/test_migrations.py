"""The migrations and the readable schema agree, from empty, however many migrate at once."""

import subprocess
import sys
from uuid import UUID

import psycopg
import pytest

from penstock.embedded import EmbeddedPostgres
from penstock.kernel.identity import Caller, Role
from penstock.kernel.migrations import SchemaTooNew, current_revision, directory, migrate, newest_revision
from penstock.uploads.direct.opening import user_uuid

_SHAPE = """
select 'column', table_schema, table_name, column_name || ' ' || data_type || ' ' || is_nullable || ' '
       || coalesce(column_default, '') || ' ' || is_identity
  from information_schema.columns where table_schema in ('public', 'catalog')
union all
select 'index', schemaname, tablename, indexdef from pg_indexes where schemaname in ('public', 'catalog')
union all
select 'constraint', n.nspname, c.conrelid::regclass::text, c.conname || ' ' || pg_get_constraintdef(c.oid)
  from pg_constraint c join pg_namespace n on n.oid = c.connamespace where n.nspname in ('public', 'catalog')
union all
select 'function', n.nspname, p.proname, pg_get_functiondef(p.oid)
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname in ('public', 'catalog')
union all
select 'trigger', event_object_schema, event_object_table, trigger_name || ' ' || action_statement
  from information_schema.triggers
order by 1, 2, 3, 4
"""


@pytest.fixture
def fresh(postgres: EmbeddedPostgres, request: pytest.FixtureRequest):
    """Empty databases, by name."""
    made: list[str] = []

    def make(name: str) -> str:
        with psycopg.connect(postgres.url, autocommit=True) as connection:
            connection.execute(f'create database "{name}"')
        made.append(name)
        return postgres.url.replace("/postgres?", f"/{name}?")

    yield make
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        for name in made:
            connection.execute(f'drop database "{name}" with (force)')


def shape(url: str) -> list[tuple[str, ...]]:
    with psycopg.connect(url) as connection:
        return [row for row in connection.execute(_SHAPE).fetchall() if row[2] != "alembic_version"]


class TestMigrating:
    def test_the_readable_schema_and_the_migrations_give_the_same_database(self, fresh):
        migrated, written = fresh("migrated"), fresh("written")
        migrate(migrated)
        with psycopg.connect(written) as connection:
            connection.execute((directory() / "schema.sql").read_text())
        assert shape(migrated) == shape(written)
        assert len(shape(migrated)) > 50

    def test_migrating_again_changes_nothing(self, fresh):
        url = fresh("again")
        migrate(url)
        before = shape(url)
        assert migrate(url) == current_revision(url) == newest_revision()
        assert shape(url) == before

    def test_several_instances_may_migrate_at_once(self, fresh):
        url = fresh("together")
        code = "import sys; from penstock.kernel.migrations import migrate; migrate(sys.argv[1])"
        racing = [subprocess.Popen([sys.executable, "-c", code, url]) for _ in range(4)]
        assert [process.wait(60) for process in racing] == [0, 0, 0, 0]
        assert current_revision(url) == newest_revision()

    def test_an_empty_database_has_no_revision(self, fresh):
        assert current_revision(fresh("empty")) is None

    def test_a_database_of_a_newer_release_is_refused(self, fresh):
        url = fresh("newer")
        migrate(url)
        with psycopg.connect(url) as connection:
            connection.execute("update alembic_version set version_num = '9999'")
        with pytest.raises(SchemaTooNew) as refused:
            migrate(url)
        assert (refused.value.found, refused.value.newest) == ("9999", newest_revision())


class TestUsersOfDirectUploads:
    """Revision 0016: a user whose `sub` is a UUID had it as id, whatever the merchant."""

    SUB = "5a0c7f6e-1111-4222-8333-444455556666"

    def test_uploads_and_videos_of_before_are_found_by_their_own_merchant(self, fresh):
        url = fresh("users")
        migrate(url)
        phone, named = (Caller(sub, "m-1", Role.UPLOADER) for sub in (self.SUB, "ming"))
        disguised = Caller(str(user_uuid(phone)), "m-2", Role.UPLOADER)  # in the way of the first
        before = [(phone, UUID(self.SUB)), (named, user_uuid(named)), (disguised, user_uuid(phone))]
        with psycopg.connect(url) as connection:
            for caller, user_id in before:
                connection.execute(
                    "insert into catalog.uploads (user_id, bucket, object_name, original_filename, content_type,"
                    " content_md5, merchant_id, user_name, policy)"
                    " values (%s, 'b', %s, 'a.mp4', 'video/mp4', %s, %s, %s, 'video')",
                    (user_id, f"videos/{user_id}", "0" * 32, caller.merchant_id, caller.user_id),
                )
                video = "insert into catalog.videos (user_id, merchant_id) values (%s, %s)"
                connection.execute(video, (user_id, caller.merchant_id))
            connection.execute("insert into catalog.videos (user_id, merchant_id) values (%s, 'm-3')", (self.SUB,))
            connection.execute("update alembic_version set version_num = '0015'")
        migrate(url)
        uploads = {(user_uuid(caller), f"videos/{user_id}") for caller, user_id in before}
        videos = {user_uuid(caller) for caller, _ in before} | {user_uuid(Caller(self.SUB, "m-3", Role.UPLOADER))}
        with psycopg.connect(url) as connection:
            assert set(connection.execute("select user_id, object_name from catalog.uploads")) == uploads
            assert {user_id for (user_id,) in connection.execute("select user_id from catalog.videos")} == videos
