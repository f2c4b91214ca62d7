"""The many ways to write one value: widths, blanks, thousands, currencies, dates. What is not certain is not read.

`fold` makes texts comparable. `number_of` and `date_of` read a whole text or answer None: a day and a month that could
be either way round are None unless the caller says which comes first.
"""

import re
import unicodedata
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Literal

Order = Literal["dmy", "mdy"]

_SIGNS = re.escape("".join(chr(code) for code in range(0x10000) if unicodedata.category(chr(code)) == "Sc"))
_CURRENCY = rf"(?:rmb|cny|usd|eur|gbp|hkd|jpy|inr|krw|rs\.?|hk\$|us\$|cn¥|[{_SIGNS}元圆])"
_MINUS = str.maketrans({"−": "-", "–": "-", "﹣": "-", "\N{FULLWIDTH HYPHEN-MINUS}": "-"})
_NUMBER = re.compile(
    rf"(?P<open>\()?\s*(?P<sign>[-+])?\s*{_CURRENCY}?\s*(?P<sign2>[-+])?\s*(?P<digits>\d[\d,.' \u00a0\u202f]*\d|\d)"
    rf"\s*(?P<percent>%)?\s*{_CURRENCY}?(?:整|正)?\s*(?P<close>\))?",
    re.IGNORECASE,
)
_GROUPED = re.compile(r"\d{1,3}(?:([,.' \u00a0\u202f])\d{3})(?:\1\d{3})*")
NUMBER_LIKE = re.compile(
    r"(?<![A-Za-z0-9_.,])[-+−–(]?\s*[¥$€£]?\s*\d[\d,.']*(?:[ \u00a0\u202f]\d{3}(?!\d))*(?:[.,]\d+)?"
)


def squeezed(text: str) -> str:
    """In its plain form, with no more than two blanks in a row: forms with optional blanks would try each of many."""
    return re.sub(r"\s{2,}", "  ", unicodedata.normalize("NFKC", text))


def fold(text: str) -> str:
    """Without width, case and blanks."""
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())


def number_of(text: str) -> Decimal | None:
    """The number that the whole text writes; of a percentage the number before the sign."""
    said = squeezed(text).translate(_MINUS).strip()
    found = _NUMBER.fullmatch(said) if len(said) <= 60 else None
    if found is None or bool(found["open"]) != bool(found["close"]):
        return None
    digits = _plain_digits(found["digits"])
    if digits is None:
        return None
    is_negative = "-" in (found["sign"], found["sign2"]) or bool(found["open"])
    try:
        return Decimal(("-" if is_negative else "") + digits)
    except InvalidOperation:
        return None


def _plain_digits(digits: str) -> str | None:
    whole, mark, rest = digits, "", ""
    if "," in digits and "." in digits:
        mark = max(",", ".", key=digits.rindex)
        whole, _, rest = digits.rpartition(mark)
    elif digits.count(".") == 1:
        whole, _, rest = digits.partition(".")
        mark = "."
    elif digits.count(",") == 1 and len(digits.partition(",")[2]) != 3:
        whole, _, rest = digits.partition(",")
        mark = ","
    if mark and not rest.isdigit():
        return None
    if not whole.isdigit():
        grouped = _GROUPED.fullmatch(whole)
        if grouped is None or grouped[1] == mark:
            return None
        whole = re.sub(r"\D", "", whole)
    return f"{whole}.{rest}" if rest else whole


_MONTHS = {name: index for index, names in enumerate((
    ("jan", "january"), ("feb", "february"), ("mar", "march"), ("apr", "april"), ("may",), ("jun", "june"),
    ("jul", "july"), ("aug", "august"), ("sep", "sept", "september"), ("oct", "october"), ("nov", "november"),
    ("dec", "december")), 1) for name in names}  # fmt: skip
