"""Records as a file: JSON lines, CSV or Parquet. The file appears whole or not at all; memory does not grow with it.

The transaction is made read-only and repeatable first, so it must be fresh: the file is one moment of the table.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from penstock.harvest.records.csv_export import CsvWriter
from penstock.harvest.records.jsonl_export import JsonLinesWriter
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
    """By the ending; `.gz` after it packs JSON lines and CSV."""
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
        with _whole_file(self.order.file) as part, contextlib.closing(self._writer(part, names)) as writer:
            async for rows in stream_records(tx, chosen):
                writer.write(rows)
                count += len(rows)
                self.progress(count)
        return count

    def _writer(self, part: Path, names: list[str]) -> Writer:
        match self.order.format:
            case Format.JSONL:
                return JsonLinesWriter(part, is_packed=self.order.is_packed)
            case Format.CSV:
                return CsvWriter(part, names, is_packed=self.order.is_packed)
            case Format.PARQUET:
                from penstock.harvest.records.parquet_export import ParquetWriter  # large: only who needs it loads it

                return ParquetWriter(part, names)


@contextlib.contextmanager
def _whole_file(file: Path) -> Iterator[Path]:
    """A file beside the wanted one, put in its place when all is written and on the disk; removed otherwise."""
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
