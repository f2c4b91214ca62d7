"""A harvest seen through the API alone: ordered, carried out by an executor, then looked at from every side."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.standins import serve
from tests.support.edge import bearer

from penstock.harvest.page import Fault, FaultKind
from penstock.harvest.records import Place, quarantine
from penstock.harvest.settings import HarvestSettings
from penstock.harvest.spec import Operation
from penstock.kernel.db import fetch_all

HARVEST = "/api/v1/harvest"
RECORDS = f"{HARVEST}/records/crossref"
OPERATOR = bearer("operator", seconds=7200)
FILE = Path(__file__).parents[3] / "sources" / "crossref.yaml"
COUNT = 240


async def ask(client, path, **params):
    answer = await client.get(f"{HARVEST}/{path}", params=params, headers=OPERATOR)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def apply(client, url):
    text = FILE.read_text().replace("baseUrl: https://api.crossref.org/v1", f"baseUrl: {url}/v1\n    allowHttp: true")
    text = text.replace("qps: 1, providerQps: 1, concurrency: 1", "qps: 500, burst: 50, concurrency: 4")
    headers = {**bearer("admin"), "Content-Type": "application/yaml"}
    answer = await client.put(f"{HARVEST}/sources/crossref", content=text, headers=headers)
    assert answer.status_code == 200, answer.text


@pytest.fixture
async def known(lenient, database):
    """The source is in force; nothing has been fetched."""
    await apply(lenient, "https://192.88.98.1")
    return lenient


async def signal(client, ids, **more):
    body = {"source": "crossref", "ids": ids, **more}
    headers = {**OPERATOR, "Content-Type": "application/json"}
    return await client.post(f"{HARVEST}/signals", content=json.dumps(body), headers=headers)


class TestAHarvest:
    async def test_it_is_followed_from_the_order_to_the_records(self, lenient, parts, database):
        async with serve("crossref", records=COUNT, days=2, enforce_rate=False) as api:
            await apply(lenient, api.url)
            made = await lenient.post(f"{HARVEST}/plans", json={"source": "crossref"}, headers=OPERATOR)
            assert made.status_code == 201, made.text
            desk = replace(parts.harvest, settings=HarvestSettings(allow_private=True))
            await desk.executor("executor-1").drain(asyncio.Event())
            await desk.close()
        plan = await ask(lenient, f"plans/{made.json()['plan']['plan_id']}")
        assert plan["tasks_by_status"] == {"SUCCEEDED": plan["slices"]}
        stored = plan["sums"]["inserted"]
        assert 0 < stored < COUNT  # the last day, not the one to come
        assert plan["sums"]["received"] == stored + plan["sums"]["updated"] + plan["sums"]["skipped"]
        await self._look_at_tasks(lenient, plan)
        await self._look_at_cursors(lenient, plan)
        await self._look_at_records(lenient, database, stored)

    async def _look_at_tasks(self, client, plan):
        first = await ask(client, "tasks", plan_id=plan["plan_id"], limit=3)
        rest = await ask(client, "tasks", plan_id=plan["plan_id"], cursor=first["next_cursor"])
        seen = [task["task_id"] for task in first["tasks"] + rest["tasks"]]
        assert len(seen) == len(set(seen)) == plan["slices"]
        assert seen == sorted(seen, reverse=True)
        assert (await ask(client, "tasks", status=["FAILED", "QUEUED"]))["tasks"] == []
        assert (await ask(client, "tasks", source="none"))["tasks"] == []

    async def _look_at_cursors(self, client, plan):
        [cursor] = (await ask(client, "cursors", source="crossref"))["cursors"]
        assert (cursor["endpoint"], cursor["stretches"], cursor["plan_id"]) == ("works", 1, plan["plan_id"])
        assert cursor["covered"][0]["start"].startswith(plan["window_from"][:16])
        events = (await ask(client, "cursors/events", plan_id=plan["plan_id"]))["events"]
        assert len(events) == plan["slices"]
        assert all(event["task_id"] and event["batch_id"] for event in events)
        assert (await ask(client, "sources/crossref"))["cursors"] == [cursor]

    async def _look_at_records(self, client, database, stored):
        async with database.transaction() as tx:
            rows = await fetch_all(tx, "select provider_id, body from ing_record order by provider_id")
        seen, after = [], None
        while True:
            part = await ask(client, "records/crossref", limit=20, **({"after": after} if after else {}))
            seen += [record["id"] for record in part["records"]]
            after = part["next_after"]
            if after is None:
                break
        assert seen == [row["provider_id"] for row in rows]
        assert len(seen) == stored
        one = await ask(client, "records/crossref/works/item", id=seen[0])
        assert "/" in seen[0]
        assert (one["body"], one["revision"]) == (rows[0]["body"], 1)
        found = await ask(client, "records/crossref", where=f'id = "{seen[1]}" and fields.title ~ " "')
        assert [record["id"] for record in found["records"]] == [seen[1]]


class TestLookingForRecords:
    async def test_what_cannot_be_asked_is_refused(self, known):
        wrong = {}
        for path, params, expected in (
            (RECORDS, {"where": "color = red"}, (400, "RECORD_FILTER_INVALID")),
            (RECORDS, {"where": "updated_at >= 0001-01-01T00:00:00+14:00"}, (400, "RECORD_FILTER_INVALID")),
            (RECORDS, {"where": "fields.a\0b = 1"}, (400, "REQUEST_INVALID")),
            (RECORDS, {"where": "a" * 2001}, (400, "REQUEST_INVALID")),
            (RECORDS, {"after": "a\0b"}, (400, "REQUEST_INVALID")),
            (RECORDS, {"limit": "1001"}, (400, "REQUEST_INVALID")),
            (RECORDS, {"endpoint": "none"}, (404, "ENDPOINT_UNKNOWN")),
            (f"{HARVEST}/records/none", {}, (404, "SOURCE_UNKNOWN")),
            (f"{RECORDS}/works/item", {"id": "a\0b"}, (400, "REQUEST_INVALID")),
            (f"{RECORDS}/works/item", {}, (400, "REQUEST_INVALID")),
            (f"{RECORDS}/works/item", {"id": "none"}, (404, "NOT_FOUND")),
            (f"{RECORDS}/none/item", {"id": "10.1/x"}, (404, "ENDPOINT_UNKNOWN")),
            (f"{HARVEST}/tasks", {"cursor": "x"}, (400, "CURSOR_INVALID")),
            (f"{HARVEST}/tasks", {"plan_id": 2**63}, (400, "REQUEST_INVALID")),
            (f"{HARVEST}/tasks", {"status": "DONE"}, (400, "REQUEST_INVALID")),
            (f"{HARVEST}/cursors", {"source": "a\0b"}, (400, "REQUEST_INVALID")),
            (f"{HARVEST}/quarantine", {}, (400, "REQUEST_INVALID")),
            (f"{HARVEST}/quarantine", {"source": "crossref", "cursor": HUGE}, (400, "CURSOR_INVALID")),
        ):
            answer = await known.get(path, params=params, headers=OPERATOR)
            if (answer.status_code, answer.json()["code"]) != expected:
                wrong[path, str(params)] = (answer.status_code, answer.json()["code"])
        assert wrong == {}


HUGE = "WyJxdWFyYW50aW5lIiwxMDAwMDAwMDAwMDAwMDAwMDAwMDAwMF0"  # ["quarantine",10^22]: a number of no row


class TestSignals:
    async def test_a_list_is_raised_once(self, known, database):
        answer = await signal(known, ["10.1/a", "10.1/b", "10.1/a"], note="list of March")
        assert (answer.status_code, answer.json()) == (200, {"given": 3, "raised": 2})
        assert (await signal(known, ["10.1/a"])).json() == {"given": 1, "raised": 0}
        async with database.transaction() as tx:
            rows = await fetch_all(tx, "select * from ing_signal order by provider_id")
        told = [(row["provider_id"], row["endpoint_name"], row["reason_code"], row["created_by"]) for row in rows]
        assert told == [("10.1/a", "works", "RETRACTION", "alice"), ("10.1/b", "works", "RETRACTION", "alice")]

    async def test_they_are_what_an_update_then_asks_for(self, known):
        await signal(known, ["10.1/a", "10.1/b"])
        body = {"source": "crossref", "operation": "UPDATE", "candidates": {"kind": "SIGNALS"}}
        shown = (await known.post(f"{HARVEST}/plans/preview", json=body, headers=OPERATOR)).json()
        assert [each["slice_spec"]["bounds"]["id"]["end"] for each in shown["slices"]] == [2]
        plan = (await known.post(f"{HARVEST}/plans", json=body, headers=OPERATOR)).json()["plan"]
        assert (plan["operation"], plan["tasks_by_status"]) == ("UPDATE", {"QUEUED": 1})

    async def test_lists_that_cannot_be_taken_are_refused_whole(self, known, database):
        wrong = {}
        for ids, more, expected in (
            ([], {}, (400, "SIGNALS_INVALID")),
            (["x"] * 10_001, {}, (400, "SIGNALS_INVALID")),
            (["x"] * 1_000_000, {}, (413, "REQUEST_TOO_LARGE")),
            (["a", "b\0"], {}, (400, "SIGNALS_INVALID")),
            (["a", " "], {}, (400, "SIGNALS_INVALID")),
            (["a", "x" * 1001], {}, (400, "SIGNALS_INVALID")),
            (["a", "\ud800"], {}, (400, "SIGNALS_INVALID")),
            (["a", 7], {}, (400, "REQUEST_INVALID")),
            (["a"], {"reason": "because"}, (400, "REQUEST_INVALID")),
            (["a"], {"note": "\0"}, (400, "REQUEST_INVALID")),
            (["a"], {"endpoint": "none"}, (404, "ENDPOINT_UNKNOWN")),
            (["a"], {"source": "none"}, (404, "SOURCE_UNKNOWN")),
        ):
            answer = await signal(known, ids, **more)
            if (answer.status_code, answer.json()["code"]) != expected:
                wrong[str(ids[:3]), str(more)] = (answer.status_code, answer.json()["code"])
        assert wrong == {}
        async with database.transaction() as tx:
            assert await fetch_all(tx, "select 1 from ing_signal") == []


class TestQuarantine:
    async def test_the_newest_comes_first_part_by_part(self, known, database):
        place = Place("crossref", "works", "sha256:x", 1, 1, Operation.HARVEST, "KEEP", announces=False)
        faults = [Fault(number, FaultKind.NO_ID, "nothing at $.DOI", b"{}") for number in range(3)]
        async with database.transaction() as tx:
            await quarantine(tx, place, faults, {"url": "https://example.org"}, lambda sample: sample.decode())
        first = await ask(known, "quarantine", source="crossref", limit=2)
        rest = await ask(known, "quarantine", source="crossref", limit=2, cursor=first["next_cursor"])
        assert [item["item_no"] for item in first["items"] + rest["items"]] == [2, 1, 0]
        assert (first["items"][0]["reason_code"], rest["next_cursor"]) == ("NO_ID", None)
