"""All SQL of the registry: `reg_*`. The tables are the truth: a source is rebuilt from its rows, not from its file."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from psycopg import sql
from psycopg.types.json import Jsonb

from penstock.harvest.registry.dictionaries import known_codes
from penstock.harvest.registry.rows import JSON_COLUMNS, SCHEDULES, TABLES, document_of, rows_of
from penstock.harvest.registry.source import Credential, RegisteredEndpoint, RegisteredSource
from penstock.kernel import error_codes
from penstock.kernel.db import Tx, fetch_all, fetch_one
from penstock.kernel.errors import PenstockError

__all__ = ["Credential", "RegisteredEndpoint", "RegisteredSource", "load", "load_all"]

_SOURCES = (
    "select s.*, v.origins from reg_provenance s"
    " left join reg_provenance_version v using (provenance_code, version)"
    " where version > 0 and (%(code)s::text is null or provenance_code = %(code)s) order by provenance_code"
)


async def load(tx: Tx, provenance_code: str) -> RegisteredSource:
    found = await _load(tx, provenance_code)
    if not found:
        raise PenstockError(error_codes.SOURCE_UNKNOWN, source=provenance_code)
    return found[0]


async def load_all(tx: Tx) -> list[RegisteredSource]:
    """By code."""
    return await _load(tx, None)


async def find(tx: Tx, provenance_code: str) -> RegisteredSource | None:
    found = await _load(tx, provenance_code)
    return found[0] if found else None


async def _load(tx: Tx, code: str | None) -> list[RegisteredSource]:
    """A handful of statements, however many sources there are."""
    sources = await fetch_all(tx, _SOURCES, {"code": code})
    if not sources:
        return []
    rows: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: {table: [] for table in TABLES})
    for table in TABLES:
        for row in await fetch_all(tx, _select(table), {"code": code}):
            rows[row["provenance_code"]][table].append(row)
    codes = await known_codes(tx)
    return [
        RegisteredSource.of(
            document_of(source, rows[source["provenance_code"]]),
            version=source["version"],
            origins=source["origins"] or {},
            codes=codes,
            updated_at=source["updated_at"],
            updated_by=source["updated_by"],
            is_active=source["is_active"],
            allows_private=source["allows_private"],
        )
        for source in sources
    ]


def _select(table: str) -> sql.Composed:
    return sql.SQL(
        "select * from {} where %(code)s::text is null or provenance_code = %(code)s order by provenance_code"
    ).format(sql.Identifier(table))


async def lock(tx: Tx, document: Mapping[str, Any], by: str) -> int:
    """The version that is applied now, 0 for none; until the transaction ends nobody else applies this source."""
    await tx.execute(
        "insert into reg_provenance (provenance_code, name, version, document_hash, updated_by)"
        " values (%s, %s, 0, '', %s) on conflict do nothing",
        (document["source"], document["name"], by),
    )
    row = await fetch_one(
        tx, "select version from reg_provenance where provenance_code = %s for update", (document["source"],)
    )
    return int(row["version"]) if row else 0


async def write(tx: Tx, document: Mapping[str, Any], by: str, document_hash: str) -> int:
    """The whole source anew; returns its version. Whether it is paused is left as it is."""
    row = await fetch_one(
        tx,
        "update reg_provenance set name = %s, description = %s, defaults = %s, document_hash = %s, updated_by = %s,"
        " version = version + 1, updated_at = now() where provenance_code = %s returning version",
        (
            document["name"], document["description"], Jsonb(document["defaults"]), document_hash, by,
            document["source"],
        ),
    )  # fmt: skip
    for table, rows in rows_of(document).items():
        if table == SCHEDULES:
            continue
        await tx.execute(
            sql.SQL("delete from {} where provenance_code = %s").format(sql.Identifier(table)), (document["source"],)
        )
        await _insert(tx, table, rows)
    return int(row["version"]) if row else 0


async def _insert(tx: Tx, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        return
    columns = list(rows[0])
    statement = sql.SQL("insert into {} ({}) values ({})").format(
        sql.Identifier(table),
        sql.SQL(", ").join(map(sql.Identifier, columns)),
        sql.SQL(", ").join(sql.Placeholder() * len(columns)),
    )
    async with tx.cursor() as cursor:
        await cursor.executemany(
            statement, [[Jsonb(row[name]) if name in JSON_COLUMNS else row[name] for name in columns] for row in rows]
        )


async def write_schedules(tx: Tx, document: Mapping[str, Any], first_runs: Mapping[tuple[str, str], datetime]) -> None:
    """An unchanged schedule keeps its next run, and a paused one stays paused; one that changed begins anew."""
    rows = rows_of(document)[SCHEDULES]
    await tx.execute(
        "delete from reg_schedule where provenance_code = %s"
        " and (endpoint_name, operation_code) not in (select * from unnest(%s::text[], %s::text[]))",
        (document["source"], [row["endpoint_name"] for row in rows], [row["operation_code"] for row in rows]),
    )
    for row in rows:
        first = first_runs[row["endpoint_name"], row["operation_code"]]
        await tx.execute(
            "insert into reg_schedule as s"
            " (provenance_code, endpoint_name, operation_code, cron, every, params, next_run_at)"
            " values (%s, %s, %s, %s, %s, %s, %s) on conflict (provenance_code, endpoint_name, operation_code) do"
            " update set cron = excluded.cron, every = excluded.every, params = excluded.params, next_run_at ="
            " case when (s.cron, s.every) is not distinct from (excluded.cron, excluded.every)"
            " then s.next_run_at else excluded.next_run_at end",
            (
                row["provenance_code"], row["endpoint_name"], row["operation_code"], row["cron"], row["every"],
                Jsonb(row["params"]), first,
            ),
        )  # fmt: skip


async def keep_version(
    tx: Tx, document: Mapping[str, Any], *, version: int, changes: Sequence[Mapping[str, Any]], by: str
) -> None:
    """For ever: what was applied when, and by whom."""
    await tx.execute(
        "insert into reg_provenance_version (provenance_code, version, document, document_hash, changes, applied_by)"
        " select %s, %s, %s, document_hash, %s, %s from reg_provenance where provenance_code = %s",
        (document["source"], version, Jsonb(document), Jsonb(list(changes)), by, document["source"]),
    )


async def note_reach(tx: Tx, code: str, *, allows_private: bool) -> None:
    """Who applies a source decides where it may lead; that makes no new version."""
    await tx.execute(
        "update reg_provenance set allows_private = %s where provenance_code = %s", (allows_private, code)
    )  # fmt: skip


async def note_origins(tx: Tx, code: str, origins: Mapping[str, str]) -> None:
    """Lines move when comments do; that makes no new version."""
    await tx.execute(
        "update reg_provenance_version v set origins = %s from reg_provenance s"
        " where s.provenance_code = %s and v.provenance_code = s.provenance_code and v.version = s.version",
        (Jsonb(dict(origins)), code),
    )
