"""Old rows move to the object store; nothing is lost or doubled, whenever the archiver dies."""

import asyncio
import gzip
import json
import os
import signal
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock.kernel import error_codes
from penstock.kernel.db import Database, fetch_all
from penstock.kernel.errors import PenstockError
from penstock.kernel.objectstore import ObjectStore
from penstock.kernel.objectstores import open_store
from penstock.kernel.retention import (
    OUTBOX_EVENTS,
    STATE_TRANSITIONS,
    Archived,
    Archiver,
    RetentionSettings,
    history,
)

NOW = datetime(2026, 6, 1, tzinfo=UTC)
CUTOFF = NOW - timedelta(days=90)


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(f"file://{tmp_path}/store")


def settings(**given: int) -> RetentionSettings:
    return RetentionSettings(**given)


async def write_transitions(database: Database, *, old: int, new: int) -> None:
    """Three jobs' changes of state, `old` of them due."""
    async with database.transaction() as tx:
        await tx.execute(
            'insert into state_transitions (entity_type, entity_id, from_status, to_status, trigger, "timestamp")'
            " select 'job', 'j' || n %% 3, 'S' || n, 'S' || n + 1, '中文 \"quoted\" ' || n,"
            " case when n <= %(old)s then %(past)s else %(now)s end"
            " from generate_series(1, %(all)s) n",
            {"old": old, "all": old + new, "past": NOW - timedelta(days=100), "now": NOW},
        )


async def online(database: Database, table: str = "state_transitions") -> int:
    async with database.transaction() as tx:
        [row] = await fetch_all(tx, f"select count(*) as n from {table}")
    return int(row["n"])


async def ids_of_all(database: Database, store: ObjectStore) -> list[int]:
    found = [await history(database, store, "job", f"j{n}") for n in range(3)]
    return sorted(row["id"] for rows in found for row in rows)


class TestArchiving:
    async def test_old_rows_move_and_new_rows_stay(self, database, store):
        await write_transitions(database, old=25, new=5)
        archiver = Archiver(database, store, STATE_TRANSITIONS, settings(batch_rows=10))
        assert await archiver.archive(before=CUTOFF) == Archived(files=3, rows=25)
        assert await online(database) == 5
        assert len([found async for found in store.list("archive/state_transitions")]) == 3
        assert await archiver.archive(before=CUTOFF) == Archived(0, 0)

    async def test_history_is_the_same_before_and_after(self, database, store):
        await write_transitions(database, old=25, new=5)
        before = await history(database, store, "job", "j1")
        assert [row["id"] for row in before] == list(range(1, 31, 3))
        await Archiver(database, store, STATE_TRANSITIONS, settings(batch_rows=4)).archive(before=CUTOFF)
        assert await history(database, store, "job", "j1") == before
        assert await history(database, store, "job", "unknown") == []
        assert await history(database, store, "page", "j1") == []

    async def test_a_batch_is_bounded_in_bytes_too(self, database, store):
        await write_transitions(database, old=9, new=0)
        archiver = Archiver(database, store, STATE_TRANSITIONS, settings(batch_bytes=1))
        assert await archiver.archive(before=CUTOFF) == Archived(files=9, rows=9)

    async def test_an_archived_line_restores_the_very_row(self, database, store):
        await write_transitions(database, old=3, new=0)
        async with database.transaction() as tx:
            rows = await fetch_all(tx, "select * from state_transitions order by id")
        await Archiver(database, store, STATE_TRANSITIONS, settings()).archive(before=CUTOFF)
        [found] = [found async for found in store.list("archive")]
        lines = gzip.decompress(await store.get(found.key)).decode().splitlines()
        async with database.transaction() as tx:
            query = "select r.* from unnest(%s::json[]) j, json_populate_record(null::state_transitions, j) r"
            assert await fetch_all(tx, query, (lines,)) == rows

    async def test_two_archivers_at_once_move_each_row_once(self, database, store):
        await write_transitions(database, old=60, new=3)
        two = [Archiver(database, store, STATE_TRANSITIONS, settings(batch_rows=7)) for _ in range(2)]
        await asyncio.gather(*(archiver.archive(before=CUTOFF) for archiver in two))
        await two[0].archive(before=CUTOFF)  # a loser stops; the next period finds what is left
        assert await online(database) == 3
        assert await ids_of_all(database, store) == list(range(1, 64))
        async with database.transaction() as tx:
            [files] = await fetch_all(tx, "select sum(rows) as n from archive_files")
        assert files["n"] == 60

    async def test_a_row_that_changes_while_it_is_written_stays_online(self, database, store):
        await write_transitions(database, old=2, new=0)

        class Meddling:
            async def put(self, key: str, body: bytes) -> None:
                await store.put(key, body)
                async with database.transaction() as tx:
                    await tx.execute("update state_transitions set trigger = 'corrected' where id = 2")

        archiver = Archiver(database, Meddling(), STATE_TRANSITIONS, settings())
        assert await archiver.archive(before=CUTOFF) == Archived(0, 0)
        assert await online(database) == 2
        await Archiver(database, store, STATE_TRANSITIONS, settings()).archive(before=CUTOFF)
        assert [row["trigger"] for row in await history(database, store, "job", "j2")] == ["corrected"]

    async def test_a_damaged_file_is_named(self, database, store):
        await write_transitions(database, old=3, new=0)
        await Archiver(database, store, STATE_TRANSITIONS, settings()).archive(before=CUTOFF)
        [found] = [found async for found in store.list("archive")]
        for damaged in (gzip.compress(b'{"id": 1}\n'), b"not gzip", (await store.get(found.key))[:-9]):
            await store.put(found.key, damaged)
            with pytest.raises(PenstockError) as raised:
                await history(database, store, "job", "j1")
            assert raised.value.code is error_codes.ARCHIVE_DAMAGED
            assert raised.value.details["key"] == found.key


