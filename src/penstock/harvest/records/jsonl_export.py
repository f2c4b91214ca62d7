"""JSON lines: one record a line, its body as the JSON it is, or as text when it is not JSON (XML)."""

from typing import IO, Any

import msgspec

from penstock.kernel import json

_skim = msgspec.json.Decoder(msgspec.Raw)
_PLAIN = {
    "updated_at", "version", "fields", "revision", "batch_run_id", "batch_no", "first_seen_at", "changed_at",
    "checked_at", "expr_hash",
}  # fmt: skip


class JsonLinesWriter:
    def __init__(self, output: IO[bytes]) -> None:
        self._file = output

    def write(self, rows: list[dict[str, Any]]) -> None:
        self._file.writelines(json.dump_bytes(line_of(row)) + b"\n" for row in rows)

    def close(self) -> None:
        self._file.flush()


def line_of(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "provider_id": row["provider_id"],
        "updated_at": row["updated_at"],
        "version": row["version"],
        "deleted": row["is_deleted"],
        "body": _body(row["body"]),
        **{name: value for name, value in row.items() if name in _PLAIN},
    }


def _body(text: str) -> msgspec.Raw | str:
    """JSON goes through as it came (numbers keep every digit); only line ends between its parts are taken out."""
    encoded = text.encode()
    try:
        _skim.decode(encoded)
        return msgspec.Raw(msgspec.json.format(encoded, indent=-1) if "\n" in text or "\r" in text else encoded)
    except msgspec.DecodeError:
        return text
