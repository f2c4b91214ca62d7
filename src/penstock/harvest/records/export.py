"""Records as JSON lines, CSV or Parquet; memory does not grow with their number.

The transaction is made read-only and repeatable first, so it must be fresh: the file is one moment of the table.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, Protocol

from penstock.harvest.records.csv_export import CsvWriter
from penstock.harvest.records.jsonl_export import JsonLinesWriter
from penstock.harvest.records.output import STANDARD_OUTPUT, open_output
from penstock.harvest.records.reads import Selection, field_names, stream_records
from penstock.kernel.db import Tx

_PACKED = ".gz"


class Format(StrEnum):
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


_SUFFIXES = {".jsonl": Format.JSONL, ".ndjson": Format.JSONL, ".csv": Format.CSV, ".parquet": Format.PARQUET}


class Writer(Protocol):
    def write(self, rows: list[dict[str, Any]]) -> None: ...
    def close(self) -> None: ...


def format_of(file: Path) -> Format | None:
    """Tells the format by the ending; `.gz` after it packs JSON lines and CSV. Standard output gets JSON lines."""
    if file == STANDARD_OUTPUT:
        return Format.JSONL
    name = file.with_suffix("") if file.suffix.lower() == _PACKED else file
    return _SUFFIXES.get(name.suffix.lower())


@dataclass(frozen=True, slots=True)
class Order:
    """What goes where."""

    chosen: Selection
    file: Path
    format: Format

    @property
    def is_packed(self) -> bool:
        """Parquet packs its columns itself."""
        return self.file.suffix.lower() == _PACKED and self.format is not Format.PARQUET


@dataclass(slots=True)
class Export:
    """One file. `progress` is told the number of records so far."""

    order: Order
    progress: Callable[[int], object] = int

    async def run(self, tx: Tx) -> int:
        """Write all of it; returns how many records."""
        await tx.execute("set transaction isolation level repeatable read, read only")
        chosen, count = self.order.chosen, 0
        names = [] if self.order.format is Format.JSONL else await field_names(tx, chosen)
        with (
            open_output(self.order.file, is_packed=self.order.is_packed) as output,
            contextlib.closing(self._writer(output, names)) as writer,
        ):
            async for rows in stream_records(tx, chosen):
                writer.write(rows)
                count += len(rows)
                self.progress(count)
        return count

    def _writer(self, output: IO[bytes], names: list[str]) -> Writer:
        match self.order.format:
            case Format.JSONL:
                return JsonLinesWriter(output)
            case Format.CSV:
                return CsvWriter(output, names)
            case Format.PARQUET:
                from penstock.harvest.records.parquet_export import ParquetWriter  # large: only who needs it loads it

                return ParquetWriter(output, names)