class TestEvents:
    async def test_only_relayed_and_delivered_events_move(self, database, store):
        async with database.transaction() as tx:
            await tx.execute(
                "insert into outbox_events (event_type, entity_type, entity_id, order_key, slot, payload, occurred_at,"
                " relayed_at) select 'job.done', 'job', 'j', 'j', 0, '{\"n\": 1.50}', %s,"
                " case when n <> 2 then now() end from generate_series(1, 6) n",
                (NOW - timedelta(days=100),),
            )
            await tx.execute(
                "insert into outbox_deliveries (event_id, sink, order_key, done_at, dead_at)"
                " values (3, 'stream:redis', 'j', null, now()), (4, 'webhook:a', 'j', null, null),"
                " (5, 'webhook:a', 'j', now(), null)"
            )
        before = await history(database, store, "job", "j", retained=OUTBOX_EVENTS)
        archiver = Archiver(database, store, OUTBOX_EVENTS, settings())
        assert await archiver.archive(before=CUTOFF) == Archived(files=1, rows=3)
        async with database.transaction() as tx:
            kept = await fetch_all(tx, "select event_id from outbox_events order by event_id")
        assert [row["event_id"] for row in kept] == [2, 3, 4]
        assert await history(database, store, "job", "j", retained=OUTBOX_EVENTS) == before
        assert [row["event_id"] for row in before] == [1, 2, 3, 4, 5, 6]

    async def test_an_event_that_gets_a_delivery_while_it_is_written_stays_online(self, database, store):
        async with database.transaction() as tx:
            await tx.execute(
                "insert into outbox_events"
                " (event_type, entity_type, entity_id, order_key, slot, occurred_at, relayed_at)"
                " values ('job.done', 'job', 'j', 'j', 0, %s, now())",
                (NOW - timedelta(days=100),),
            )

        class Meddling:
            async def put(self, key: str, body: bytes) -> None:
                await store.put(key, body)
                async with database.transaction() as tx:
                    await tx.execute("insert into outbox_deliveries (event_id, sink, order_key) values (1, 's', 'j')")

        archiver = Archiver(database, Meddling(), OUTBOX_EVENTS, settings())
        assert await archiver.archive(before=CUTOFF) == Archived(0, 0)
        assert await online(database, "outbox_deliveries") == 1


_ARCHIVER = """
import asyncio, sys
from datetime import datetime
from penstock.kernel.db import Database
from penstock.kernel.objectstores import open_store
from penstock.kernel.retention import Archiver, RetentionSettings, STATE_TRANSITIONS

async def main(url, store, before):
    database = Database(url, name="archiver")
    await database.open()
    archiver = Archiver(database, open_store(store), STATE_TRANSITIONS, RetentionSettings(batch_rows=4))
    await archiver.archive(before=datetime.fromisoformat(before))
    await database.close()

asyncio.run(main(*sys.argv[1:]))
"""


class TestDying:
    @pytest.mark.parametrize("point", ["retention.written", "retention.indexed", "retention.settled"])
    async def test_killed_anywhere_nothing_is_lost_or_doubled(self, database, database_url, tmp_path, point):
        address = f"file://{tmp_path}/store"
        store = open_store(address)
        await write_transitions(database, old=10, new=2)
        source = str(Path(__file__).parents[3] / "src")
        for failpoint, status in ((f"{point}=kill@2", -signal.SIGKILL), (f"{point}=kill", -signal.SIGKILL), ("", 0)):
            archiver = await asyncio.create_subprocess_exec(
                sys.executable, "-c", _ARCHIVER, database_url, address, CUTOFF.isoformat(),
                env=os.environ | {"PENSTOCK_FAILPOINT": failpoint, "PYTHONPATH": source},
            )  # fmt: skip
            ended = await archiver.wait()
            if point != "retention.settled":  # there, the second kill may find nothing left to do
                assert ended == status
            assert await ids_of_all(database, store) == list(range(1, 13))
        assert await online(database) == 2
        async with database.transaction() as tx:
            files = await fetch_all(tx, "select object_key, rows from archive_files")
        lines = []
        for file in files:
            lines += gzip.decompress(await store.get(file["object_key"])).splitlines()
        assert sorted(json.loads(line)["id"] for line in lines) == list(range(1, 11))
