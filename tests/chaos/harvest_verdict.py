"""The verdict on a harvest: the records are the source's, each version was stored once, cursors only ever advanced."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from tests.chaos.stage import Stage
from tests.standins import Standin

_STORED = """
select provider_id, updated_at, is_deleted, body, revision from ing_record where provenance_code = %(source)s
"""
_WRITES = """
select coalesce(sum((stats ->> 'inserted')::int + (stats ->> 'updated')::int), 0) from ing_task_run_batch
where provenance_code = %(source)s
"""
_ANNOUNCED = """
select told ->> 'providerId', (told ->> 'updatedAt')::timestamptz, (told ->> 'revision')::int
from outbox_events o, lateral jsonb_array_elements(o.payload -> 'records') told
where o.event_type = 'record.changed' and o.payload ->> 'source' = %(source)s
"""
_MOVES = """
select e.namespace_scope_code || e.namespace_key, e.operation_code, e.direction_code, c.origin_instant, e.prev_instant,
  e.new_instant, e.covered_from, e.covered_to, b.status_code,
  exists (select from ing_task_run_batch later where later.task_id = e.task_id and later.id > e.batch_id),
  coalesce(e.prev_numeric, 0), coalesce(e.new_numeric, 0)
from ing_cursor_event e join ing_cursor c using (provenance_code, operation_code, cursor_key, namespace_scope_code,
  namespace_key) left join ing_task_run_batch b on b.id = e.batch_id
where e.provenance_code = %(source)s order by e.id
"""
_HELD = {
    "ing_task": "leased_until is not null",
    "ing_task_run": "status_code in ('PLANNED', 'RUNNING')",
    "ing_slot s join ing_task t on t.id = s.task_id": "true",
}


def judge_records(stage: Stage, api: Standin, source: str, instant: datetime) -> int:
    """Exactly what the source held at that moment, in its newest version. Returns how many there are."""
    says_deleted = api.name == "generic"  # others have no word for it, or show it in the body alone
    truth = {
        key: (shown.updated, shown.is_deleted and says_deleted, shown.body.strip())
        for key, shown in api.records_at(instant).items()
    }
    stored = {
        key: (updated, is_deleted, body.encode())
        for key, updated, is_deleted, body, _ in stage.query(_STORED, {"source": source})
    }
    missing, strange = truth.keys() - stored.keys(), stored.keys() - truth.keys()
    old = [key for key in truth.keys() & stored.keys() if truth[key] != stored[key]]
    assert not missing, f"{len(missing)} of {len(truth)} are missing: {_some(missing, truth)}"
    assert not strange, f"{len(strange)} are not of the source: {_some(strange, stored)}"
    assert not old, f"{len(old)} are not as the source has them: {_some(old, truth)} and not {_some(old, stored)}"
    return len(stored)


def judge_writes(stage: Stage, api: Standin, source: str) -> int:
    """As many writes as versions, none of them twice, none that the source never had. Returns the number of writes."""
    revisions = {key: revision for key, *_, revision in stage.query(_STORED, {"source": source})}
    [(written,)] = stage.query(_WRITES, {"source": source})
    assert written == sum(revisions.values()), f"{written} writes, {sum(revisions.values())} revisions"
    told = stage.query(_ANNOUNCED, {"source": source})
    if told:  # sources that announce what they store
        assert len(told) == written, f"{len(told)} versions announced, {written} stored"
        known = {(api.id_of(entry.number), api.shown(entry)) for entry in api.library.revisions()}
        versions = Counter((key, updated) for key, updated, _ in told)
        twice = {version: times for version, times in versions.items() if times > 1}
        assert not twice, f"stored twice: {_some(twice, twice)}"
        assert versions.keys() <= known
        assert {(key, revision) for key, _, revision in told} == {
            (key, number) for key, last in revisions.items() for number in range(1, last + 1)
        }
    return int(written)


def judge_cursors(stage: Stage, source: str) -> int:
    """Every event follows from those before it: never back, and never past what is not stored. Returns their number."""
    spans: dict[tuple[str, str], list[tuple[datetime, datetime]]] = {}
    reached: dict[tuple[str, str], datetime | None] = {}
    events = stage.query(_MOVES, {"source": source})
    for space, operation, direction, origin, before, after, start, end, batch, is_early, *numbers in events:
        name = (operation, space)
        assert batch in ("SUCCEEDED", "SKIPPED", None), f"a cursor moved by a batch that is {batch}"
        assert not is_early, f"{name} counted {start} to {end} as stored before the last batch of it was"
        if operation == "UPDATE":
            assert numbers[1] >= numbers[0], f"{name} went back from {numbers[0]} to {numbers[1]}"
            continue
        assert before == reached.get(name, origin), f"{name} stood at {reached.get(name)}, the event says {before}"
        known = spans.setdefault(name, [])
        known.append((datetime.fromisoformat(start), datetime.fromisoformat(end)))
        whole = _whole_to(origin, known, forward=direction == "FORWARD")
        assert after == whole, f"{name} moved to {after}, but only up to {whole} everything is stored"
        reached[name] = after
    for operation, space, value in stage.query(
        "select operation_code, namespace_scope_code || namespace_key, normalized_instant from ing_cursor"
        " where provenance_code = %(source)s",
        {"source": source},
    ):
        if (operation, space) in reached:
            assert value == reached[operation, space]
    return len(events)


def judge_books(stage: Stage, source: str) -> None:
    """Nothing is held any more, and nobody's run is open."""
    for table, held in _HELD.items():
        assert (
            stage.query(f"select * from {table} where provenance_code = %(source)s and {held}", {"source": source})
            == []
        )


def _whole_to(origin: datetime, spans: list[tuple[datetime, datetime]], *, forward: bool) -> datetime:
    """The end of the stretch without a gap that begins at the origin."""
    place = origin
    for start, end in sorted(spans) if forward else sorted(spans, key=lambda span: span[1], reverse=True):
        if forward and start <= place:
            place = max(place, end)
        elif not forward and end >= place:
            place = min(place, start)
    return place


def _some(keys: Iterable[Any], known: Mapping[Any, Any]) -> str:
    return ", ".join(f"{key}: {str(known[key])[:120]}" for key in sorted(keys)[:3])
