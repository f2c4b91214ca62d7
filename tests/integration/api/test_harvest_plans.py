"""Plans over HTTP: an order is carried out once, cannot go astray, and says so when there is nothing to do."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest
from tests.integration.api.harvest_source import DOCUMENT, NAME
from tests.support.edge import bearer

from penstock.api.routes.harvest_plans import HarvestOrder
from penstock.harvest.planning import store as plans
from penstock.harvest.planning.remarks import instance_columns
from penstock.kernel.db import fetch_all, fetch_one
from penstock.kernel.identity import Role

PLANS = "/api/v1/harvest/plans"
OPERATOR = bearer("operator", seconds=7200)
DAY = {"since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z"}
BACKFILL = {"source": NAME, "operation": "BACKFILL", **DAY}

SENSELESS = [
    ({"since": DAY["until"], "until": DAY["since"]}, "HARVEST_WINDOW_INVALID"),
    ({"since": DAY["since"], "until": DAY["since"]}, "HARVEST_WINDOW_INVALID"),
    ({"since": "2199-01-01T00:00:00Z", "until": None}, "HARVEST_WINDOW_INVALID"),
    ({"since": "0001-01-01T00:00:00+14:00"}, "REQUEST_INVALID"),
    ({"until": "9999-12-31T23:59:59-14:00"}, "REQUEST_INVALID"),
    ({"since": 1e300}, "REQUEST_INVALID"),
    ({"since": "yesterday"}, "REQUEST_INVALID"),
    ({"params": {"q": "a\0b"}}, "REQUEST_INVALID"),
    ({"params": {"q": "\ud800"}}, "REQUEST_INVALID"),
    ({"params": {"a\0b": "q"}}, "REQUEST_INVALID"),
    ({"params": {"api_key": "q"}}, "SPEC_INVALID"),
    ({"source": "no such"}, "REQUEST_INVALID"),
    ({"source": "a\0b"}, "REQUEST_INVALID"),
    ({"operation": "DROP"}, "REQUEST_INVALID"),
    ({"candidates": {"kind": "STALE"}}, "REQUEST_INVALID"),
    ({"operation": "UPDATE"}, "REQUEST_INVALID"),
    ({"operation": "UPDATE", "since": None, "until": None}, "HARVEST_UPDATE_IMPOSSIBLE"),
]


@pytest.fixture
async def source(client, database):
    headers = {**bearer("admin"), "Content-Type": "application/yaml"}
    answer = await client.put(f"/api/v1/harvest/sources/{NAME}", content=DOCUMENT, headers=headers)
    assert answer.status_code == 200
    return NAME


async def order(client, body, key=None, role="operator"):
    headers = bearer(role) | ({"Idempotency-Key": key} if key else {})
    return await client.post(PLANS, json=body, headers=headers)


async def counted(database, table):
    async with database.transaction() as tx:
        return (await fetch_one(tx, f"select count(*) as n from {table}"))["n"]


def told(answer):
    return answer.status_code, answer.json().get("code")


class TestOrdering:
    async def test_a_plan_is_cut_queued_and_found_again(self, client, database, source):
        answer = await order(client, BACKFILL)
        assert answer.status_code == 201
        plan = answer.json()["plan"]
        assert answer.headers["location"] == f"{PLANS}/{plan['plan_id']}"
        assert (plan["status"], plan["slices"], plan["tasks_by_status"]) == ("READY", 4, {"QUEUED": 4})
        assert (plan["window_from"], plan["sums"]["requests"], plan["source_version"]) == (DAY["since"], 0, 1)
        assert (await client.get(answer.headers["location"], headers=OPERATOR)).json() == plan
        async with database.transaction() as tx:
            [row] = await fetch_all(tx, "select actor, subject, details from audit_log where action = 'order_harvest'")
        assert (row["actor"], row["subject"], row["details"]["operation"]) == ("alice", f"source:{NAME}", "BACKFILL")

    async def test_a_harvest_that_is_queued_already_is_answered_with_a_sentence(self, client, database, source):
        until = (datetime.now(UTC) - timedelta(hours=6)).isoformat()
        body = {"source": NAME, "until": until}
        assert (await order(client, body)).status_code == 201
        again = await order(client, body)
        assert (again.status_code, again.json()["plan"]) == (200, None)
        assert again.json()["sentence"].startswith("Nothing to do")
        headers = {**OPERATOR, "Accept-Language": "zh"}
        assert (await client.post(PLANS, json=body, headers=headers)).json()["sentence"].startswith("没有")

    async def test_each_set_of_parameters_has_its_own_cursor(self, client, database, source):
        plan = (await order(client, {"source": NAME, "params": {"q": "heart"}})).json()["plan"]
        assert "heart" in plan["namespace"]

    async def test_a_preview_shows_the_slices_and_writes_nothing(self, client, database, source):
        shown = (await client.post(f"{PLANS}/preview", json=BACKFILL, headers=OPERATOR)).json()
        assert (shown["strategy"], len(shown["slices"]), shown["is_cut_short"]) == ("TIME", 4, False)
        assert shown["slices"][0]["slice_spec"]["dimension"] == "TIME"
        assert [await counted(database, table) for table in ("ing_plan", "ing_task", "ing_schedule_instance")] == [
            0
        ] * 3

    async def test_people_of_merchants_have_no_part_in_it(self, client):
        for role in set(Role) - {Role.OPERATOR, Role.ADMIN}:
            assert told(await order(client, BACKFILL, role=role)) == (403, "ROLE_DENIED")


class TestOnce:
    async def test_one_key_is_one_plan(self, client, database, source):
        first, second = await asyncio.gather(*(order(client, BACKFILL, "k") for _ in range(2)))
        third = await order(client, BACKFILL, "k")
        assert {each.status_code for each in (first, second, third)} == {201}
        assert len({each.json()["plan"]["plan_id"] for each in (first, second, third)}) == 1
        assert [await counted(database, table) for table in ("ing_plan", "ing_task")] == [1, 4]

    async def test_a_key_of_another_order_is_refused(self, client, database, source):
        await order(client, BACKFILL, "k")
        for other in (
            {"until": "2026-01-03T00:00:00Z"},
            {"params": {"q": "x"}},
            {"run": {"planning": {"slice_items": 9}}},
        ):
            assert told(await order(client, BACKFILL | other, "k")) == (422, "IDEMPOTENCY_KEY_REUSED")
        assert await counted(database, "ing_plan") == 1

    async def test_two_orders_with_one_key_at_once_end_in_one_plan_and_one_refusal(self, client, database, source):
        other = BACKFILL | {"until": "2026-01-03T00:00:00Z"}
        answers = await asyncio.gather(order(client, BACKFILL, "k"), order(client, other, "k"))
        assert sorted(each.status_code for each in answers) == [201, 422]
        assert await counted(database, "ing_plan") == 1

    async def test_an_order_whose_server_died_before_it_planned_is_carried_out_when_it_comes_again(
        self, client, database, source
    ):
        left = HarvestOrder.model_validate(BACKFILL).trigger("api:m-1:alice:k")
        async with database.transaction() as tx:
            await plans.insert_instance(tx, instance_columns(left))
        assert told(await order(client, BACKFILL | {"params": {"q": "x"}}, "k")) == (422, "IDEMPOTENCY_KEY_REUSED")
        assert (await order(client, BACKFILL, "k")).json()["plan"]["slices"] == 4
        assert await counted(database, "ing_schedule_instance") == 1

    async def test_keys_of_others_are_not_in_the_way(self, client, database, source):
        await order(client, BACKFILL, "k")
        async with database.transaction() as tx:
            row = await fetch_one(tx, "select idempotent_key from ing_schedule_instance")
        assert row == {"idempotent_key": "api:m-1:alice:k"}


class TestStayingWithinTheRegistry:
    """An order is no way around what an admin has registered."""

    @pytest.mark.parametrize(
        "run",
        [
            {"http": {"baseUrl": "https://127.0.0.1"}},
            {"auth": {"type": "NONE"}},
            {"detail": {"http": {"baseUrl": "https://127.0.0.1"}}},
            {"planning": {"c_max": 100}},
            {"rate_limit": {"provider_qps": 1000}},
            {"rate_limit": {"concurrency": 1}},
            {"rate_limit": {"qps": 0}},
            {"planning": {"slice_items": 0}},
            "fast",
        ],
        ids=str,
    )
    async def test_a_run_cannot_say_anything_else(self, client, run):
        assert told(await order(client, BACKFILL | {"run": run})) == (400, "REQUEST_INVALID")

    async def test_a_run_may_be_slower_and_never_faster(self, client, database, source):
        faster = {"rate_limit": {"qps": 2.5, "burst": 3}}
        for path in (PLANS, f"{PLANS}/preview"):
            answer = await client.post(path, json=BACKFILL | {"run": faster}, headers=OPERATOR)
            assert told(answer) == (400, "SPEC_INVALID")
            assert {each["key"] for each in answer.json()["details"]["problems"]} == {
                "rateLimit.qps",
                "rateLimit.burst",
            }
        assert await counted(database, "ing_plan") == 0
        slower = {"rate_limit": {"qps": 0.5}, "planning": {"slice_items": 10, "stale_after_days": 3}}
        plan = (await order(client, BACKFILL | {"run": slower})).json()["plan"]
        async with database.transaction() as tx:
            row = await plans.plan(tx, plan["plan_id"])
        snapshot = row["expr_proto_snapshot"]
        assert (snapshot["rateLimit"]["qps"], snapshot["planning"]["sliceItems"]) == (0.5, 10)
        assert snapshot["http"]["baseUrl"] in DOCUMENT


class TestRefusing:
    async def test_what_makes_no_sense_is_refused_alike_by_plans_and_previews(self, client, database, source):
        wrong = {}
        for body, expected in SENSELESS:
            for path in (PLANS, f"{PLANS}/preview"):
                text = json.dumps(BACKFILL | body)  # in ASCII: half a surrogate pair cannot be sent in any other way
                answer = await client.post(path, content=text, headers=OPERATOR | {"Content-Type": "application/json"})
                if told(answer) != (400, expected):
                    wrong[path, text] = told(answer)
        assert wrong == {}
        assert await counted(database, "ing_plan") == 0

    async def test_what_is_not_there_is_said(self, client, database, source):
        assert told(await order(client, BACKFILL | {"source": "none"})) == (404, "SOURCE_UNKNOWN")
        assert told(await order(client, BACKFILL | {"endpoint": "none"})) == (404, "ENDPOINT_UNKNOWN")
        assert told(await client.get(f"{PLANS}/1", headers=OPERATOR)) == (404, "PLAN_UNKNOWN")
        for wrong in ("0", "-1", "x", str(2**63), "%00"):
            assert told(await client.get(f"{PLANS}/{wrong}", headers=OPERATOR)) == (400, "REQUEST_INVALID")
