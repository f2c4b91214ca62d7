"""Nothing secret or personal leaves in a log line or a span.

A value is masked when its key's name says that it is secret, or when a text holds something that looks
secret or personal: credentials in URLs and headers, tokens, keys, e-mail addresses, phone and identity
numbers. What replaces it is a kind and a short keyed hash, `<email#1f0c9a3e>`: equal values stay comparable
by whoever has the logs, and without the key nobody can try out all phone numbers.

Cost is bounded: texts are cut at a length, structures at a depth and a number of parts, and every pattern
is linear (it starts at a fixed word or at the beginning of a run, and repeats without backing up). A text is
cut before it is searched, never inside its last word, so that half a secret cannot slip through.
"""

import hashlib
import re
import secrets
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, Final

from penstock.kernel.telemetry.patterns import (
    ANY_NUMBER,
    ASSIGNMENT,
    CARRIED,
    EMAIL,
    IDENTITY_WEIGHTS,
    MASKED_SECRET,
    NUMBERS,
    OPTION,
    is_secret_name,
    mentions_a_secret_name,
)

LONGEST_TEXT: Final = 16_384
_LONGEST_WORD = 1_024
_DEEPEST = 8
_MOST_PARTS = 1_000
_AROUND_VALUES = "\\\"' ,;)]}"
_PLAIN_NAME = re.compile(r"[a-z_]{1,32}")  # nothing personal fits into it
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(9), 11, 12, *range(14, 32), *range(127, 160))}
_CONTROL |= {code: f"\\u{code:04x}" for code in (0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))}


class Masker:
    """Masks with one key. Processes that share the key give equal values equal masks."""

    def __init__(self, key: bytes = b"") -> None:
        self._key = hashlib.sha256(key).digest() if key else secrets.token_bytes(32)

    def text(self, text: str) -> str:
        """The text with everything suspicious masked, and cut when it is long."""
        whole = len(text)
        if whole > LONGEST_TEXT:
            text = _cut(text)
        text = text if text.isprintable() else text.translate(_CONTROL)
        if mentions_a_secret_name(text):
            text = OPTION.sub(self._assignment, ASSIGNMENT.sub(self._assignment, text))
        text = CARRIED.sub(self._carried, text)
        if "@" in text or "%40" in text:
            text = EMAIL.sub(lambda found: self._mask("email", found[0].lower().replace("%40", "@")), text)
        if ANY_NUMBER.search(text):
            text = NUMBERS.sub(self._number, text)
        return text if whole <= LONGEST_TEXT else f"{text} … (of {whole} characters)"

    def value(self, value: Any) -> Any:
        """The same for anything that can be logged; what comes back is plain JSON."""
        return _Walk(self).value(value, 0)

    def secret(self, value: Any) -> str:
        """The mask of a value that is secret whatever it looks like."""
        return self._mask("secret", value if isinstance(value, str) else repr(value))

    def _mask(self, kind: str, value: str) -> str:
        digest = hashlib.blake2b(value[:LONGEST_TEXT].encode(errors="replace"), key=self._key, digest_size=4)
        return f"<{kind}#{digest.hexdigest()}>"

    def _assignment(self, found: re.Match[str]) -> str:
        value = found["value"]
        if not is_secret_name(found["name"]) or MASKED_SECRET.fullmatch(value):
            return found[0]
        return found["before"] + self.secret(value.strip(_AROUND_VALUES))

    def _carried(self, found: re.Match[str]) -> str:
        if found["userinfo"]:
            return f"://{self._mask('credentials', found['userinfo'])}@"
        if found["scheme"]:
            return f"{found['scheme']} {self.secret(found['credentials'])}"
        return self.secret(found[0])

    def _number(self, found: re.Match[str]) -> str:
        text = found[0]
        if found.lastgroup == "harmless" or (found.lastgroup == "identity" and not _is_identity_number(text)):
            return text
        if found.lastgroup == "identity":
            return self._mask("id", text.upper())
        digits = "".join(character for character in text if character.isdigit())
        return self._mask("phone", digits[-11:] if found.lastgroup == "mobile" else digits)


class _Walk:
    """One pass over a structure; the number of its parts is bounded in all, not per level."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._left = _MOST_PARTS

    def value(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            return "…"
        if isinstance(value, Mapping):
            return self._mapping(value, depth)
        if isinstance(value, list | tuple | set | frozenset):
            return self._sequence(value, depth)
        if value is None or isinstance(value, bool | float):
            return value
        return self._integer(value) if isinstance(value, int) else self._masker.text(_shown(value))

    def _integer(self, value: int) -> int | str:
        if -(10**10) < value < 10**10:
            return value
        if abs(value) >= 10**300:
            return "…"
        shown = str(value)
        masked = self._masker.text(shown)
        return value if masked == shown else masked

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        masked: dict[str, Any] = {}
        for key, inner in value.items():
            if self._left < 0:
                masked["…"] = f"of {len(value)}"
                break
            name = key.decode(errors="replace") if isinstance(key, bytes) else _shown(key)
            shown = name if _PLAIN_NAME.fullmatch(name) else self._masker.text(name)
            masked[shown] = self._named(name, inner, depth)
        return masked

    def _sequence(self, value: Any, depth: int) -> Any:
        parts = list(value)
        if len(parts) == 2 and isinstance(parts[0], str | bytes):  # a header, as a pair
            name = parts[0] if isinstance(parts[0], str) else parts[0].decode(errors="replace")
            if is_secret_name(name):
                return [self._masker.text(name), self._named(name, parts[1], depth)]
        masked = []
        for part in parts:
            if self._left < 0:
                masked.append(f"… of {len(parts)}")
                break
            masked.append(self.value(part, depth + 1))
        return masked

    def _named(self, name: str, value: Any, depth: int) -> Any:
        if not is_secret_name(name) or value is None or isinstance(value, bool) or value == "":
            return self.value(value, depth + 1)
        if isinstance(value, int | float) and name.lower().rstrip("s").endswith("token"):
            return value  # a count, or the fencing number of a lease
        self._left -= 1
        return self._masker.secret(value)


def _cut(text: str) -> str:
    """The beginning of a text, up to the end of a word and without a number that may go on."""
    kept = text[:LONGEST_TEXT]
    for back in range(1, _LONGEST_WORD):
        if kept[-back].isspace():
            return kept[:-back].rstrip(" \t0123456789()+-.")
    return kept[:-_LONGEST_WORD]


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    if isinstance(value, datetime | date):
        return value.isoformat()
    try:
        return f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else repr(value)
    except Exception as failure:  # noqa: BLE001  a log line must not fail because of what it shows
        return f"<{type(value).__name__}, which cannot be shown: {type(failure).__name__}>"


def _is_identity_number(text: str) -> bool:
    """The check digit of GB 11643."""
    total = sum(int(digit) * weight for digit, weight in zip(text, IDENTITY_WEIGHTS, strict=False))
    return "10X98765432"[total % 11] == text[-1].upper()
