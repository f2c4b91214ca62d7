"""What must hold of a harvest at any moment, whatever happens to it.

- The watermark covers what is stored: each record whose present version came in time and is older than the watermark
  is there in that version, or in quarantine because the source refused it by itself.
- It never moves back, and only harvests move it.
- Nothing is stored that the source never said; each version is stored once: `revision` counts the versions.
- No window waits or runs twice, nor one that another task has stored, but for rereads of the overlap.
"""

from datetime import datetime
from itertools import pairwise
from typing import Any

from penstock.harvest.slices import Span
from penstock.kernel.db import Database, fetch_all
from tests.support.harvest_world import START, World

_LIVE = "('QUEUED', 'DISPATCHED', 'EXECUTING')"


class Verdict:
    def __init__(self, database: Database, world: World, code: str) -> None:
        self._database, self._world, self._code = database, world, code
        self._watermark: datetime | None = None
        self.counted: dict[str, int] = {}

    async def after_step(self, step: str) -> None:
        async with self._database.transaction() as tx:
            records = await fetch_all(
                tx, "select provider_id, updated_at, version, is_deleted, revision from ing_record"
            )
            cursors = await fetch_all(tx, "select normalized_instant as value from ing_cursor where"
                                          " operation_code = 'HARVEST'")  # fmt: skip
            refused = await fetch_all(tx, "select provider_id from ing_quarantine where released_at is null")
            events = await fetch_all(tx, _EVENTS)
            live = await fetch_all(tx, _WINDOWS)
        assert len(cursors) <= 1, cursors
        if cursors:
            stored = {row["provider_id"]: int(row["version"]) for row in records}
            self._check_watermark(cursors[0]["value"], stored, {row["provider_id"] for row in refused}, step)
        self._check_records(records, step)
        self._check_events(events, step)
        self._check_windows(live, events, step)

    def _check_watermark(self, value: datetime, stored: dict[str, int], refused: set[str], step: str) -> None:
        assert self._watermark is None or value >= self._watermark, f"{step}: {self._watermark} went back to {value}"
        self._watermark = value
        for ident, version in self._world.current().items():
            if START <= version.updated < value and not version.is_loose and ident not in refused:
                held = stored.get(ident, 0)
                assert held >= version.number, f"after {step}: {ident} is held as {held}, {version}, watermark {value}"

    def _check_records(self, records: list[dict[str, Any]], step: str) -> None:
        for row in records:
            versions = self._world.records.get(row["provider_id"], [])
            number = int(row["version"])
            assert 0 < number <= len(versions), f"after {step}: the source never had {row}"
            said = versions[number - 1]
            assert (said.updated, said.is_deleted) == (row["updated_at"], row["is_deleted"]), (step, said, row)
            assert row["revision"] <= number, f"after {step}: stored more often than there are versions: {row}"

    def _check_events(self, events: list[dict[str, Any]], step: str) -> None:
        harvests = [event for event in events if event["operation_code"] == "HARVEST"]
        for event in harvests:
            assert event["by"] == "HARVEST", f"after {step}: {event['by']} moved the watermark"
            assert event["new_instant"] >= event["prev_instant"], f"after {step}: {event}"
        for before, after in pairwise(harvests):
            assert before["new_instant"] == after["prev_instant"], f"after {step}: {before} {after}"

    def _check_windows(self, live: list[dict[str, Any]], events: list[dict[str, Any]], step: str) -> None:
        for left, right in pairwise(live):
            assert left["window_to"] <= right["window_from"], f"after {step}: queued twice: {left} {right}"
        for task in live:
            for event in events:
                if event["operation_code"] != "HARVEST" or event["task_id"] == task["id"]:
                    continue
                start = max(task["window_from"], event["covered_from"])
                end = min(task["window_to"], event["covered_to"])
                again = task["rereads"]
                is_reread = again and start >= datetime.fromisoformat(again["from"]) and end <= datetime.fromisoformat(
                    again["to"])  # fmt: skip
                assert start >= end or is_reread, f"after {step}: {Span(start, end)} is stored and queued: {task}"

    # The end ---------------------------------------------------------------------------------------------------
    async def at_the_end(self) -> None:
        """After the last harvest: all that came in time is there."""
        newest = max((each.updated for each in self._world.current().values()), default=START)
        is_past = self._watermark is not None and self._watermark > newest
        assert is_past or not self._world.records, f"stuck at {self._watermark}, newest {newest}"
        loose = sum(each.is_loose for each in self._world.current().values())
        self.counted = {"histories": 1, "records": len(self._world.records), "came too late": loose}
        self.counted["versions"] = sum(map(len, self._world.records.values()))

    async def exactly(self) -> None:
        """After a backfill of everything: what came too late is there as well."""
        async with self._database.transaction() as tx:
            rows = await fetch_all(
                tx, "select provider_id, updated_at, version::int as number, is_deleted from ing_record"
            )
            told = await fetch_all(tx, _TOLD)
            tasks = await fetch_all(tx, "select status_code, count(*) as n from ing_task group by 1")
        held = {row["provider_id"]: (row["updated_at"], row["number"], row["is_deleted"]) for row in rows}
        said = {
            ident: (version.updated, version.number, version.is_deleted)
            for ident, version in self._world.current().items()
        }
        assert held == said, f"at the end: held {held}\nsaid {said}"
        assert all(row["n"] == 1 for row in told), f"told twice: {told}"
        self.counted |= {f"tasks {row['status_code']}": row["n"] for row in tasks}


_EVENTS = """
select e.id, e.operation_code, e.prev_instant, e.new_instant, e.covered_from::timestamptz as covered_from,
  e.covered_to::timestamptz as covered_to, e.task_id, t.operation_code as by
from ing_cursor_event e left join ing_task t on t.id = e.task_id
where e.operation_code <> 'UPDATE' order by e.id
"""
_WINDOWS = f"""
select t.id, t.window_from, t.window_to, p.record_remarks -> 'rereads' as rereads
from ing_task t join ing_plan p on p.id = t.plan_id
where t.operation_code = 'HARVEST' and t.status_code in {_LIVE} order by t.window_from
"""
_TOLD = """
select record ->> 'providerId' as id, record ->> 'revision' as revision, count(*) as n
from outbox_events, jsonb_array_elements(payload -> 'records') record where event_type = 'record.changed' group by 1, 2
"""
