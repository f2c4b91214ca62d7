"""Secrets: looked up where a credential points to, when a request is made, and kept for moments only.

A reference says where a secret is: `{env: NAME}`, `{file: path}` or `{store: name}` (a file of the secrets directory);
or several of them by name, `{clientId: {env: …}, secret: {file: …}}`. Invariant: a value is never part of a
message, a log line or a repr.
"""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from penstock.kernel import error_codes
from penstock.kernel.clock import Clock, SystemClock
from penstock.kernel.errors import PenstockError

Lookup = Callable[[str, str], Awaitable[Mapping[str, Any] | None]]  # source and credential to where its secret is

ALONE = "secret"  # the name of a credential's only part
KEPT = timedelta(seconds=30)
_LONGEST = 65_536
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_PUBLIC = frozenset({"clientId"})  # may stand in the registry itself
_POINTERS = frozenset({"env", "file", "store"})


@dataclass(frozen=True, slots=True)
class Secret:
    """The parts of one credential. Nobody sees them by accident."""

    parts: Mapping[str, str] = field(repr=False)

    @property
    def alone(self) -> str:
        """The only part, or the first that is no name."""
        return self.parts.get(ALONE) or next(iter(self.parts.values()))

    def __getitem__(self, name: str) -> str:
        return self.parts[name]

    def values(self) -> tuple[str, ...]:
        return tuple(value for name, value in self.parts.items() if name not in _PUBLIC)


class Credentials:
    """One per process."""

    def __init__(self, lookup: Lookup, secrets: Path | None = None, clock: Clock | None = None) -> None:
        self._lookup = lookup
        self._directory = secrets
        self._clock: Clock = clock or SystemClock()
        self._kept: dict[tuple[str, str], tuple[float, Secret]] = {}

    async def secret(self, source: str, code: str) -> Secret:
        """CREDENTIAL_MISSING says where it was looked for."""
        kept = self._kept.get((source, code))
        if kept is not None and kept[0] > self._clock.monotonic():
            return kept[1]
        reference = await self._lookup(source, code)
        if not reference:
            raise _missing(code, "the registry has no such credential")
        found = await asyncio.to_thread(self._read, code, reference)
        self._kept[source, code] = (self._clock.monotonic() + KEPT.total_seconds(), found)
        return found

    def forget(self, source: str, code: str) -> None:
        """The next one who asks gets what is there now: after a rotation, or when it was refused."""
        self._kept.pop((source, code), None)

    def _read(self, code: str, reference: Mapping[str, Any]) -> Secret:
        if _POINTERS & reference.keys():
            return Secret({ALONE: self._follow(code, reference)})
        parts = {}
        for name, pointer in reference.items():
            if pointer is None:
                continue
            if name in _PUBLIC and isinstance(pointer, str):
                parts[name] = pointer
            elif isinstance(pointer, Mapping):
                parts[name] = self._follow(code, pointer)
            else:
                raise _missing(code, f"{name} must say env, file or store")
        if not parts:
            raise _missing(code, "the registry does not say where it is")
        return Secret(parts)

    def _follow(self, code: str, pointer: Mapping[str, Any]) -> str:
        pointer = {kind: where for kind, where in pointer.items() if where is not None}
        if len(pointer) != 1 or not isinstance(where := next(iter(pointer.values())), str):
            raise _missing(code, "a reference says one of env, file and store")
        kind = next(iter(pointer))
        if kind == "env":
            value = os.environ.get(where, "")
        elif kind in _POINTERS:
            value = _file(code, kind, where, Path(where) if kind == "file" else self._stored(code, where))
        else:
            raise _missing(code, "a reference says one of env, file and store")
        if not (value := value.strip()):
            raise _missing(f"{kind}: {where}", "it is not set, or empty")
        return value

    def _stored(self, code: str, name: str) -> Path:
        if self._directory is None:
            raise _missing(f"store: {name}", "PENSTOCK_HARVEST_SECRETS is not set")
        if not _PLAIN_NAME.fullmatch(name):
            raise _missing(code, "a name in the store has letters, digits, '_', '.' and '-' only")
        return self._directory / name


def _file(code: str, kind: str, where: str, path: Path) -> str:
    try:
        with path.open("rb") as opened:
            found = opened.read(_LONGEST + 1)
        if len(found) > _LONGEST:
            raise _missing(f"{kind}: {where}", "it is too large for a secret")
        return found.decode()
    except OSError as failure:
        raise _missing(f"{kind}: {where}", failure.strerror or "it cannot be read") from None
    except UnicodeDecodeError:
        raise _missing(code, "it is not text") from None


def _missing(reference: str, reason: str) -> PenstockError:
    return PenstockError(error_codes.CREDENTIAL_MISSING, reference=reference, reason=reason)
