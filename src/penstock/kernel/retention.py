"""Old rows move to compressed files in the object store and stay searchable by entity.

One batch is: read the oldest rows that are due; write them as one gzipped JSONL object; then, in one
transaction, delete exactly those rows and enter the file and its entities in `archive_files` and
`archive_index`. Killed before the transaction, the rows are still online and the repeat writes the same
object again; killed after it, all is done. No lock is needed for correctness: the transaction deletes with
`returning` and gives up unless it got the very lines that are in the file, so two archivers, or a row that
changed meanwhile, cost a repeat and never a row. The object's key holds the digest of its lines, so that two
different batches can never overwrite each other.

Lines are PostgreSQL's own `row_to_json`, so `json_populate_record` restores them exactly.
"""

import asyncio
import gzip
import hashlib
import zlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString

from psycopg import sql
from pydantic import Field
from pydantic_settings import SettingsConfigDict

from penstock.kernel import error_codes, failpoints, json
from penstock.kernel.db import Database, Tx, fetch_all
from penstock.kernel.errors import PenstockError
from penstock.kernel.objectstore import ObjectStore
from penstock.kernel.settings import SettingsGroup

_FOLDER = "archive"


class RetentionSettings(SettingsGroup):
    """How long what stays in PostgreSQL."""

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_RETENTION_")

    transitions_days: int = Field(90, ge=1, description="Days after which changes of state move to the object store")
    events_days: int = Field(90, ge=1, description="Days after which delivered events move to the object store")
    calls_days: int = Field(90, ge=1, description="Days after which calls to language models move to the object store")
    inbox_days: int = Field(
        90, ge=32, description="Days after which it is forgotten that a message came; none is sent again so late"
    )
    batch_rows: int = Field(5_000, ge=1, le=50_000, description="Most rows in one archive file")
    batch_bytes: int = Field(32 * 2**20, ge=1, description="Most bytes in one archive file, before compression")


@dataclass(frozen=True, slots=True)
class Retained:
    """A table whose old rows are archived. A new table is one more of these and nothing else."""

    table: str
    id: str  # a bigint that grows
    time: str
    entity_type: str = "entity_type"
    entity_id: str = "entity_id"
    settled: LiteralString = "true"  # which rows may go, as a condition on alias `t`


STATE_TRANSITIONS = Retained("state_transitions", id="id", time="timestamp")
OUTBOX_EVENTS = Retained(
    "outbox_events",
    id="event_id",
    time="occurred_at",
    settled="t.relayed_at is not null and not exists"
    " (select from outbox_deliveries d where d.event_id = t.event_id and d.done_at is null)",
)


@dataclass(frozen=True, slots=True)
class Archived:
    """What one run moved."""

    files: int = 0
    rows: int = 0


@dataclass(frozen=True, slots=True)
class _Batch:
    """Rows that are due, in the order of their ids."""

    rows: list[dict[str, Any]]  # id, at, entity_type, entity_id, line

    @property
    def text(self) -> bytes:
        return "".join(f"{row['line']}\n" for row in self.rows).encode()


class _RowsChanged(Exception):
    """Rolls the transaction back: someone else was faster, or a row was touched."""


class Archiver:
    """Moves the old rows of one table."""

    def __init__(self, database: Database, store: ObjectStore, retained: Retained, settings: RetentionSettings) -> None:
        self._database = database
        self._store = store
        self._retained = retained
        self._settings = settings

    async def archive(self, *, before: datetime) -> Archived:
        """Batches until nothing is due, or until someone else turns out to be at work on the same rows."""
        files = rows = 0
        while batch := await self._read(before):
            text = batch.text
            digest = hashlib.sha256(text).hexdigest()
            key = self._key(batch, digest)
            await self._store.put(key, await asyncio.to_thread(gzip.compress, text, 6, mtime=0))
            failpoints.reach("retention.written")
            if not await self._settle(batch, key, digest):
                break
            failpoints.reach("retention.settled")
            files, rows = files + 1, rows + len(batch.rows)
        return Archived(files, rows)

    def _key(self, batch: _Batch, digest: str) -> str:
        first, last = batch.rows[0]["id"], batch.rows[-1]["id"]
        return f"{_FOLDER}/{self._retained.table}/{first:020}-{last:020}-{digest[:16]}.jsonl.gz"

    async def _read(self, before: datetime) -> _Batch | None:
        query = self._sql("select {columns} from {table} t where t.{time} < %s and {settled} order by t.{id} limit %s")
        async with self._database.transaction() as tx:
            rows = await fetch_all(tx, query, (before, self._settings.batch_rows))
        size = 0
        for count, row in enumerate(rows):
            size += len(row["line"])
            if size > self._settings.batch_bytes and count:
                return _Batch(rows[:count])
        return _Batch(rows) if rows else None

    async def _settle(self, batch: _Batch, key: str, digest: str) -> bool:
        """False, and nothing done, when the rows are no longer the ones in the file."""
        try:
            async with self._database.transaction() as tx:
                await self._delete(tx, batch)
                await _enter(tx, self._retained.table, batch, key, digest)
                failpoints.reach("retention.indexed")
        except _RowsChanged:
            return False
        return True

    async def _delete(self, tx: Tx, batch: _Batch) -> None:
        query = self._sql("delete from {table} t where t.{id} = any(%s) and {settled} returning {columns}")
        gone = await fetch_all(tx, query, ([row["id"] for row in batch.rows],))
        if sorted(gone, key=lambda row: int(row["id"])) != batch.rows:
            raise _RowsChanged

    def _sql(self, text: LiteralString) -> sql.Composed:
        r = self._retained
        columns = sql.SQL(
            "t.{id} as id, t.{time} as at, t.{type} as entity_type, t.{entity} as entity_id,"
            " row_to_json(t)::text as line"
        ).format(
            id=sql.Identifier(r.id),
            time=sql.Identifier(r.time),
            type=sql.Identifier(r.entity_type),
            entity=sql.Identifier(r.entity_id),
        )
        return sql.SQL(text).format(
            columns=columns,
            table=sql.Identifier(r.table),
            id=sql.Identifier(r.id),
            time=sql.Identifier(r.time),
            settled=sql.SQL(r.settled),
        )


