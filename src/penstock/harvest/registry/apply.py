"""From a document to the tables: what would change, and changing it, in one transaction of the caller.

Killed anywhere, either all of a version is there or nothing of it. Two at once take turns; the second sees what the
first did. Plans that run are not touched: they live on their snapshots. The same document again changes nothing.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cronsim import CronSim

from penstock.harvest.registry import dictionaries, store
from penstock.harvest.registry.document import SourceDocument, fingerprint
from penstock.harvest.registry.source import RegisteredSource
from penstock.kernel import audit, error_codes, failpoints, outbox
from penstock.kernel.clock import Clock, SystemClock
from penstock.kernel.db import Tx
from penstock.kernel.errors import PenstockError
from penstock.kernel.events import Event

Check = Callable[[RegisteredSource], Sequence[Mapping[str, Any]]]
_PATHS_TOLD = 100
_ABSENT: Any = object()
_NOTHING: Mapping[str, Any] = {"description": "", "defaults": {}, "credentials": {}, "endpoints": {}, "schedules": []}


@dataclass(frozen=True, slots=True)
class Change:
    """`before` is None for what is new, `after` for what goes."""

    path: str
    before: Any
    after: Any

    def as_dict(self) -> dict[str, Any]:
        return {"path": self.path, "before": self.before, "after": self.after}


@dataclass(frozen=True, slots=True)
class Diff:
    """Against what the tables say now; `version` is theirs, 0 when the source is new."""

    provenance_code: str
    version: int
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Applied:
    """`version` is the one now in force; without changes it is the one from before."""

    provenance_code: str
    version: int
    changes: tuple[Change, ...]


def _accept_all(source: RegisteredSource) -> Sequence[Mapping[str, Any]]:  # noqa: ARG001  the default of `check`
    return ()


async def preview(tx: Tx, document: SourceDocument, *, check: Check = _accept_all) -> Diff:
    """Writes nothing."""
    before = await store.find(tx, document.source)
    after = document.canonical()
    await _refuse_unfit(tx, document, 0 if before is None else before.version, check)
    return _diff(before, after)


async def apply(
    tx: Tx, document: SourceDocument, by: str, *, check: Check = _accept_all, clock: Clock | None = None
) -> Applied:
    """SPEC_INVALID with what `check` found; it sees the source as it would be."""
    after = document.canonical()
    await dictionaries.seed(tx)
    version = await store.lock(tx, after, by)
    await _refuse_unfit(tx, document, version, check)
    diff = _diff(await store.find(tx, document.source), after)
    if diff.changes:
        version = await store.write(tx, after, by, fingerprint(after))
        failpoints.reach("registry.written")
        await store.write_schedules(tx, after, _first_runs(after, (clock or SystemClock()).now()))
        await store.keep_version(
            tx, after, version=version, changes=[each.as_dict() for each in diff.changes], by=by
        )  # fmt: skip
        await _tell(tx, document.source, version, diff, by)
    if diff.changes or not document.is_remote:  # the same document over the API takes nothing from the operator's
        await store.note_reach(tx, document.source, allows_private=not document.is_remote)
    await store.note_origins(tx, document.source, document.origins)
    return Applied(document.source, version, diff.changes)


async def _refuse_unfit(tx: Tx, document: SourceDocument, version: int, check: Check) -> None:
    codes = await dictionaries.known_codes(tx)
    source = RegisteredSource.of(document.canonical(), version=version + 1, origins=document.origins, codes=codes)
    problems = await asyncio.to_thread(check, source)  # a large one takes a while
    if problems:
        raise PenstockError(error_codes.SPEC_INVALID, source=document.source, problems=list(problems))


def _diff(before: RegisteredSource | None, after: dict[str, Any]) -> Diff:
    if before is None:
        return Diff(after["source"], 0, tuple(_changes((), _NOTHING, after)))
    return Diff(after["source"], before.version, tuple(_changes((), before.document, after)))


def _changes(path: tuple[str, ...], before: Any, after: Any) -> Iterator[Change]:
    """Mappings key by key, anything else as a whole. A key that says null is not a key that is not there."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted({*before, *after}):
            was, becomes = before.get(key, _ABSENT), after.get(key, _ABSENT)
            if _ABSENT in (was, becomes) and {} not in (was, becomes):
                was, becomes = _beside(was, becomes), _beside(becomes, was)
            yield from _changes((*path, key), was, becomes)
    elif before is _ABSENT or after is _ABSENT or before != after:
        yield Change(".".join(path), None if before is _ABSENT else before, None if after is _ABSENT else after)


def _beside(value: Any, other: Any) -> Any:
    """What is not there beside a mapping counts as an empty one, so that its keys are told one by one."""
    return {} if value is _ABSENT and isinstance(other, Mapping) else value


def _first_runs(document: Mapping[str, Any], now: datetime) -> dict[tuple[str, str], datetime]:
    """By the clock for cron, at once for intervals."""
    return {
        (each["endpoint"], each["operation"]): next(CronSim(each["cron"], now.astimezone(UTC)))
        if "cron" in each
        else now
        for each in document["schedules"]
    }


async def _tell(tx: Tx, code: str, version: int, diff: Diff, by: str) -> None:
    paths = [each.path for each in diff.changes[:_PATHS_TOLD]]
    facts = {"version": version, "changes": len(diff.changes), "paths": paths}
    await audit.record(
        tx, audit.Entry(actor=by, role="operator", action="apply_source", subject=f"source:{code}", details=facts)
    )
    await outbox.announce(tx, Event("source.applied", "source", code, {"source": code, "by": by, **facts}))
