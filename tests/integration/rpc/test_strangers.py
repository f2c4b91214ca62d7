"""gRPC clients without a token, or with one and bad manners, hold up nobody else."""

import asyncio

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.support.edge import bearer
from tests.support.rpc import Phone, refused, running

from penstock.kernel.turns import STRANGERS
from penstock.rpc import calls, health, messages

INIT = "/video.v1.UploadService/InitResumableUpload"
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def watch(channel):
    return health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())


def begin(channel, merchant: str):
    """A call whose message is not sent yet."""
    call = channel.stream_unary(INIT)(metadata=[("authorization", bearer(merchant=merchant)["Authorization"])])
    return asyncio.ensure_future(call)


class TestWatchers:
    async def test_there_are_only_so_many_and_calls_go_on(self, parts, monkeypatch):
        monkeypatch.setattr(health, "MOST_WATCHERS", 3)
        async with running(parts) as (channel, _):
            watching = [watch(channel) for _ in range(3)]
            assert [(await one.read()).status for one in watching] == [SERVING] * 3
            assert (await refused(watch(channel).read())).code is grpc.StatusCode.RESOURCE_EXHAUSTED
            asked = health_pb2.HealthCheckRequest()
            assert (await health_pb2_grpc.HealthStub(channel).Check(asked)).status == SERVING
            await Phone(channel).init()
            watching.pop().cancel()
            assert (await self.place_found(channel)).status == SERVING

    async def place_found(self, channel):
        async with asyncio.timeout(5):
            while True:
                try:
                    return await watch(channel).read()
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(0.02)

    async def test_those_that_stay_are_told_after_others_have_left(self, parts):
        async with running(parts) as (channel, stop):
            leaving, staying = watch(channel), watch(channel)
            assert (await leaving.read()).status == SERVING
            assert (await staying.read()).status == SERVING
            leaving.cancel()
            await Phone(channel).init()  # the server has heard of it by now
            stop.set()
            assert (await asyncio.wait_for(staying.read(), 5)).status == NOT_SERVING


class TestTurns:
    async def test_a_call_waits_for_its_own_merchants_turns_and_for_nobody_elses(self, parts):
        held = [parts.turns.of("m-greedy") for _ in range(2)]
        async with running(parts) as (channel, _), parts.turns.of("m-modest"):
            for each in held:
                await each.take()
            waiting = Phone(channel, authorization=bearer(merchant="m-greedy")["Authorization"]).init()
            await Phone(channel, authorization=bearer(merchant="m-modest")["Authorization"]).init()
            assert not waiting.done()
            held[0].give()
            await waiting
            held[1].give()

    async def test_strangers_are_together_like_one_merchant(self, parts):
        held = [parts.turns.of(STRANGERS) for _ in range(2)]
        async with running(parts) as (channel, _):
            for each in held:
                await each.take()
            waiting = [
                Phone(channel, authorization="Bearer no").init(),
                channel.unary_unary("/nobody.Knows/This")(b""),
                health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest()),
            ]
            await Phone(channel).init()
            assert not any(each.done() for each in waiting)
            for each in held:
                each.give()
            codes = [await each.code() for each in waiting]
        assert codes == [grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.OK]


class TestAMessageThatNeverComes:
    @pytest.mark.parametrize("path", ["/grpc.health.v1.Health/Check", INIT])
    async def test_ends_the_call(self, parts, monkeypatch, path):
        monkeypatch.setattr(messages, "SECONDS_TO_SEND", 0.2)
        async with running(parts) as (channel, _):
            call = channel.stream_unary(path)(metadata=[("authorization", bearer()["Authorization"])])
            assert (await refused(call)).code is grpc.StatusCode.INVALID_ARGUMENT

    async def test_is_not_waited_for_without_a_token(self, parts):
        async with running(parts) as (channel, _):
            refusal = await asyncio.wait_for(refused(channel.stream_unary(INIT)()), 5)
        assert refusal.reason == "TOKEN_MISSING"


class TestOneMerchant:
    async def test_has_only_so_many_calls_at_once(self, parts, monkeypatch):
        monkeypatch.setattr(calls, "MOST_PER_MERCHANT", 2)
        async with running(parts) as (channel, _):
            held = [begin(channel, "m-1") for _ in range(2)]
            async with asyncio.timeout(5):
                while (refusal := await self.attempt(channel)) is None:
                    await asyncio.sleep(0.02)
            assert refusal.code is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert refusal.reason == "RATE_LIMITED"
            await Phone(channel, authorization=bearer(merchant="m-2")["Authorization"]).init()
            for call in held:
                call.cancel()

    async def attempt(self, channel):
        try:
            return await refused(Phone(channel).init())
        except AssertionError:
            return None


class TestAConnection:
    async def test_has_only_so_many_calls_at_once(self, parts, monkeypatch):
        """The client's library waits for a place by itself; the server sees 128 of 200."""
        monkeypatch.setattr(calls, "MOST_PER_MERCHANT", 1000)
        async with running(parts) as (channel, _):
            held = [begin(channel, "m-1") for _ in range(200)]
            own = grpc.aio.insecure_channel(
                f"127.0.0.1:{parts.settings.runtime.grpc_port}", [("grpc.use_local_subchannel_pool", 1)]
            )
            async with own:
                await Phone(own).init()
            with pytest.raises(grpc.aio.AioRpcError) as late:
                await Phone(channel).init(deadline=0.5)
            assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            for call in held:
                call.cancel()
