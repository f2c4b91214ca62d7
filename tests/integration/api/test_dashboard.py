"""The dashboard's stream over a real socket: whose events reach whom."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx
import pytest
from tests.integration.api.conftest import on_a_socket
from tests.support.edge import bearer, token

from penstock.kernel.identity import Caller, Role
from penstock.kernel.streams import Snapshots, StreamEvent, StreamHub, StreamPublisher, StreamReader, StreamSettings

PATH = "/api/v1/dashboard/events"


@pytest.fixture
def publish(redis_client, keys):
    publisher = StreamPublisher(redis_client, keys, StreamSettings())
    numbers = iter(range(1, 1000))

    async def send(merchant: str, name: str = "job_completed") -> None:
        topics = ("dashboard", f"dashboard:{merchant}")
        await publisher.publish([StreamEvent(next(numbers), topics, name, {"of": merchant}, merchant)])

    return send


@asynccontextmanager
async def following(served, headers, query=""):
    async with (
        httpx.AsyncClient(timeout=10) as client,
        client.stream("GET", served + PATH + query, headers=headers) as answer,
    ):
        assert answer.status_code == 200
        lines = answer.aiter_lines()
        yield answer, lambda wanted: _until(lines, wanted)


async def _until(lines, wanted):
    """Reads on until a line holds the text; returns what came before it too."""
    seen = []
    async with asyncio.timeout(10):
        async for line in lines:
            seen.append(line)
            if wanted in line:
                return "\n".join(seen)
    raise AssertionError(f"the stream ended without {wanted}: {seen}")


async def _nothing(_tx, _topic):
    return {}


class TestWhoHearsWhat:
    @pytest.mark.parametrize(
        ("role", "query", "topic"),
        [
            ("uploader", "", "dashboard:m-1"),
            ("annotator", "", "dashboard:m-1"),
            ("uploader", "?merchant=m-1", "dashboard:m-1"),
            ("operator", "", "dashboard"),
            ("admin", "?merchant=m-2", "dashboard:m-2"),
        ],
    )
    async def test_the_topic_follows_from_the_token(self, served, role, query, topic):
        async with following(served, bearer(role), query) as (answer, until):
            assert answer.headers["content-type"].startswith("text/event-stream")
            await until(f'{{"topic":"{topic}"}}')

    async def test_a_merchant_hears_its_own_events_and_no_others(self, served, publish):
        async with following(served, bearer("uploader", "m-1")) as (_, until):
            await until("snapshot")
            await publish("m-2")
            await publish("m-1")
            assert "m-2" not in await until('"of":"m-1"')

    async def test_a_stream_lasts_no_longer_than_its_token(self, served):
        headers = {"Authorization": f"Bearer {token(seconds=2)}"}
        async with asyncio.timeout(6), following(served, headers) as (_, until):
            await until("snapshot")
            with pytest.raises(AssertionError, match="the stream ended"):
                await until("never sent")

    async def test_a_stream_ends_when_its_session_is_signed_out(self, parts, redis_client, keys):
        often = StreamSettings(keepalive_sec=0.2)
        hub = StreamHub(
            StreamReader(redis_client, keys, often),
            Snapshots(parts.database, {"dashboard": _nothing}),
            often,
            parts.clock,
        )
        session = parts.identity.issue_session(Caller("alice", "m-1", Role.OPERATOR))
        headers = {"Authorization": f"Bearer {session}"}
        async with (
            asyncio.timeout(20),
            on_a_socket(replace(parts, hub=hub)) as served,
            following(served, headers) as (_, until),
            httpx.AsyncClient() as client,
        ):
            await until("heartbeat")
            assert (await client.delete(f"{served}/api/v1/session", headers=headers)).status_code == 204
            with pytest.raises(AssertionError, match="the stream ended"):
                await until("never sent")
        await hub.close()

    async def test_an_operator_hears_everyone(self, served, publish):
        async with following(served, bearer("operator")) as (_, until):
            await until("snapshot")
            await publish("m-1")
            await publish("m-2")
            assert '"of":"m-1"' in await until('"of":"m-2"')

    @pytest.mark.parametrize("role", ["uploader", "annotator"])
    async def test_another_merchants_stream_is_refused(self, client, role):
        answer = await client.get(PATH + "?merchant=m-2", headers=bearer(role, "m-1"))
        assert (answer.status_code, answer.json()["code"]) == (403, "MERCHANT_DENIED")

    async def test_a_browser_follows_with_its_cookie(self, served):
        headers = {"Cookie": f"penstock_session={token()}", "Sec-Fetch-Site": "same-origin"}
        async with following(served, headers) as (_, until):
            await until("dashboard:m-1")

    async def test_a_client_that_comes_back_gets_what_it_missed(self, served, publish):
        async with following(served, bearer("uploader")) as (_, until):
            await until("snapshot")
            await publish("m-1", "job_failed")
            seen = await until('"of":"m-1"')
        place = [line.removeprefix("id: ") for line in seen.splitlines() if line.startswith("id: ")][-1]
        await publish("m-1", "human_needed")
        async with following(served, bearer("uploader") | {"Last-Event-ID": place}) as (_, until):
            seen = await until("human_needed")
        assert "snapshot" not in seen
        assert "job_failed" not in seen
