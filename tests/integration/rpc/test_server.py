"""gRPC: the standard health service says what HTTP says, and reflection lists it."""

import asyncio
import socket

import grpc
import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tests.support.edge import edge_parts, free_port
from tests.support.rpc import running

from penstock.kernel.db import Database
from penstock.kernel.settings import SettingsError
from penstock.rpc.server import serve


class TestHealth:
    async def test_serving_while_we_are_well(self, parts):
        async with running(parts) as (channel, _):
            answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING

    async def test_each_service_has_its_own(self, parts):
        async with running(parts) as (channel, _):
            asked = health_pb2.HealthCheckRequest(service="video.v1.UploadService")
            answer = await health_pb2_grpc.HealthStub(channel).Check(asked)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING

    async def test_every_connection_is_told_whichever_of_the_servers_takes_it(self, parts):
        async with running(parts):
            address = f"127.0.0.1:{parts.settings.runtime.grpc_port}"
            for _ in range(16):
                async with grpc.aio.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as own:
                    asked = health_pb2.HealthCheckRequest(service="video.v1.UploadService")
                    answer = await health_pb2_grpc.HealthStub(own).Check(asked)
                    assert answer.status == health_pb2.HealthCheckResponse.SERVING

    async def test_not_serving_without_a_database(self, redis_client, keys):
        nowhere = Database(f"postgresql://nobody@127.0.0.1:{free_port()}/none", name="test", size=1)
        await nowhere.open()
        async with edge_parts(nowhere, redis_client, keys) as parts, running(parts) as (channel, _):
            answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        await nowhere.close()
        assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING

    async def test_watchers_are_told_when_we_stop(self, parts):
        async with running(parts) as (channel, stop):
            watching = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
            assert (await watching.read()).status == health_pb2.HealthCheckResponse.SERVING
            stop.set()
            assert (await watching.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING


class TestReflection:
    @pytest.fixture
    async def parts(self, database, redis_client, keys):
        async with edge_parts(database, redis_client, keys, grpc_reflection=True) as made:
            yield made

    async def test_it_is_off_unless_a_setting_says_so(self, database, redis_client, keys):
        async with edge_parts(database, redis_client, keys) as parts, running(parts) as (channel, _):
            stub = reflection_pb2_grpc.ServerReflectionStub(channel)
            call = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call.read()
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED

    async def test_the_services_are_listed(self, parts):
        async with running(parts) as (channel, _):
            stub = reflection_pb2_grpc.ServerReflectionStub(channel)
            call = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
            answer = await call.read()
        names = {service.name for service in answer.list_services_response.service}
        assert {"grpc.health.v1.Health", "video.v1.UploadService"} <= names

    async def test_a_service_is_described(self, parts):
        async with running(parts) as (channel, _):
            stub = reflection_pb2_grpc.ServerReflectionStub(channel)
            asked = reflection_pb2.ServerReflectionRequest(file_containing_symbol="video.v1.UploadService")
            answer = await stub.ServerReflectionInfo(iter([asked])).read()
        [file] = answer.file_descriptor_response.file_descriptor_proto
        [service] = descriptor_pb2.FileDescriptorProto.FromString(file).service
        assert [method.name for method in service.method] == ["InitResumableUpload", "GetUpload"]


class TestATakenPort:
    async def test_it_is_a_sentence_that_names_the_port(self, parts):
        port = parts.settings.runtime.grpc_port
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", port))
            taken.listen()
            with pytest.raises(SettingsError, match=f"port {port} .* PENSTOCK_GRPC_PORT"):
                await serve(parts, asyncio.Event())

    async def test_of_two_that_start_at_once_one_gets_it(self, parts):
        stop = asyncio.Event()
        both = [asyncio.ensure_future(serve(parts, stop)) for _ in range(2)]
        await asyncio.wait(both, timeout=10, return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        ends = await asyncio.wait_for(asyncio.gather(*both, return_exceptions=True), 10)
        assert sorted(type(end).__name__ for end in ends) == ["NoneType", "SettingsError"]
