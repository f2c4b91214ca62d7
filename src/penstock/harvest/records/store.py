"""Storing a page of records: newer versions win, whoever comes first, and each stored version is counted once.

One page is one `insert … select from unnest(…) on conflict do update … where newer`, the columns sent as binary
arrays. Compared with COPY into a staging table, or MERGE, that is the least work for client and server.

A page that has been read before should not cost as much as a new one: `do update where false` still locks the row,
which writes it. So a few ids are looked up first; when one of them is known, all are, and the bodies of those that
hold nothing new are not even sent. The look-up is a saving only: what is true is decided by the insert.

Rows are locked in the order of their ids, so pages with the same ids wait for each other and never in a circle. What
is merely marked as seen is marked last, and never waits. `checked_at` of an unchanged record moves when UPDATE asks,
otherwise once a day at most: touching a row costs as much as writing it.

The look-up is planned anew each time (prepare=False): a plan kept from the day when the table was empty would read
the whole table for each id.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from penstock.harvest.page import Fault, FaultKind, Page
from penstock.harvest.records.announcing import announce_changes
from penstock.harvest.records.arrays import TextArray, booleans, instants, make_known, texts, texts_or_null
from penstock.harvest.records.counting import Counts, Place
from penstock.harvest.records.quarantine_store import release
from penstock.harvest.records.sifting import one_per_id, pick, set_aside, without_nul
from penstock.harvest.spec import Operation
from penstock.kernel.db import Tx, fetch_one

MARK_AFTER = timedelta(days=1)
_SAMPLE = 16
_NUMBER = r"'^[0-9]{1,30}(\.[0-9]{1,30})?$'"


def _outranks(new: str, old: str) -> str:
    """As sifting.outranks, for a new and an old version."""
    return (
        f"case when {new} is null or {old} is null or {new} = {old} then false"
        f" when {new} ~ {_NUMBER} and {old} ~ {_NUMBER} then {new}::numeric > {old}::numeric"
        f" when ({new} ~ {_NUMBER}) <> ({old} ~ {_NUMBER}) then {old} ~ {_NUMBER}"
        f' else {new} collate "C" > {old} end'
    )


def _beats(new: str, old: str, differs: str) -> str:
    """Newer; or as new with a greater version; or as new and other content, where the place lets that replace. A time
    that we made up ourselves makes nothing newer that has the same content."""
    return (
        f"(({new}.updated_at > {old}.updated_at and (not %(guesses_time)s or (true{differs})))"
        f" or ({new}.updated_at = {old}.updated_at and"
        f" ({_outranks(f'{new}.version', f'{old}.version')}"
        f" or ((%(replaces)s or (%(reads_again)s and {old}.expr_hash <> %(expr_hash)s)){differs}"
        f" and not {_outranks(f'{old}.version', f'{new}.version')}))))"
    )


_DIFFERS = " and (excluded.body <> held.body or excluded.fields is distinct from held.fields)"
_KEY = "provenance_code = %(source)s and endpoint_name = %(endpoint)s and provider_id"
_LOOK_UP = f"""
select coalesce(array_agg(given.n) filter (where not {_beats("given", "held", "")}), '{{}}') as settled,
       coalesce(array_agg(given.n) filter (where held.checked_at < now() - %(rest)s), '{{}}') as unmarked,
       exists (select from ing_quarantine where provenance_code = %(source)s and endpoint_name = %(endpoint)s
         and provider_id is not null and released_at is null) as is_quarantining
from unnest(%(ids)s, %(updated)s, %(versions)s::text[]) with ordinality as given (id, updated_at, version, n),
     lateral (select updated_at, version, expr_hash, checked_at from ing_record where {_KEY} = given.id limit 1) held
"""
_WRITE = f"""
with written as (
  insert into ing_record as held (provenance_code, endpoint_name, provider_id, updated_at, version, is_deleted, body,
    fields, expr_hash, batch_run_id, batch_no)
  select %(source)s, %(endpoint)s, given.id, given.updated_at, given.version, coalesce(given.is_deleted, false),
    given.body, given.fields::jsonb, %(expr_hash)s, %(run_id)s, %(batch_no)s
  from unnest(%(ids)s, %(updated)s, %(versions)s::text[], %(deleted)s::boolean[], %(bodies)s, %(fields)s::text[])
    as given (id, updated_at, version, is_deleted, body, fields)
  on conflict (provenance_code, endpoint_name, provider_id) do update set
    updated_at = excluded.updated_at, version = excluded.version, is_deleted = excluded.is_deleted,
    body = excluded.body, fields = excluded.fields, expr_hash = excluded.expr_hash,
    batch_run_id = excluded.batch_run_id, batch_no = excluded.batch_no, revision = held.revision + 1,
    changed_at = now(), checked_at = now()
  where {_beats("excluded", "held", _DIFFERS)}
  returning held.provider_id, held.revision)
select count(*) filter (where revision = 1) as inserted, count(*) as written
"""
_COUNTED = _WRITE + " from written"
_NAMED = _WRITE + ", array_agg(provider_id) as ids, array_agg(revision) as revisions from written"
_MARK = f"""
update ing_record set checked_at = now(), expr_hash = case when %(reads_again)s then %(expr_hash)s else expr_hash end
where ctid = any (array(
  select held.ctid from unnest(%(ids)s) as given (id), lateral (
    select ctid from ing_record where {_KEY} = given.id and checked_at < now() - %(rest)s limit 1
    for update skip locked) held))
