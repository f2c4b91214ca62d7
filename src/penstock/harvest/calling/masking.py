"""What goes into evidence, messages and quarantine: without the secrets of the call, without people's addresses.

Secrets are found in every spelling in which a server may send them back: as they are, percent-encoded, in base64 (at
any offset, as inside `id:secret`) and escaped in JSON. Invariant: masking comes before cutting, so that no half of a
secret is left at an edge.
"""

import base64
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from penstock.kernel.telemetry import Masker

MASK = "<masked>"  # no word that the masker for logs would take for the name of a secret
SAMPLE = 1_024
_READ = 12_288
_FIRST_READ = 2_304  # enough for nearly all samples: masking is most of what a batch's evidence costs
_HALF = 1_024  # no half of something to be masked is longer; longer ones are known by their beginning
_SHORTEST = 4
_PEOPLE = Masker()  # its hashes cannot be tried out: the key lives and dies with the process


class Mask:
    """For one call, with what was secret in it."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        spelled = {one for secret in secrets if secret for one in _spellings(secret)}
        patterns = [_pattern(one) for one in sorted(spelled, key=len, reverse=True)]
        self._secrets = re.compile("|".join(patterns), re.IGNORECASE) if patterns else None
        self._longest = max((len(one) for one in spelled), default=0)

    def text(self, text: str) -> str:
        """Secrets and people's addresses."""
        return _PEOPLE.text(self.secrets(text))

    def secrets(self, text: str) -> str:
        return self._secrets.sub(MASK, text) if self._secrets else text

    def value(self, value: Any) -> Any:
        """The same in texts anywhere inside of lists and objects."""
        if isinstance(value, str):
            return self.secrets(value)
        if isinstance(value, bytes):
            return self.secrets(value.decode(errors="replace"))
        if isinstance(value, Mapping):
            return {self.value(name): self.value(inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(inner) for inner in value]
        return value

    def link(self, url: str) -> str:
        """An address that will be asked for: parameters that hold a secret are left out, the rest is as it was."""
        if self._secrets is None or not self._secrets.search(url):
            return url
        address, _, query = url.partition("#")[0].partition("?")
        kept = [piece for piece in query.split("&") if not self._secrets.search(piece)]
        return self.secrets(address) + (f"?{'&'.join(kept)}" if any(kept) else "")

    def sample(self, body: bytes, limit: int = SAMPLE) -> str:
        """The beginning of a body, at most `limit` bytes."""
        masked = self._masked(body, _FIRST_READ)
        if len(body) > _FIRST_READ and len(masked) < limit + _HALF:  # what stands at the edge would be seen
            masked = self._masked(body, _READ)
        return masked[:limit].decode(errors="ignore")

    def _masked(self, body: bytes, length: int) -> bytes:
        whole = body[: length + 4 * self._longest].decode(errors="replace").replace("\x00", "\N{REPLACEMENT CHARACTER}")
        return self.text(self.secrets(whole)[:length]).encode(errors="replace")


def _spellings(secret: str) -> set[str]:
    raw = secret.encode()
    found = {secret, quote(secret, safe=""), quote(secret), quote_plus(secret)}
    found |= {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    found.add(json.dumps(secret)[1:-1].replace("/", "\\/"))
    if len(raw) >= _SHORTEST:
        for offset in range(3):
            for encode in (base64.b64encode, base64.urlsafe_b64encode):
                found.add(_inner(encode(b"\x00" * offset + raw).decode(), offset, len(raw)))
    return {one for one in found if one}


def _inner(encoded: str, offset: int, length: int) -> str:
    """The letters that depend on the secret alone, not on what stands before or after it."""
    first = (offset * 8 + 5) // 6
    last = ((offset + length) * 8) // 6
    return encoded[first:last]


def _pattern(text: str) -> str:
    escaped = re.escape(text)
    return escaped if len(text) >= _SHORTEST else rf"(?<!\w){escaped}(?!\w)"