async def _enter(tx: Tx, table: str, batch: _Batch, key: str, digest: str) -> None:
    rows = batch.rows
    times = [row["at"] for row in rows]
    entered = await fetch_all(
        tx,
        "insert into archive_files (table_name, object_key, sha256, rows, first_id, last_id, first_at, last_at)"
        " values (%s, %s, %s, %s, %s, %s, %s, %s) returning archive_id",
        (table, key, digest, len(rows), rows[0]["id"], rows[-1]["id"], min(times), max(times)),
    )
    entities = sorted({(row["entity_type"], row["entity_id"]) for row in rows})
    await tx.execute(
        "insert into archive_index (archive_id, entity_type, entity_id)"
        " select %s, * from unnest(%s::text[], %s::text[])",
        (entered[0]["archive_id"], [entity[0] for entity in entities], [entity[1] for entity in entities]),
    )


async def history(
    database: Database, store: ObjectStore, entity_type: str, entity_id: str, *, retained: Retained = STATE_TRANSITIONS
) -> list[dict[str, Any]]:
    """All rows of an entity in the order of their ids, online or archived; times are RFC 3339 text."""
    return await histories(database, store, [(entity_type, entity_id)], retained=retained)


async def histories(
    database: Database,
    store: ObjectStore,
    entities: Sequence[tuple[str, str]],
    *,
    retained: Retained = STATE_TRANSITIONS,
) -> list[dict[str, Any]]:
    """As `history`, of several entities, each given as type and id.

    Files are read after the transaction. Online rows are asked for first: a row that is moved between the
    two questions is then found twice, which its id tells, and never missed.
    """
    wanted = set(entities)
    named = ([entity[0] for entity in entities], [entity[1] for entity in entities])
    online = sql.SQL(
        "select row_to_json(t)::text as line from unnest(%s::text[], %s::text[]) wanted(kind, id)"
        " join {table} t on t.{type} = wanted.kind and t.{entity} = wanted.id"
    ).format(
        table=sql.Identifier(retained.table),
        type=sql.Identifier(retained.entity_type),
        entity=sql.Identifier(retained.entity_id),
    )
    files = (
        "select f.object_key, f.sha256 from archive_files f where f.table_name = %s and f.archive_id in"
        " (select i.archive_id from unnest(%s::text[], %s::text[]) wanted(kind, id) join archive_index i"
        "  on i.entity_type = wanted.kind and i.entity_id = wanted.id) order by f.first_id"
    )
    async with database.transaction() as tx:
        lines = [row["line"] for row in await fetch_all(tx, online, named)]
        archives = await fetch_all(tx, files, (retained.table, *named))
    found = {row[retained.id]: row for row in map(json.loads, lines)}
    for archive in archives:
        async for row in _rows_of(store, archive["object_key"], archive["sha256"]):
            if (row[retained.entity_type], row[retained.entity_id]) in wanted:
                found.setdefault(row[retained.id], row)
    return [found[key] for key in sorted(found)]


async def _rows_of(store: ObjectStore, key: str, digest: str) -> AsyncIterator[dict[str, Any]]:
    packed = await store.get(key)
    try:
        text = await asyncio.to_thread(gzip.decompress, packed)
    except (gzip.BadGzipFile, EOFError, zlib.error) as failure:
        raise PenstockError(error_codes.ARCHIVE_DAMAGED, key=key) from failure
    if hashlib.sha256(text).hexdigest() != digest:
        raise PenstockError(error_codes.ARCHIVE_DAMAGED, key=key)
    for line in text.splitlines():
        yield json.loads(line)
