"""CSV (RFC 4180, UTF-8, a header line).

Sources are strangers, and a spreadsheet runs a cell that begins with = + - @ as a formula: such a cell gets an
apostrophe in front, unless it is a plain number. Spreadsheets drop blanks, line ends and format characters before the
sign, and East Asian versions take the full-width sign too, so the first character that is seen decides, in its plain
form (NFKC). `|` starts no formula by itself, but is the sign between program and argument of a DDE call, and older
imports took it for one; `%` is no such sign anywhere. The exact text is in JSON lines and Parquet.
"""

import csv
import io
import re
import unicodedata
from datetime import datetime
from typing import IO, Any

from penstock.harvest.records.columns import KNOWN, field_value, known_value

_FORMULA = frozenset("=+-@|")
_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]+)?([eE][+-]?[0-9]+)?")


class CsvWriter:
    def __init__(self, output: IO[bytes], field_names: list[str]) -> None:
        self._names = field_names
        self._text = io.TextIOWrapper(output, encoding="utf-8", newline="")
        self._csv = csv.writer(self._text)
        self._csv.writerow([*KNOWN, *(f"f_{name}" for name in field_names), "body"])

    def write(self, rows: list[dict[str, Any]]) -> None:
        self._csv.writerows(self._line(row) for row in rows)

    def close(self) -> None:
        self._text.detach()  # writes what waits; the output is closed by whoever opened it

    def _line(self, row: dict[str, Any]) -> list[str]:
        known = [cell(known_value(row, name)) for name in KNOWN]
        return [*known, *(cell(field_value(row, name)) for name in self._names), cell(row["body"])]


def cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    return f"'{text}" if _begins_formula(text) and not _NUMBER.fullmatch(text) else text


def _begins_formula(text: str) -> bool:
    for letter in text:
        if letter.isascii() and letter.isalnum():
            return False
        if unicodedata.category(letter)[0] not in "ZC":  # neither blank nor control nor format
            return unicodedata.normalize("NFKC", letter)[0] in _FORMULA
    return False
