"""What a client sees when Redis loses something: a snapshot, and nothing missing after it."""

import asyncio
import shutil

import pytest
from tests.support.streams import World, facts, facts_of, names, numbers, opened, take

from penstock.embedded import EmbeddedRedis
from penstock.kernel import error_codes
from penstock.kernel.clock import SystemClock
from penstock.kernel.errors import PenstockError
from penstock.kernel.redis import connect
from penstock.kernel.streams import Request, Snapshots, StreamHub, StreamReader, StreamSettings

JOB = "job:1"


@pytest.fixture
async def world(database, own_redis, keys):
    client = connect(own_redis.url)
    yield World(database, client, keys, StreamSettings(catch_up_sec=0.2, stream_maxlen=200))
    await client.aclose()


@pytest.fixture
async def hub(world):
    async with world.started_hub() as hub:
        yield hub


def is_taken(hub: StreamHub) -> bool:
    try:
        hub.subscribe(Request(JOB)).close()
    except PenstockError as refusal:
        assert refusal.code is error_codes.REDIS_UNAVAILABLE
        assert refusal.details["retry_after"] > 0
        return False
    return True


def restart_empty(server: EmbeddedRedis) -> None:
    server.kill()
    shutil.rmtree(server.data)
    server.start()


class TestComingBack:
    """A client that was away returns with its last id."""

    @pytest.fixture
    async def bookmark(self, world, hub):
        """The client saw 1 and 2."""
        subscription = await opened(hub, Request(JOB))
        await world.happen(JOB, 1, 2)
        seen = await take(subscription, 2)
        subscription.close()
        return str(seen[-1].bookmark)

    async def returns(self, world, bookmark, count):
        async with world.started_hub() as elsewhere:
            return await take(elsewhere.subscribe(Request(JOB, last_event_id=bookmark)), count, seconds=6)

    async def test_to_a_stream_that_still_holds_the_id_gets_only_the_events(self, world, bookmark):
        await world.happen(JOB, 3)
        notices = await self.returns(world, bookmark, 1)
        assert (names(notices), numbers(notices)) == (["page_completed"], [3])

    async def test_with_an_id_that_redis_cannot_hold_gets_the_state(self, world, bookmark):
        for position in (f"{2**64}-0", f"0-{2**64}"):
            [snapshot] = await self.returns(world, f"{position}-{bookmark[-8:]}", 1)
            assert facts(snapshot) == [1, 2]

    async def test_after_a_trim_gets_the_state(self, world, bookmark):
        for start in range(3, 503, 100):
            await world.happen(JOB, *range(start, start + 100))
        [snapshot] = await self.returns(world, bookmark, 1)
        assert facts(snapshot) == list(range(1, 503))

    async def test_after_a_flush_gets_the_state(self, world, bookmark):
        await world.redis.flushall()
        [snapshot] = await self.returns(world, bookmark, 1)
        assert facts(snapshot) == [1, 2]

    async def test_to_a_stream_that_was_made_anew_gets_the_state(self, world, bookmark):
        await world.happen(JOB, 3)
        await world.redis.flushall()
        await world.happen(JOB, 4)
        [snapshot] = await self.returns(world, bookmark, 1)
        assert facts(snapshot) == [1, 2, 3, 4]

    async def test_after_a_restart_gets_the_state_and_what_the_stream_still_holds(self, world, own_redis, bookmark):
        """The append-only file may lack the newest writes, so events alone would not be enough."""
        await world.happen(JOB, 3)
        own_redis.kill()
        own_redis.start()
        [snapshot, *events] = await self.returns(world, bookmark, 2)
        assert facts(snapshot) == [1, 2, 3]
        assert numbers(events) == [3]

    async def test_after_a_restart_that_lost_the_newest_writes_gets_the_state(self, world, own_redis, bookmark):
        """3 was written and lost; the client's own entry is still there, so only the run tells."""
        await world.record(JOB, 3)
        own_redis.stop()
        own_redis.start()
        [snapshot] = await self.returns(world, bookmark, 1)
        assert facts(snapshot) == [1, 2, 3]

    async def test_after_an_empty_restart_gets_the_state(self, world, own_redis, bookmark):
        restart_empty(own_redis)
        await world.happen(JOB, 3)
        [snapshot] = await self.returns(world, bookmark, 1)
        assert facts(snapshot) == [1, 2, 3]

    @pytest.mark.parametrize("strange", ["", "7", "x-y-z", "1-1-zzzzzzzz", "9" * 400, "1-1-00000000\r\n"])
    async def test_with_an_id_we_never_gave_gets_the_state(self, world, hub, strange):
        await world.happen(JOB, 1)
        notices = await self.returns(world, strange, 1)
        assert names(notices)[0] == "snapshot"
        assert facts(notices[0]) == [1]


