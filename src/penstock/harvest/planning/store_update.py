"""The SQL of refreshes: which records are to be looked at again, and the signals about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from penstock.harvest.planning.slicing import Candidate
from penstock.kernel.db import Tx, fetch_all, fetch_one

if TYPE_CHECKING:
    from penstock.harvest.planning.signals import Reason

# Ids that a task waits for or fetches right now, and those that this plan has taken up already.
_TAKEN = " not exists (select from taken where taken.provider_id = r.provider_id)"
_WITH_TAKEN = (
    "with taken as materialized (select jsonb_array_elements_text(s.expr_snapshot -> 'ids') as provider_id"
    " from ing_plan_slice s where s.plan_id = %(plan)s or s.id in (select t.slice_id from ing_task t"
    "  where t.provenance_code = %(source)s and t.endpoint_name = %(endpoint)s and t.operation_code = 'UPDATE'"
    "  and t.status_code in ('QUEUED', 'DISPATCHED', 'EXECUTING')))"
)


@dataclass(frozen=True, slots=True)
class Choice:
    """From which endpoint, for which plan, how many."""

    source: str
    endpoint: str
    plan_id: int
    limit: int

    def values(self) -> dict[str, Any]:
        return {"source": self.source, "endpoint": self.endpoint, "plan": self.plan_id, "limit": self.limit}


async def stale_records(tx: Tx, choice: Choice, stale_after: timedelta) -> list[Candidate]:
    """Oldest first; gone ones are not asked for again."""
    rows = await fetch_all(
        tx,
        f"{_WITH_TAKEN} select r.provider_id, r.checked_at from ing_record r where r.provenance_code = %(source)s"
        f" and r.endpoint_name = %(endpoint)s and r.checked_at < now() - %(age)s and not r.is_deleted and {_TAKEN}"
        " order by r.checked_at, r.provider_id limit %(limit)s",
        {**choice.values(), "age": stale_after},
    )
    return [Candidate(row["provider_id"], row["checked_at"]) for row in rows]


async def outdated_records(tx: Tx, choice: Choice, expr_proto_hash: str) -> list[Candidate]:
    """Stored by other rules than today's, in the order of their ids. Signals see to what the source no longer gives."""
    rows = await fetch_all(
        tx,
        f"{_WITH_TAKEN} select r.provider_id from ing_record r where r.provenance_code = %(source)s"
        f" and r.endpoint_name = %(endpoint)s and r.expr_hash <> %(hash)s and not r.is_deleted and {_TAKEN}"
        " and not exists (select from ing_quarantine q where q.provenance_code = %(source)s"
        "  and q.endpoint_name = %(endpoint)s and q.provider_id = r.provider_id and q.reason_code = 'NO_DETAIL'"
        "  and q.released_at is null)"
        " order by r.provider_id limit %(limit)s",
        {**choice.values(), "hash": expr_proto_hash},
    )
    return [Candidate(row["provider_id"]) for row in rows]


async def signalled_records(tx: Tx, choice: Choice) -> list[Candidate]:
    """Open signals, and what lies in quarantine with an id and was not fetched again since."""
    rows = await fetch_all(
        tx,
        f"{_WITH_TAKEN} select r.provider_id from (select provider_id from ing_signal"
        "  where provenance_code = %(source)s and endpoint_name = %(endpoint)s and plan_id is null"
        " union select q.provider_id from ing_quarantine q where q.provenance_code = %(source)s"
        "  and q.endpoint_name = %(endpoint)s and q.released_at is null and q.provider_id is not null"
        "  and not exists (select from ing_signal s where s.provenance_code = q.provenance_code"
        "   and s.endpoint_name = q.endpoint_name and s.provider_id = q.provider_id and s.reason_code = 'QUARANTINE'"
        "   and s.created_at >= q.created_at)"
        f" ) r where {_TAKEN} order by r.provider_id limit %(limit)s",
        choice.values(),
    )
    return [Candidate(row["provider_id"]) for row in rows]


async def take_signals(tx: Tx, choice: Choice, ids: Sequence[str]) -> None:
    """They belong to the plan now; what comes from quarantine leaves a signal that says so."""
    values = {**choice.values(), "ids": list(ids)}
    await tx.execute(
        "update ing_signal set plan_id = %(plan)s where provenance_code = %(source)s and endpoint_name = %(endpoint)s"
        " and provider_id = any(%(ids)s) and plan_id is null",
        values,
    )
    await tx.execute(
        "insert into ing_signal (provenance_code, endpoint_name, provider_id, reason_code, created_by, plan_id)"
        " select distinct provenance_code, endpoint_name, provider_id, 'QUARANTINE', 'planner', %(plan)s::bigint"
        " from ing_quarantine where provenance_code = %(source)s and endpoint_name = %(endpoint)s"
        " and provider_id = any(%(ids)s) and released_at is null"
        " on conflict (provenance_code, endpoint_name, provider_id, reason_code)"
        " do update set plan_id = excluded.plan_id, created_at = now()",
        values,
    )


async def next_position(tx: Tx, plan_id: int) -> int:
    """Where the plan's list of candidates ends."""
    row = await fetch_one(
        tx,
        "select coalesce(max((slice_spec #>> '{bounds,id,end}')::bigint), 0)::bigint as next from ing_plan_slice"
        " where plan_id = %s",
        (plan_id,),
    )
    return 0 if row is None else int(row["next"])


async def raise_signals(tx: Tx, place: tuple[str, str], ids: Sequence[str], reason: "Reason") -> int:
    rows = await fetch_all(
        tx,
        "insert into ing_signal (provenance_code, endpoint_name, provider_id, reason_code, note, created_by)"
        " select %(source)s, %(endpoint)s, id, %(code)s, %(note)s, %(by)s from unnest(%(ids)s::text[]) id order by id"
        " on conflict (provenance_code, endpoint_name, provider_id, reason_code) do update"
        " set plan_id = null, note = excluded.note, created_by = excluded.created_by, created_at = now()"
        " where ing_signal.plan_id is not null returning 1",
        {
            "source": place[0], "endpoint": place[1], "ids": list(ids), "code": reason.code, "note": reason.note,
            "by": reason.by,
        },
    )  # fmt: skip
    return len(rows)
