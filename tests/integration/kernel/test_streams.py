"""Event streams over real Redis and PostgreSQL: publishing, following, resuming, limits."""

import asyncio
import gc
import random

import pytest
from prometheus_client import REGISTRY
from tests.support.streams import World, facts, names, numbers, opened, take

from penstock.kernel import error_codes, json
from penstock.kernel.errors import PenstockError
from penstock.kernel.streams import Request, Snapshots, StreamEvent, StreamSettings

JOB = "job:1"


@pytest.fixture
def world(database, redis_client, keys):
    return World(database, redis_client, keys, StreamSettings(catch_up_sec=0.3))


@pytest.fixture
async def hub(world):
    async with world.started_hub() as hub:
        yield hub


def metric(name: str) -> float:
    return REGISTRY.get_sample_value(name) or 0


class TestPublishing:
    async def test_an_event_reaches_every_topic_it_names_with_its_origin(self, world):
        event = StreamEvent(7, ("dashboard", "dashboard:m1", JOB), "human_needed", {"page_no": 3}, "m1")
        await world.publisher.publish([event])
        for topic in event.topics:
            [(_, fields)] = await world.redis.xrange(world.keys.stream(topic))
            assert fields[b"n"] == b"human_needed"
            assert json.loads(fields[b"d"]) == {"page_no": 3, "merchant_id": "m1", "event_id": 7}

    async def test_a_batch_that_is_sent_again_is_dropped(self, world):
        await world.announce(JOB, *range(500))
        await world.announce(JOB, *range(250, 600))
        assert await world.redis.xlen(world.keys.stream(JOB)) == 600

    async def test_a_topic_keeps_its_cap_of_events_and_of_remembered_ids(self, world):
        for start in range(0, 5000, 500):
            await world.announce(JOB, *range(start, start + 500))
        assert 2000 <= await world.redis.xlen(world.keys.stream(JOB)) <= 2200
        assert await world.redis.zcard(world.keys.stream_seen(JOB)) == 2000

    async def test_a_silent_subject_expires_and_a_dashboard_stays(self, world):
        await world.publisher.publish([StreamEvent(1, (JOB, "dashboard", "dashboard:m1"), "job_completed", {})])
        assert 3590 <= await world.redis.ttl(world.keys.stream(JOB)) <= 3600
        assert 3590 <= await world.redis.ttl(world.keys.stream_seen(JOB)) <= 3600
        assert await world.redis.ttl(world.keys.stream("dashboard")) == -1
        assert await world.redis.ttl(world.keys.stream("dashboard:m1")) == -1

    @pytest.mark.parametrize("name", ["", "a b", "x\ndata: forged", "x\r"])
    def test_a_name_that_could_forge_a_frame_is_refused(self, name):
        with pytest.raises(ValueError, match="name of an event"):
            StreamEvent(1, (JOB,), name, {})