class TestStayingConnected:
    """A client is connected while it happens."""

    async def test_a_flush_is_answered_with_the_state_and_the_stream_goes_on(self, world, hub):
        subscription = await opened(hub, Request(JOB))
        await world.happen(JOB, 1)
        await take(subscription, 1)
        await world.record(JOB, 2)  # announced, and flushed before anyone read it
        await world.redis.flushall()
        await world.happen(JOB, 3)
        [snapshot, *events] = await take(subscription, 2)
        assert facts(snapshot) == [1, 2, 3]
        assert numbers(events) == [3]
        await world.happen(JOB, 4)
        assert numbers(await take(subscription, 1)) == [4]

    async def test_a_flush_is_noticed_without_any_new_event(self, world, hub):
        subscription = await opened(hub, Request(JOB))
        await world.record(JOB, 1)
        await world.redis.flushall()
        [snapshot] = await take(subscription, 1, seconds=3)
        assert facts(snapshot) == [1]

    async def test_a_stream_made_anew_under_an_earlier_clock_is_followed(self, world, hub):
        subscription = await opened(hub, Request(JOB))
        await world.redis.xadd(world.keys.stream(JOB), {"n": "page_completed", "d": '{"n":1}'}, id="9999999999999-0")
        assert numbers(await take(subscription, 1)) == [1]
        await world.redis.flushall()
        await world.happen(JOB, 2)
        [snapshot] = await take(subscription, 1)
        assert facts(snapshot) == [2]
        await world.happen(JOB, 3)
        assert numbers(await take(subscription, 1)) == [3]

    @pytest.mark.parametrize("how", ["kept", "empty"])
    async def test_a_restart_of_redis_is_survived(self, world, hub, own_redis, how):
        subscription = await opened(hub, Request(JOB))
        await world.happen(JOB, 1)
        assert numbers(await take(subscription, 1)) == [1]
        own_redis.kill()
        await world.record(JOB, 2)
        assert await subscription.take(0.5) == []  # quiet, not ended
        own_redis.start() if how == "kept" else restart_empty(own_redis)
        [snapshot] = await take(subscription, 1, seconds=6)
        assert facts(snapshot) == [1, 2]
        await world.happen(JOB, 3)
        assert numbers(await take(subscription, 1)) == [3]

    async def test_a_client_that_comes_just_as_redis_goes_is_kept_until_it_is_back(self, world, hub, own_redis):
        own_redis.kill()
        subscription = hub.subscribe(Request(JOB))
        assert await subscription.take(0.5) == []
        own_redis.start()
        await world.happen(JOB, 1)
        assert facts((await take(subscription, 1, seconds=6))[0]) == [1]

    async def test_a_client_that_comes_when_redis_is_gone_is_told_so_until_it_is_back(self, world, hub, own_redis):
        staying = hub.subscribe(Request(JOB))
        await take(staying, 1)
        own_redis.kill()
        async with asyncio.timeout(10):
            while is_taken(hub):
                await asyncio.sleep(0.05)
        assert await staying.take(0.1) == []
        own_redis.start()
        async with asyncio.timeout(10):
            while not is_taken(hub):
                await asyncio.sleep(0.05)
        assert hub.connections == 1

    async def test_a_client_that_comes_while_postgresql_is_away_is_kept_until_it_is_back(self, world):
        away = asyncio.Event()

        async def provider(tx, topic):
            if not away.is_set():
                raise PenstockError(error_codes.DB_UNAVAILABLE)
            return await facts_of(tx, topic)

        reader = StreamReader(world.redis, world.keys, world.settings)
        hub = StreamHub(reader, Snapshots(world.database, {"job": provider}), world.settings, SystemClock())
        hub.start()
        subscription = hub.subscribe(Request(JOB))
        assert await subscription.take(0.3) == []
        await world.happen(JOB, 1)
        away.set()
        [snapshot, *_] = await take(subscription, 1)
        assert facts(snapshot) == [1]
        await hub.close()
