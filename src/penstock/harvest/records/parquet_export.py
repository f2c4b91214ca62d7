"""Parquet: typed columns, zstd, row groups of bounded size, so that memory stays flat."""

from typing import IO, Any

import pyarrow as pa
from pyarrow import parquet

from penstock.harvest.records.columns import KNOWN, field_value, known_value

_GROUP_ROWS = 20_000
_GROUP_BYTES = 16 * 1024 * 1024
_INSTANT = pa.timestamp("us", tz="UTC")
_TYPES = {
    "updated_at": _INSTANT,
    "first_seen_at": _INSTANT,
    "changed_at": _INSTANT,
    "checked_at": _INSTANT,
    "deleted": pa.bool_(),
    "revision": pa.int32(),
    "batch_run_id": pa.int64(),
    "batch_no": pa.int32(),
}


class ParquetWriter:
    def __init__(self, output: IO[bytes], field_names: list[str]) -> None:
        self._names = field_names
        columns = [(name, _TYPES.get(name, pa.string())) for name in KNOWN]
        columns += [(f"f_{name}", pa.string()) for name in field_names] + [("body", pa.large_string())]
        self._schema = pa.schema(columns)
        self._writer = parquet.ParquetWriter(output, self._schema, compression="zstd")
        self._waiting: list[dict[str, Any]] = []
        self._bytes = 0

    def write(self, rows: list[dict[str, Any]]) -> None:
        self._waiting += rows
        self._bytes += sum(len(row["body"]) for row in rows)
        if len(self._waiting) >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        try:
            self._flush()
        finally:
            self._writer.close()

    def _flush(self) -> None:
        rows, self._waiting, self._bytes = self._waiting, [], 0
        if not rows:
            return
        columns = [[known_value(row, name) for row in rows] for name in KNOWN]
        columns += [[field_value(row, name) for row in rows] for name in self._names]
        columns.append([row["body"] for row in rows])
        arrays = [pa.array(values, each.type) for values, each in zip(columns, self._schema, strict=True)]
        self._writer.write_table(pa.table(arrays, schema=self._schema))