"""


@dataclass(slots=True)
class _Columns:
    """What of a page is on its way to the table."""

    page: Page
    positions: list[int]

    def key_columns(self, positions: list[int]) -> dict[str, Any]:
        page = self.page
        return {
            "ids": self.ids(positions),
            "updated": instants(pick(page.updated, positions)),
            "versions": None if page.versions is None else texts_or_null(pick(page.versions, positions)),
        }

    def all_columns(self) -> dict[str, Any]:
        page, positions = self.page, self.positions
        return {
            **self.key_columns(positions),
            "deleted": None if page.deleted is None else booleans(pick(page.deleted, positions)),
            "bodies": texts(pick(page.bodies, positions)),
            "fields": None if page.fields is None else texts(without_nul(pick(page.fields, positions))),
        }

    def ids(self, positions: list[int]) -> TextArray:
        return texts([given.encode() for given in pick(self.page.ids, positions)])


async def upsert(tx: Tx, place: Place, page: Page) -> Counts:
    """Store what is new. Items that cannot be stored at all become faults of the page and are not counted."""
    set_aside(page)
    if not page.ids:
        return Counts()
    columns = _Columns(page, one_per_id(page, last_wins=place.on_equal == "REPLACE"))
    everything = columns.positions
    make_known(tx)
    facts = _facts(place)
    known = await _look_up(tx, facts, columns)
    written = await _write(tx, facts, columns, named=place.announces or known.is_quarantining)
    if known.is_quarantining:
        await release(tx, place, page.ids, written.ids)
    if place.announces:
        await announce_changes(tx, place, page, _changes(columns, written))
    if known.unmarked or written.count < len(columns.positions):
        seen = known.unmarked if written.count == len(columns.positions) else everything
        await tx.execute(_MARK, {**facts, "ids": columns.ids(seen)}, prepare=False)
    return Counts(written.inserted, written.count - written.inserted, len(page.ids) - written.count)


async def mark_absent(tx: Tx, place: Place, faults: Sequence[Fault]) -> None:
    """Records that a refresh asked for in vain count as looked at: otherwise it would begin with them for ever."""
    ids = [fault.provider_id.encode() for fault in faults if fault.kind is FaultKind.NO_DETAIL and fault.provider_id]
    if ids and place.operation is Operation.UPDATE:
        make_known(tx)
        await tx.execute(_MARK, {**_facts(place), "reads_again": False, "ids": texts(ids)}, prepare=False)


def _facts(place: Place) -> dict[str, Any]:
    again = place.operation is Operation.UPDATE
    return {
        "source": place.provenance_code,
        "endpoint": place.endpoint_name,
        "expr_hash": place.expr_hash,
        "run_id": place.run_id,
        "batch_no": place.batch_no,
        "replaces": place.on_equal == "REPLACE",
        "reads_again": again,
        "guesses_time": place.guesses_time,
        "rest": timedelta(0) if again else MARK_AFTER,
    }


@dataclass(frozen=True, slots=True)
class _Known:
    unmarked: list[int]  # positions of records that have not been marked as seen lately
    is_quarantining: bool  # something of this endpoint waits in quarantine to be released


async def _look_up(tx: Tx, facts: dict[str, Any], columns: _Columns) -> _Known:
    """Drop what holds nothing new from `columns`; first by a sample, so that a page of new records is not slowed."""
    positions = columns.positions
    step = max(1, len(positions) // _SAMPLE)
    row = await _compare(tx, facts, columns.key_columns(positions[::step]))
    if step > 1 and row["settled"]:
        row = await _compare(tx, facts, columns.key_columns(positions))
        step = 1
    if step > 1:
        return _Known([], row["is_quarantining"])
    settled = set(row["settled"])
    columns.positions = [position for n, position in enumerate(positions, 1) if n not in settled]
    return _Known([positions[n - 1] for n in row["unmarked"] if n in settled], row["is_quarantining"])


async def _compare(tx: Tx, facts: dict[str, Any], keys: dict[str, Any]) -> dict[str, Any]:
    cursor = await tx.execute(_LOOK_UP, {**facts, **keys}, prepare=False)
    row = await cursor.fetchone()
    assert row is not None  # noqa: S101  an aggregate always has one row
    return row


@dataclass(frozen=True, slots=True)
class _Written:
    inserted: int = 0
    count: int = 0
    ids: Sequence[str] = ()  # where they are asked for
    revisions: Sequence[int] = ()


async def _write(tx: Tx, facts: dict[str, Any], columns: _Columns, *, named: bool) -> _Written:
    if not columns.positions:
        return _Written()
    row = await fetch_one(tx, _NAMED if named else _COUNTED, {**facts, **columns.all_columns()})
    assert row is not None  # noqa: S101  as above
    return _Written(row["inserted"], row["written"], row.get("ids") or (), row.get("revisions") or ())


def _changes(columns: _Columns, written: _Written) -> list[tuple[int, int]]:
    """Position in the page and revision of each that was stored."""
    position_of = {columns.page.ids[position]: position for position in columns.positions}
    return [(position_of[given], revision) for given, revision in zip(written.ids, written.revisions, strict=True)]
