"""All SQL of rules. A change locks the rule's row, so versions are counted without gaps and none is written twice."""

from collections.abc import Mapping
from typing import Any

from psycopg.errors import UniqueViolation
from psycopg.types.json import Jsonb

from penstock.kernel import error_codes
from penstock.kernel.db import Tx, fetch_all, fetch_one
from penstock.kernel.errors import PenstockError

_COLUMNS = (
    "name",
    "description",
    "json_schema",
    "system_prompt",
    "postprocess_mode",
    "postprocess_strategy",
    "options",
    "examples",
)
_SHOWN = (
    "rule_id, version, name, left(description, 200) as description, postprocess_mode, postprocess_strategy,"
    " merchant_id, created_by, created_at, updated_at, pg_column_size(options) + pg_column_size(examples)"
    " + coalesce(pg_column_size(json_schema), 0) + coalesce(pg_column_size(system_prompt), 0) as stored_bytes"
)
_LISTED = (
    " from etl_rule where deleted_at is null and rule_id > %(after)s"
    " and (%(merchant)s::text is null or merchant_id = %(merchant)s or rule_id = %(also)s)"
    " order by rule_id limit %(limit)s"
)


def _values(content: Mapping[str, Any], by: str) -> dict[str, Any]:
    schema = content["json_schema"]
    return {
        **{name: content[name] for name in _COLUMNS},
        "json_schema": None if schema is None else Jsonb(schema),
        "options": Jsonb(content["options"]),
        "examples": Jsonb(content["examples"]),
        "content": Jsonb({name: content[name] for name in _COLUMNS}),
        "by": by,
    }


async def count_to_add(tx: Tx, merchant_id: str) -> int:
    """How many rules a merchant has. Who asks next waits until this transaction has ended, so none is missed."""
    await tx.execute("select pg_advisory_xact_lock(hashtextextended('etl rules ' || %s, 0))", (merchant_id,))
    query = "select count(*) as found from etl_rule where merchant_id = %s and deleted_at is null"
    row = await fetch_one(tx, query, (merchant_id,))
    return int(row["found"]) if row else 0


async def insert(tx: Tx, merchant_id: str, content: Mapping[str, Any], by: str) -> dict[str, Any]:
    """ETL_RULE_NAME_TAKEN where the merchant has one of that name."""
    row = await fetch_one(
        tx,
        "insert into etl_rule (merchant_id, name, description, json_schema, system_prompt, postprocess_mode,"
        " postprocess_strategy, options, examples, created_by) values (%(merchant_id)s, %(name)s, %(description)s,"
        " %(json_schema)s, %(system_prompt)s, %(postprocess_mode)s, %(postprocess_strategy)s, %(options)s,"
        " %(examples)s, %(by)s)"
        " on conflict (merchant_id, name) where deleted_at is null do nothing returning *",
        _values(content, by) | {"merchant_id": merchant_id},
    )
    if row is None:
        raise PenstockError(error_codes.ETL_RULE_NAME_TAKEN, name=content["name"])
    await _keep_version(tx, row, content, by)
    return row


async def update(tx: Tx, rule_id: int, content: Mapping[str, Any], by: str) -> dict[str, Any]:
    """Of a locked row. ETL_RULE_NAME_TAKEN ends the transaction."""
    try:
        row = await fetch_one(
            tx,
            "update etl_rule set name = %(name)s, description = %(description)s, json_schema = %(json_schema)s,"
            " system_prompt = %(system_prompt)s, postprocess_mode = %(postprocess_mode)s,"
            " postprocess_strategy = %(postprocess_strategy)s, options = %(options)s, examples = %(examples)s,"
            " version = version + 1, updated_at = now() where rule_id = %(rule_id)s and deleted_at is null returning *",
            _values(content, by) | {"rule_id": rule_id},
        )
    except UniqueViolation:
        raise PenstockError(error_codes.ETL_RULE_NAME_TAKEN, name=content["name"]) from None
    if row is None:
        raise PenstockError(error_codes.ETL_RULE_NOT_FOUND, rule_id=rule_id)
    await _keep_version(tx, row, content, by)
    return row


async def _keep_version(tx: Tx, row: Mapping[str, Any], content: Mapping[str, Any], by: str) -> None:
    await tx.execute(
        "insert into etl_rule_version (rule_id, version, content, created_by) values (%s, %s, %s, %s)",
        (row["rule_id"], row["version"], _values(content, by)["content"], by),
    )


async def mark_deleted(tx: Tx, rule_id: int) -> None:
    await tx.execute("update etl_rule set deleted_at = now() where rule_id = %s and deleted_at is null", (rule_id,))


async def find(tx: Tx, rule_id: int) -> dict[str, Any] | None:
    return await fetch_one(tx, "select * from etl_rule where rule_id = %s and deleted_at is null", (rule_id,))


async def lock(tx: Tx, rule_id: int) -> dict[str, Any] | None:
    return await fetch_one(
        tx, "select * from etl_rule where rule_id = %s and deleted_at is null for update", (rule_id,)
    )  # fmt: skip


async def find_named(tx: Tx, merchant_id: str, name: str) -> dict[str, Any] | None:
    return await fetch_one(
        tx,
        "select * from etl_rule where merchant_id = %s and name = %s and deleted_at is null",
        (merchant_id, name),
    )


async def listed(
    tx: Tx, merchant_id: str | None, after: int, limit: int, *, also: int | None = None
) -> list[dict[str, Any]]:
    """By number; no merchant: everybody's. `also` is listed whoever asks."""
    wanted = {"merchant": merchant_id, "after": after, "limit": limit, "also": also}
    return await fetch_all(tx, f"select *{_LISTED}", wanted)


async def summaries(
    tx: Tx, merchant_id: str | None, after: int, limit: int, *, also: int | None = None
) -> list[dict[str, Any]]:
    """As `listed`, without what may be large."""
    wanted = {"merchant": merchant_id, "after": after, "limit": limit, "also": also}
    return await fetch_all(tx, f"select {_SHOWN}{_LISTED}", wanted)


async def version_summaries(tx: Tx, rule_id: int, before: int | None, limit: int) -> list[dict[str, Any]]:
    """The newest first; of deleted rules too. Without what they said."""
    return await fetch_all(
        tx,
        "select version, pg_column_size(content) as stored_bytes, created_by, created_at from etl_rule_version"
        " where rule_id = %(rule_id)s and (%(before)s::int is null or version < %(before)s)"
        " order by version desc limit %(limit)s",
        {"rule_id": rule_id, "before": before, "limit": limit},
    )


async def find_version(tx: Tx, rule_id: int, version: int) -> dict[str, Any] | None:
    """Of deleted rules too."""
    query = "select * from etl_rule_version where rule_id = %s and version = %s"
    return await fetch_one(tx, query, (rule_id, version))


async def examples_of(tx: Tx, rule_id: int, version: int) -> list[Any] | None:
    """Of deleted rules too; None: there is no such version."""
    query = "select content -> 'examples' as examples from etl_rule_version where rule_id = %s and version = %s"
    row = await fetch_one(tx, query, (rule_id, version))
    return None if row is None else row["examples"] or []