class TestFollowing:
    async def test_a_new_client_gets_the_state_and_then_what_happens(self, world, hub):
        await world.happen(JOB, 1, 2)
        subscription = hub.subscribe(Request(JOB))
        [snapshot] = await take(subscription, 1)
        assert facts(snapshot) == [1, 2]
        await world.happen(JOB, 3)
        await world.happen(JOB, 4)
        assert numbers(await take(subscription, 2)) == [3, 4]

    async def test_a_client_that_wants_no_state_gets_only_what_happens_from_now_on(self, world, hub):
        await world.happen(JOB, 1)
        subscription = hub.subscribe(Request(JOB, snapshot_first=False))
        assert await subscription.take(0.2) == []
        await world.happen(JOB, 2)
        assert numbers(await take(subscription, 1)) == [2]

    async def test_topics_do_not_mix(self, world, hub):
        mine, other = await opened(hub, Request("job:1")), await opened(hub, Request("job:2"))
        await world.happen("job:2", 2)
        await world.happen("job:1", 1)
        assert numbers(await take(mine, 1)) == [1]
        assert numbers(await take(other, 1)) == [2]

    async def test_two_hubs_show_the_same_events(self, world, hub):
        async with world.started_hub() as second:
            here, there = await opened(hub, Request(JOB)), await opened(second, Request(JOB))
            await world.happen(JOB, *range(50))
            seen = await take(here, 50)
            assert seen == await take(there, 50)
            assert numbers(seen) == list(range(50))

    async def test_a_burst_reaches_a_healthy_reader_whole(self, world, hub):
        before = metric("gateway_sse_queue_overflow_total")
        subscription = await opened(hub, Request(JOB))
        reading = asyncio.create_task(take(subscription, 1000))
        await world.announce(JOB, *range(1000))
        assert numbers(await reading) == list(range(1000))
        assert metric("gateway_sse_queue_overflow_total") == before

    async def test_an_event_whose_nudge_was_lost_comes_with_the_next_look(self, world, hub):
        subscription = await opened(hub, Request(JOB))
        await world.redis.xadd(world.keys.stream(JOB), {"n": "page_completed", "d": '{"n":1}'})
        assert numbers(await take(subscription, 1, seconds=3)) == [1]

    async def test_it_comes_with_the_next_look_though_another_topic_is_busy(self, world, hub):
        quiet, _busy = await opened(hub, Request(JOB)), await opened(hub, Request("job:2"))

        async def chatter() -> None:
            for fact in range(10_000):
                await world.announce("job:2", fact)
                await asyncio.sleep(0.02)

        talking = asyncio.create_task(chatter())
        await world.redis.xadd(world.keys.stream(JOB), {"n": "page_completed", "d": '{"n":1}'})
        assert numbers(await take(quiet, 1, seconds=3)) == [1]
        talking.cancel()

    async def test_a_broken_nudge_connection_is_made_anew_and_loses_nothing(self, world, hub):
        subscription = await opened(hub, Request(JOB))
        await world.redis.client_kill_filter(_type="pubsub")
        await world.happen(JOB, 1)
        assert numbers(await take(subscription, 1, seconds=3)) == [1]
        assert await world.redis.pubsub_numsub(world.keys.stream_nudge()) == [(world.keys.stream_nudge().encode(), 1)]

    async def test_many_clients_that_come_at_once_are_all_served(self, world, hub):
        await world.happen(JOB, 1)
        crowd = [hub.subscribe(Request(JOB)) for _ in range(400)]
        opened = await asyncio.gather(*(take(subscription, 1, seconds=5) for subscription in crowd))
        assert all(names(notices) == ["snapshot"] for notices in opened)
        await world.happen(JOB, 2)
        seen = await asyncio.gather(*(take(subscription, 1, seconds=5) for subscription in crowd))
        assert all(numbers(notices) == [2] for notices in seen)

    async def test_the_stream_ends_after_a_last_event(self, world, hub):
        subscription = await opened(hub, Request(JOB, until=frozenset({"job_completed"})))
        await world.publisher.publish(
            [
                StreamEvent(n, (JOB,), name, {"n": n})
                for n, name in enumerate(["page_completed", "job_completed", "late"])
            ]
        )
        assert names(await take(subscription, 3)) == ["page_completed", "job_completed"]
        assert await subscription.take(1) is None

    async def test_it_goes_on_after_one_of_that_name_that_is_not_the_last(self, world, hub):
        last = Request(JOB, until=frozenset({"job_failed"}), is_last=lambda notice: b'"n":2' in notice.data)
        subscription = await opened(hub, last)
        await world.publisher.publish([StreamEvent(n, (JOB,), "job_failed", {"n": n}) for n in range(1, 4)])
        seen = await take(subscription, 2)
        assert [b'"n":1' in seen[0].data, b'"n":2' in seen[1].data, len(seen)] == [True, True, 2]
        assert await subscription.take(1) is None

    async def test_closing_the_hub_ends_every_stream_at_once(self, world, hub):
        live, opening = await opened(hub, Request(JOB)), hub.subscribe(Request(JOB))
        waiting = asyncio.create_task(live.take(60))
        await asyncio.sleep(0)
        await hub.close()
        assert await asyncio.wait_for(waiting, 1) is None
        assert await opening.take(60) is None
        with pytest.raises(PenstockError) as refused:
            hub.subscribe(Request(JOB))
        assert refused.value.code is error_codes.SERVICE_UNAVAILABLE


