"""Webhooks over real HTTP: signed, retried, never into our own network, one merchant's events only."""

import asyncio
import json
import socket
import threading
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from standardwebhooks import Webhook
from tests.support.loop_lag import watched_loop
from tests.support.outlets import receivers, relay_all
from tests.support.webhook_receiver import running_receiver

from penstock.kernel import error_codes, webhooks
from penstock.kernel.addresses import look_up
from penstock.kernel.clock import SystemClock
from penstock.kernel.db import Database, fetch_all
from penstock.kernel.deliveries import Deliveries, DeliverySettings, dead_letters, send_again
from penstock.kernel.errors import PenstockError
from penstock.kernel.events import Event, StoredEvent
from penstock.kernel.outbox import announce
from penstock.kernel.sinks import SinkRefused
from penstock.kernel.telemetry import continued
from penstock.kernel.webhooks import Registration, WebhookCaller, WebhookSettings

LOCAL = WebhookSettings(allow_private=True, timeout_seconds=timedelta(seconds=0.5))
QUICK = DeliverySettings(max_attempts=2)


@pytest.fixture
async def receiver():
    async with running_receiver() as made:
        yield made


@pytest.fixture
async def caller(database):
    made = WebhookCaller(database, LOCAL, SystemClock())
    yield made
    await made.close()


async def register(database: Database, url: str, *types: str, merchant: str = "m1"):
    """For job events, unless other types are named ("*": all)."""
    types = types or ("job.*",)
    async with database.transaction() as tx:
        return await webhooks.register(tx, Registration(merchant, url, types, "u1"))


async def happen(database: Database, caller: WebhookCaller, *events: Event) -> Deliveries:
    async with database.transaction() as tx:
        await announce(tx, *events)
    to = receivers(webhook=caller.find)
    await relay_all(database, to)
    worker = Deliveries(database, to, QUICK, owner="w")
    await worker.drain()
    return worker


def event(merchant: str = "m1", kind: str = "job.rejected") -> Event:
    return Event(kind, "job", "j1", {"why": "加密"}, merchant_id=merchant)


