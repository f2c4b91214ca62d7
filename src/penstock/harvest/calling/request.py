"""One request as it was rendered, before anything secret is added to it.

Invariant: no secret ever gets into a `Request`: it can be stored, shown and sent to logs as it is described.
"""

import hashlib
import json as jsonlib
import re
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode, urlsplit

from penstock.kernel.telemetry.patterns import is_secret_name

# Somebody may have written a key into a template. Tokens of paging are no secrets, and a replay needs them.
_KEY = re.compile(r"api[-_]?key|secret|passw|authorization|(access|auth|api|bearer)[-_]?token|signature", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    url: str
    query: tuple[tuple[str, str], ...] = ()
    headers: dict[str, str] = field(default_factory=dict)
    form: dict[str, str] | None = None
    json: Any | None = None
    ids: tuple[str, ...] = ()  # of the records that it asks for
    now: datetime | None = None  # what `now()` was in its templates

    def described(self) -> dict[str, Any]:
        """For evidence, from which the request can be made again.

        A body is told by its hash, the names of its fields and the ids that it asks for, as it may hold secrets.
        """
        shown: dict[str, Any] = {
            "method": self.method,
            "url": self.url,
            "query": [[name, "<masked>" if _KEY.search(name) else value] for name, value in self.query],
            "headers": [
                f"{name}: {'<masked>' if is_secret_name(name) else value}" for name, value in self.headers.items()
            ],
        }
        if self.now is not None:
            shown["now"] = self.now.isoformat()
        body, content_type = self.content()
        if body is not None:
            fields = self.form if self.form is not None else self.json
            shown["bodyHash"] = f"sha256:{hashlib.sha256(body).hexdigest()}"
            shown["bodyType"] = content_type
            shown["bodyFields"] = sorted(fields) if isinstance(fields, dict) else []
            shown["ids"] = list(self.ids)
        return shown

    def content(self) -> tuple[bytes | None, str | None]:
        """The bytes of the body, and their type; the same bytes are signed and sent."""
        if self.form is not None:
            return urlencode(self.form).encode(), "application/x-www-form-urlencoded"
        if self.json is not None:
            text = jsonlib.dumps(self.json, ensure_ascii=False, separators=(",", ":"))
            return text.encode(), "application/json"
        return None, None

    def address(self) -> str:
        """With its query."""
        return f"{self.url}?{urlencode(self.query)}" if self.query else self.url

    def with_fields(self, fields: dict[str, str]) -> "Request":
        if not fields:
            return self
        if self.json is not None:
            return replace(self, json={**self.json, **fields})
        return replace(self, form={**(self.form or {}), **fields})


Origin = tuple[str, str, int | None]


def origin_of(url: str) -> Origin:
    """Scheme, host and port; ValueError when there is no such thing in it."""
    parts = urlsplit(url)
    scheme, host = parts.scheme.lower(), (parts.hostname or "").rstrip(".").lower()
    if scheme not in {"http", "https"} or not host:
        raise ValueError("no web address")
    return scheme, host, parts.port or (443 if scheme == "https" else 80)