class TestResuming:
    async def test_everything_after_the_id_comes_once_in_order_even_more_than_a_queue_holds(self, world, hub):
        subscription = await opened(hub, Request(JOB))
        await world.happen(JOB, *range(10))
        seen = await take(subscription, 10)
        subscription.close()
        await world.announce(JOB, *range(10, 1200))
        again = hub.subscribe(Request(JOB, last_event_id=str(seen[4].bookmark)))
        assert numbers(await take(again, 1195)) == list(range(5, 1200))
        assert await again.take(0.05) == []

    async def test_another_server_goes_on_where_the_first_was(self, world, hub):
        first = await opened(hub, Request(JOB))
        await world.happen(JOB, 1, 2, 3)
        [bookmark] = [n.bookmark for n in await take(first, 3) if numbers([n]) == [2]]
        async with world.started_hub() as second:
            again = second.subscribe(Request(JOB, last_event_id=str(bookmark)))
            assert names(notices := await take(again, 1)) == ["page_completed"]
            assert numbers(notices) == [3]

    async def test_a_client_that_saw_only_the_state_of_a_silent_topic_goes_on_from_there(self, world, hub):
        subscription = hub.subscribe(Request(JOB))
        [snapshot] = await take(subscription, 1)
        subscription.close()
        await world.happen(JOB, 1, 2)
        again = hub.subscribe(Request(JOB, last_event_id=str(snapshot.bookmark)))
        assert names(notices := await take(again, 2)) == ["page_completed"] * 2
        assert numbers(notices) == [1, 2]

    async def test_nothing_is_lost_or_repeated_or_swapped_at_the_seam(self, world):
        """Clients come, go and come back at random while events pour in through an at-least-once relay."""
        chance, total = random.Random(7), 1500

        async def pour() -> None:
            for start in range(0, total, 5):
                await world.announce(JOB, *range(max(0, start - chance.choice([0, 0, 7])), start + 5))
                await asyncio.sleep(chance.choice([0, 0, 0.002]))

        async def client(hub, patience: int) -> list[int]:
            seen: list[int] = []
            bookmark = str(first.bookmark)
            while len(seen) < total:
                subscription = hub.subscribe(Request(JOB, last_event_id=bookmark))
                batch = await take(subscription, chance.randint(1, patience), seconds=0.5)
                subscription.close()
                assert set(names(batch)) <= {"page_completed"}
                seen += numbers(batch)
                bookmark = str(batch[-1].bookmark) if batch else bookmark
            return seen

        async with world.started_hub() as one, world.started_hub() as two:
            [first] = await take(watcher := one.subscribe(Request(JOB)), 1)
            watcher.close()
            clients = [client(chance.choice([one, two]), chance.choice([1, 20, 200])) for _ in range(12)]
            _, *seen = await asyncio.wait_for(asyncio.gather(pour(), *clients), 40)
        assert all(numbers == list(range(total)) for numbers in seen)


class TestPlaces:
    @pytest.fixture
    def world(self, database, redis_client, keys):
        return World(database, redis_client, keys, StreamSettings(max_connections=3, per_merchant_max=2))

    async def test_one_merchant_cannot_take_more_than_its_share(self, hub):
        held = [hub.subscribe(Request(JOB, merchant_id="m1")) for _ in range(2)]
        with pytest.raises(PenstockError) as refused:
            hub.subscribe(Request(JOB, merchant_id="m1"))
        assert refused.value.code is error_codes.RATE_LIMITED
        assert refused.value.details == {"scope": "merchant", "limit": 2, "retry_after": 5}
        hub.subscribe(Request(JOB, merchant_id="m2")).close()
        held.pop().close()
        hub.subscribe(Request(JOB, merchant_id="m1")).close()

    async def test_all_together_cannot_take_more_than_there_are(self, hub):
        gc.collect()  # what earlier tests dropped gives its place back now, not in between
        before = metric("gateway_sse_active_connections")
        held = [hub.subscribe(Request(JOB, merchant_id=f"m{n}")) for n in range(3)]
        assert metric("gateway_sse_active_connections") == before + 3
        with pytest.raises(PenstockError) as refused:
            hub.subscribe(Request(JOB))
        assert refused.value.details["scope"] == "all"
        for subscription in held:
            subscription.close()
            subscription.close()
        assert hub.connections == 0
        assert metric("gateway_sse_active_connections") == before

    async def test_a_subscription_that_was_never_read_gives_its_place_back(self, hub):
        hub.subscribe(Request(JOB, merchant_id="m1"))
        gc.collect()
        assert hub.connections == 0

    async def test_a_topic_that_nobody_can_describe_is_refused(self, hub):
        with pytest.raises(PenstockError) as refused:
            hub.subscribe(Request("weather:today"))
        assert refused.value.code is error_codes.NOT_FOUND


class TestSlowReaders:
    async def test_the_oldest_events_are_dropped_and_counted_and_the_state_follows(self, world, hub):
        before = metric("gateway_sse_queue_overflow_total")
        slow, quick = await opened(hub, Request(JOB)), await opened(hub, Request(JOB))
        for start in range(0, 250, 50):
            await world.happen(JOB, *range(start, start + 50))
            assert len(await take(quick, 50)) == 50
        [snapshot, *rest] = await take(slow, 101)
        assert facts(snapshot) == list(range(250))
        assert numbers(rest) == list(range(150, 250))
        assert metric("gateway_sse_queue_overflow_total") == before + 150


class TestSnapshots:
    async def test_one_read_serves_all_who_asked_before_it_began_and_nobody_gets_an_older_one(self, database):
        reads, gate = asyncio.Queue(), asyncio.Event()
        count = iter(range(1, 100))

        async def provider(tx, topic):
            number = next(count)
            reads.put_nowait(number)
            await gate.wait()
            return {"read": number}

        snapshots = Snapshots(database, {"job": provider})
        early = [asyncio.create_task(snapshots.read(JOB)) for _ in range(50)]
        assert await reads.get() == 1
        late = [asyncio.create_task(snapshots.read(JOB)) for _ in range(50)]
        assert await reads.get() == 2
        gate.set()
        assert {json.loads(data)["read"] for data in await asyncio.gather(*early)} == {1}
        assert {json.loads(data)["read"] for data in await asyncio.gather(*late)} == {2}
