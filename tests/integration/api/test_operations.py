"""What operators see and do: workers, and deliveries that were given up."""

import pytest
from tests.support.edge import bearer

from penstock.kernel.db import fetch_all, fetch_one

PATH = "/api/v1/deliveries"


@pytest.fixture
async def dead(database):
    """One dead delivery for each of two merchants; their ids."""
    async with database.transaction() as tx:
        rows = await fetch_all(
            tx,
            "with e as (insert into outbox_events (event_type, entity_type, entity_id, merchant_id, order_key, slot)"
            " select 'job.completed', 'job', 'j', merchant, 'job:j', 0 from unnest(array['m-1', 'm-2']) merchant"
            " returning event_id, merchant_id)"
            " insert into outbox_deliveries (event_id, sink, order_key, attempts, dead_at, last_error)"
            " select event_id, 'webhook:w', 'job:j', 10, now(), 'answered 500' from e order by merchant_id"
            " returning delivery_id",
        )
    return [row["delivery_id"] for row in rows]


class TestDeadDeliveries:
    async def test_they_are_listed_newest_first_or_by_merchant(self, client, dead):
        found = (await client.get(PATH, params={"state": "dead"}, headers=bearer("operator"))).json()["deliveries"]
        assert [row["delivery_id"] for row in found] == dead[::-1]
        assert found[0]["last_error"] == "answered 500"
        found = (await client.get(PATH, params={"merchant": "m-1"}, headers=bearer("operator"))).json()["deliveries"]
        assert [row["delivery_id"] for row in found] == dead[:1]

    async def test_one_is_sent_again_once_and_written_down(self, client, database, dead):
        answer = await client.post(f"{PATH}/{dead[0]}/redeliver", headers=bearer("operator"))
        assert (answer.status_code, answer.json()) == (202, {"delivery_id": dead[0], "state": "due"})
        async with database.transaction() as tx:
            row = await fetch_one(
                tx, "select dead_at, attempts from outbox_deliveries where delivery_id = %s", dead[:1]
            )
            log = await fetch_all(tx, "select action, subject from audit_log")
        assert row == {"dead_at": None, "attempts": 0}
        assert log == [{"action": "redeliver_event", "subject": f"delivery:{dead[0]}"}]
        assert (await client.post(f"{PATH}/{dead[0]}/redeliver", headers=bearer("operator"))).status_code == 404


class TestWorkers:
    async def test_the_latest_sign_of_life_comes_first(self, client, database):
        async with database.transaction() as tx:
            await tx.execute(
                "insert into worker_heartbeats (worker_id, hostname, last_heartbeat) values"
                " ('old', 'h', now() - interval '1 minute'), ('new', 'h', now())"
            )
        found = (await client.get("/api/v1/workers", headers=bearer("admin"))).json()["workers"]
        assert [(row["worker_id"], row["status"]) for row in found] == [("new", "ALIVE"), ("old", "ALIVE")]