class TestCalling:
    async def test_a_receiver_can_verify_the_call_with_the_standard_library_of_the_layout(
        self, database, caller, receiver
    ):
        made = await register(database, receiver.url)
        await happen(database, caller, event())
        [(headers, body)] = receiver.calls
        told = Webhook(made["secret"]).verify(body.decode(), headers)
        assert told["type"] == "job.rejected"
        assert told["data"] == {"why": "加密"}

    async def test_it_tells_when_the_event_happened_not_when_it_is_sent(self, database, caller, receiver):
        await register(database, receiver.url)
        async with database.transaction() as tx:
            await announce(tx, event())
            await tx.execute("update outbox_events set occurred_at = '2026-03-01 16:20:00+08'")
        await happen(database, caller)
        [(_, body)] = receiver.calls
        assert json.loads(body)["timestamp"] == "2026-03-01T08:20:00+00:00"

    async def test_the_first_call_tells_of_the_registration_so_that_one_can_see_that_it_works(
        self, database, caller, receiver
    ):
        made = await register(database, receiver.url, "*")
        await happen(database, caller)
        [(headers, body)] = receiver.calls
        told = Webhook(made["secret"]).verify(body.decode(), headers)
        assert (told["type"], told["entity"]["id"]) == ("webhook.registered", str(made["endpoint_id"]))

    async def test_the_call_goes_to_the_address_that_was_checked_under_the_name_that_was_given(
        self, database, caller, receiver
    ):
        await register(database, receiver.url.replace("127.0.0.1", "localhost"))
        await happen(database, caller, event())
        [(headers, _)] = receiver.calls
        assert headers["host"].startswith("localhost:")

    async def test_the_receiver_can_go_on_with_the_trace_of_the_request_behind_the_event(
        self, database, caller, receiver
    ):
        await register(database, receiver.url)
        with continued("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "request"):
            await happen(database, caller, event())
        [(headers, _)] = receiver.calls
        assert headers["traceparent"].startswith("00-0af7651916cd43dd8448eb211c80319c-")

    async def test_a_merchant_hears_of_its_own_events_and_only_of_those_it_asked_for(self, database, caller, receiver):
        await register(database, receiver.url, "job.*")
        await happen(database, caller, event(), event("m2"), event(kind="upload.finished"))
        assert len(receiver.calls) == 1

    @pytest.mark.parametrize("status", [500, 400, 302, 429])
    async def test_any_answer_but_2xx_is_tried_again_under_the_same_id_then_dead_then_sent_again(
        self, database, caller, receiver, status
    ):
        await register(database, receiver.url)
        receiver.status = status
        worker = await happen(database, caller, event())
        async with database.transaction() as tx:
            await tx.execute("update outbox_deliveries set due_at = now()")
        await worker.drain()
        async with database.transaction() as tx:
            [dead] = await dead_letters(tx, merchant_id="m1")
            assert dead["last_error"] == f"SinkRefused: answered {status}"
            await send_again(tx, dead["delivery_id"])
        receiver.status = 200
        await worker.drain()
        assert {headers["webhook-id"] for headers, _ in receiver.calls} == {f"evt_{dead['event_id']}"}
        assert len(receiver.calls) == 3
        async with database.transaction() as tx:
            assert await dead_letters(tx) == []

    async def test_a_receiver_that_never_answers_costs_the_time_out_only(self, database, caller, receiver):
        await register(database, receiver.url)
        receiver.stall = True
        async with asyncio.timeout(5):
            await happen(database, caller, event())
        async with database.transaction() as tx:
            [row] = await fetch_all(tx, "select last_error from outbox_deliveries")
        assert row["last_error"] == "SinkRefused: no answer within 0.5 s"

    async def test_a_receiver_that_sends_its_answer_letter_by_letter_costs_no_more(self, database, caller, receiver):
        """Each letter comes within the time-out; the answer as a whole does not."""
        await register(database, receiver.url)
        receiver.drips = True
        async with asyncio.timeout(5):
            await happen(database, caller, event())
        async with database.transaction() as tx:
            [row] = await fetch_all(tx, "select last_error from outbox_deliveries")
        assert row["last_error"] == "SinkRefused: no answer within 0.5 s"

    async def test_a_receiver_that_says_continue_without_end_is_left_at_once_and_holds_up_nobody(
        self, database, caller, receiver
    ):
        made = await register(database, receiver.url)
        receiver.continues = True
        send = await caller.find(str(made["endpoint_id"]))
        async with watched_loop() as lag:
            with pytest.raises(SinkRefused, match="no whole answer within 16384 bytes"):
                await send(StoredEvent(1, event(), None, datetime.now(UTC)))
        assert lag.own < 0.05

    async def test_what_is_queued_for_a_removed_endpoint_is_dropped(self, database, caller, receiver):
        made = await register(database, receiver.url)
        async with database.transaction() as tx:
            await announce(tx, event())
        to = receivers(webhook=caller.find)
        await relay_all(database, to)
        async with database.transaction() as tx:
            await webhooks.remove(tx, made["endpoint_id"], "m1")
        await Deliveries(database, to, QUICK, owner="w").drain()
        assert receiver.calls == []
        async with database.transaction() as tx:
            [row] = await fetch_all(tx, "select done_at from outbox_deliveries")
        assert row["done_at"] is not None


class TestRegistering:
    @pytest.mark.parametrize(
        "url",
        [
            "http://example.org/x", "https://127.0.0.1/x", "https://localhost/x", "https://10.0.0.7/x",
            "https://[::1]/x", "https://169.254.169.254/latest", "ftp://example.org", "nonsense", "https://",
            "https://user:pass@example.org/", "https://no-such-host.invalid/", "https://[broken/",
            "https://0x7f.1/x", "https://2130706433/x", "https://[::ffff:127.0.0.1]/x", "https://224.0.0.1/x",
            "https://[64:ff9b::7f00:1]/x", "https://[64:ff9b:1::a00:7]/x", "https://[2002:7f00:1::]/x",
            "https://[::127.0.0.1]/x", "https://[::ffff:0:10.0.0.7]/x", "https://[fec0::1]/x", "https://[ff0e::1]/x",
        ],
    )  # fmt: skip
    async def test_addresses_that_are_not_public_https_are_refused(self, url):
        with pytest.raises(PenstockError) as refused:
            await webhooks.safe_address(url, WebhookSettings())
        assert refused.value.code is error_codes.WEBHOOK_URL_REFUSED
        assert refused.value.details["reason"]

    async def test_names_that_nobody_answers_for_hold_up_nothing_else(self, monkeypatch):
        """The threads that look names up are not those that write files and ask for health."""
        over = threading.Event()
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait(10) and [])
        looking = [asyncio.create_task(webhooks.safe_address("https://slow.test/x", LOCAL)) for _ in range(40)]
        try:
            await asyncio.sleep(0)
            assert await asyncio.wait_for(asyncio.to_thread(int), 2) == 0
            with pytest.raises(PenstockError) as refused:
                await asyncio.wait_for(looking[-1], 2)
            assert refused.value.details["reason"] == "the host name is not known"
        finally:
            over.set()
            await asyncio.gather(*looking, return_exceptions=True)

    async def test_one_merchants_names_that_nobody_answers_for_leave_threads_to_others(self, monkeypatch):
        """The look-up is given up in time, but its thread goes on: it counts until it ends."""
        over, known = threading.Event(), socket.getaddrinfo

        def ask(host, *more, **options):
            return over.wait(20) and [] if host == "slow.test" else known(host, *more, **options)

        monkeypatch.setattr(socket, "getaddrinfo", ask)
        share = asyncio.Semaphore(4)
        slow = [look_up("slow.test", 443, 0.2, share) for _ in range(100)]
        try:
            failures = await asyncio.gather(*slow, return_exceptions=True)
            assert {type(each) for each in failures} == {TimeoutError}
            assert await look_up("127.0.0.1", 443, 2, asyncio.Semaphore(4)) == ["127.0.0.1"]
        finally:
            over.set()

    @pytest.mark.parametrize("host", ["8.8.8.8", "[2606:4700::1111]", "[64:ff9b::808:808]"])
    async def test_public_addresses_are_taken(self, host):
        """The last one is 8.8.8.8 as a network without IPv4 sees it."""
        assert await webhooks.safe_address(f"https://{host}/x", WebhookSettings()) == host.strip("[]")

    async def test_a_merchant_has_no_endless_number_of_endpoints(self, database, receiver):
        """Every event goes to each of them: without an end, one merchant's would take all our time."""
        made = [await register(database, receiver.url) for _ in range(webhooks.MOST_ENDPOINTS)]
        with pytest.raises(PenstockError) as refused:
            await register(database, receiver.url)
        assert refused.value.code is error_codes.WEBHOOK_URL_REFUSED
        await register(database, receiver.url, merchant="m2")
        async with database.transaction() as tx:
            await webhooks.remove(tx, made[0]["endpoint_id"], "m1")
        await register(database, receiver.url)

    async def test_the_secret_is_shown_once_and_never_listed(self, database, receiver):
        made = await register(database, receiver.url)
        assert made["secret"].startswith("whsec_")
        async with database.transaction() as tx:
            [listed] = await webhooks.endpoints(tx, "m1")
            assert await webhooks.endpoints(tx, "m2") == []
        assert "secret" not in listed

    async def test_another_merchants_endpoint_cannot_be_removed(self, database, receiver):
        made = await register(database, receiver.url)
        async with database.transaction() as tx:
            for endpoint_id, merchant in [(made["endpoint_id"], "m2"), (uuid4(), "m1")]:
                with pytest.raises(PenstockError) as refused:
                    await webhooks.remove(tx, endpoint_id, merchant)
                assert refused.value.code is error_codes.NOT_FOUND
