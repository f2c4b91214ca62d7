"""CSV (RFC 4180, UTF-8, a header line).

Sources are strangers, and a spreadsheet runs a cell that begins with = + - @ as a formula: such a cell gets an
apostrophe in front, unless it is a plain number. Whoever needs the exact text takes JSON lines or Parquet.
"""

import csv
import io
import re
from datetime import datetime
from pathlib import Path
from typing import Any

from penstock.harvest.records.columns import KNOWN, field_value, known_value
from penstock.harvest.records.opening import open_output

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]+)?([eE][+-]?[0-9]+)?")


class CsvWriter:
    def __init__(self, path: Path, field_names: list[str], *, is_packed: bool) -> None:
        self._names = field_names
        self._text = io.TextIOWrapper(open_output(path, is_packed=is_packed), encoding="utf-8", newline="")
        self._csv = csv.writer(self._text)
        self._csv.writerow([*KNOWN, *(f"f_{name}" for name in field_names), "body"])

    def write(self, rows: list[dict[str, Any]]) -> None:
        self._csv.writerows(self._line(row) for row in rows)

    def close(self) -> None:
        self._text.close()

    def _line(self, row: dict[str, Any]) -> list[str]:
        known = [cell(known_value(row, name)) for name in KNOWN]
        return [*known, *(cell(field_value(row, name)) for name in self._names), cell(row["body"])]


def cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text
