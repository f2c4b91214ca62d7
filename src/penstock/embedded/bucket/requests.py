"""A request as it came, still encoded, and an answer on its way out."""

import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

from penstock.embedded.bucket.body import Body
from penstock.embedded.bucket.refusals import Refusal, malformed
from penstock.embedded.bucket.threads import current_work

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_LONGEST_ADDRESS, _LONGEST_HEADERS, _MOST_PARAMETERS = 16 * 1024, 32 * 1024, 64
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}(:\d{1,5})?|\[[0-9a-fA-F:.]{2,45}\](:\d{1,5})?")


class Request:
    """Names are given decoded, `raw_path` and `raw_query` as they were sent, for that is what was signed.

    `admit` is to be called once the sender has shown a right: a signature, a token, the address of a session.
    """

    def __init__(self, scope: Mapping[str, Any], body: Body) -> None:
        self._note_checked: Callable[[], None] = scope.get("checked", _nobody_cares)
        self.method: str = scope["method"]
        self.raw_path: str = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        self.raw_query: str = scope["query_string"].decode("latin-1")
        self.body = body
        headers = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        if not self.raw_path.startswith("/"):  # as in `OPTIONS *`, or `CONNECT host:port`
            raise malformed("The address is not one of this server's.")
        if len(self.raw_path) + len(self.raw_query) > _LONGEST_ADDRESS:
            raise Refusal(414, "UriTooLong", "The address is too long.")
        if sum(len(name) + len(value) for name, value in headers) > _LONGEST_HEADERS:
            raise Refusal(431, "HeadersTooLarge", "The headers are too large.")
        self.headers: dict[str, str] = {}
        for name, value in headers:
            self.headers[name] = f"{self.headers[name]},{value}" if name in self.headers else value
        self.query = _parameters(self.raw_query)

    async def admit(self, owner: str) -> None:
        """The sender has a right; what is done for it is this owner's, in its turn."""
        self._note_checked()
        await current_work().hand_to(owner)

    @property
    def host(self) -> str:
        host = self.headers.get("host", "")
        if not _HOST.fullmatch(host):
            raise malformed("Host cannot be read.")
        return host

    @property
    def content_length(self) -> int | None:
        text = self.headers.get("content-length")
        if text is None:
            return None
        if not text.isascii() or not text.isdigit() or len(text) > 18:
            raise malformed("Content-Length cannot be read.")
        return int(text)

    def number(self, name: str) -> int | None:
        """A generation, say, from the query."""
        text = self.query.get(name)
        return None if text is None else whole_number(text, name)

    def segments(self) -> list[str]:
        """The parts of the path, each decoded after the path was cut, so that %2F does not cut."""
        return [decoded(part) for part in self.raw_path.split("/")[1:]]


@dataclass(frozen=True, slots=True)
class Answer:
    """With a body, or with a piece of a file."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    file: Path | None = None
    first: int = 0
    length: int = 0


def _nobody_cares() -> None:
    return None


def whole_number(text: str, name: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise malformed(f"{name} is not a number.")
    return int(text)


def decoded(part: str) -> str:
    try:
        return unquote_to_bytes(part.encode("latin-1")).decode()
    except UnicodeDecodeError:
        raise malformed("The address is not UTF-8.") from None


def _parameters(raw: str) -> dict[str, str]:
    """Of a parameter that comes twice, the first counts."""
    try:
        pairs = parse_qsl(raw, keep_blank_values=True, errors="strict", max_num_fields=_MOST_PARAMETERS)
    except (UnicodeDecodeError, ValueError):
        raise malformed("The query cannot be read.") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        found.setdefault(name, value)
    return found