_NAME = "|".join(sorted(_MONTHS, key=len, reverse=True))
_YEAR_FIRST = r"(?P<y>\d{4})\s*(?P<s>[-/.])\s*(?P<m>\d{1,2})\s*(?P=s)\s*(?P<d>\d{1,2})"
_CHINESE = r"(?P<y>\d{4})\s*年\s*(?P<m>\d{1,2})\s*月\s*(?P<d>\d{1,2})\s*[日号]"
_PACKED = r"(?P<y>(?:19|20)\d\d)(?P<m>0[1-9]|1[0-2])(?P<d>[0-3]\d)"
_NAME_FIRST = rf"(?P<n>{_NAME})\.?\s+(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\s*,?\s+(?P<y>\d{{4}})"
_DAY_NAME = rf"(?P<d>\d{{1,2}})(?:st|nd|rd|th)?[\s-]*(?P<n>{_NAME})\.?[\s,-]*(?P<y>\d{{4}})"
_YEAR_LAST = r"(?P<a>\d{1,2})\s*(?P<s>[-/.])\s*(?P<b>\d{1,2})\s*(?P=s)\s*(?P<y>\d{4})"
_FORMS = [re.compile(form, re.IGNORECASE) for form in
          (_YEAR_FIRST, _CHINESE, _PACKED, _NAME_FIRST, _DAY_NAME, _YEAR_LAST)]  # fmt: skip
_HAN_DATE = re.compile(
    r"([〇零一二三四五六七八九]{4})年([一二三四五六七八九十]{1,3})月([一二三四五六七八九十]{1,3})[日号]"
)
_HAN = {letter: index for index, letter in enumerate("零一二三四五六七八九")} | {"〇": 0}
_LIKE = (
    r"\d{4}\s*[-/.]\s*\d{1,2}\s*[-/.]\s*\d{1,2}(?!\d)",
    _CHINESE,
    rf"(?<!\d){_PACKED}(?!\d)",
    _NAME_FIRST,
    _DAY_NAME,
    r"(?<![\d.])\d{1,2}\s*[-/.]\s*\d{1,2}\s*[-/.]\s*\d{4}(?!\d)",
    _HAN_DATE.pattern.replace("(", "(?:"),
)
DATE_LIKE = re.compile("|".join(f"(?:{re.sub(r'[(][?]P<[a-z]>', '(?:', form)})" for form in _LIKE), re.IGNORECASE)
_TIME = re.compile(
    r"(?P<day>.+?)[T\s]+(?P<h>\d{1,2}):(?P<m>\d\d)(?::(?P<s>\d\d)(?:\.\d+)?)?\s*(?P<z>z|[+-]\d\d:?\d\d)?",
    re.IGNORECASE,
)


def date_of(text: str, order: Order | None = None) -> date | None:
    """The day that the whole text writes."""
    said = unicodedata.normalize("NFKC", text).strip()
    if len(said) > 40:
        return None
    for form in _FORMS:
        if found := form.fullmatch(said):
            return _day(found.groupdict(), order)
    han = _HAN_DATE.fullmatch(said)
    return _valid(int("".join(str(_HAN[each]) for each in han[1])), _han(han[2]), _han(han[3])) if han else None


def _day(parts: dict[str, str | None], order: Order | None) -> date | None:
    year = int(parts["y"] or 0)
    if "a" not in parts:
        month = _MONTHS[(parts["n"] or "").lower()] if "n" in parts else int(parts["m"] or 0)
        return _valid(year, month, int(parts["d"] or 0))
    first, second = int(parts["a"] or 0), int(parts["b"] or 0)
    if order is None and first <= 12 and second <= 12 and first != second and parts["s"] != ".":
        return None
    is_month_first = order == "mdy" if order else second > 12
    return _valid(year, *((first, second) if is_month_first else (second, first)))


def _han(text: str) -> int:
    tens, ten, ones = text.rpartition("十")
    return (_HAN[tens] * 10 if tens in _HAN else 10 if ten else 0) + _HAN.get(ones, 0)


def _valid(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def moment_of(text: str, order: Order | None = None) -> str | None:
    """RFC 3339; a time without a zone is taken as UTC, a day alone as its midnight."""
    said = unicodedata.normalize("NFKC", text).strip()
    found = _TIME.fullmatch(said[:60])
    day = date_of(found["day"] if found else said, order)
    if day is None:
        return None
    if not found:
        return f"{day.isoformat()}T00:00:00Z"
    zone = (found["z"] or "Z").upper()
    zone = zone if zone == "Z" or ":" in zone else f"{zone[:3]}:{zone[3:]}"
    written = f"{day.isoformat()}T{int(found['h']):02}:{found['m']}:{found['s'] or '00'}{zone}"
    try:
        datetime.fromisoformat(written)
    except ValueError:
        return None
    return written


_YES = {"yes", "y", "true", "是", "有", "对", "√", "✓", "✔", "☑", "✅"}
_NO = {"no", "n", "false", "否", "无", "没有", "×", "✗", "✘", "☐", "❌"}


def truth_of(text: str) -> bool | None:
    said = fold(text)
    return True if said in _YES else False if said in _NO else None
