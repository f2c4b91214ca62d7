"""The columns of a table of records: what we know of each, its mapped fields as f_NAME, its body."""

from typing import Any

from penstock.kernel import json

KNOWN = (
    "provider_id", "updated_at", "version", "deleted", "revision", "first_seen_at", "changed_at", "checked_at",
    "batch_run_id", "batch_no", "expr_hash",
)  # fmt: skip


def known_value(row: dict[str, Any], name: str) -> Any:
    return row["is_deleted" if name == "deleted" else name]


def field_value(row: dict[str, Any], name: str) -> str | None:
    """Text as it is, nothing as nothing, everything else as JSON."""
    fields = row["fields"]
    value = fields.get(name) if isinstance(fields, dict) else None
    return value if value is None or isinstance(value, str) else json.dumps(value)
