"""The calls of phones."""

import asyncio
import time
from dataclasses import replace

import grpc
import prometheus_client
import pytest
import structlog
from tests.support.edge import bearer, edge_parts, free_port
from tests.support.rpc import WISH, Phone, refused, running
from tests.support.shelf import CONTENT, md5_of

from penstock.api.access import ACCESS
from penstock.documents import CallLimits, DocumentSettings
from penstock.kernel.db import Database, fetch_all
from penstock.kernel.rategate import ForgivingGate
from penstock.rpc.upload_service import SERVICE, upload_calls
from penstock.rpc.video.v1 import upload_pb2 as wire
from penstock.uploads.direct.finishing import News, judge

Code = grpc.StatusCode
NOBODY = "3f0c8a52-1f0e-4b59-9a35-0c6f5b0f6a11"


async def arrived(parts, object_name):
    facts = parts.direct.bucket.put(object_name, CONTENT)
    async with parts.database.transaction() as tx:
        await judge(tx, parts.direct.settings, News(facts, "callback", f"gs://shelf/{object_name}"))
    return facts


async def rows(database, query):
    async with database.transaction() as tx:
        return await fetch_all(tx, query)


def counted(method, *codes):
    ask = prometheus_client.REGISTRY.get_sample_value
    labels = [{"method": f"{SERVICE}/{method}", "code": code} for code in codes]
    return sum(ask("penstock_rpc_call_total", each) or 0 for each in labels)


class TestUploads:
    async def test_a_phone_learns_where_to_begin(self, phone):
        told = await phone.init()
        assert told.object_name.endswith("/" + md5_of(CONTENT))
        assert told.bucket == "shelf"
        assert told.resumable_init_url.startswith("https://shelf/videos/")
        assert 0 < told.expires_at_unixms / 1000 - time.time() < 16 * 60
        assert not told.already_completed
        assert told.resumable_init_headers["x-goog-content-length-range"] == f"0,{len(CONTENT)}"
        assert told.resumable_init_headers["content-type"] == "video/mp4"

    async def test_ten_at_once_are_one_upload(self, phone, database):
        told = await asyncio.gather(*(phone.init() for _ in range(10)))
        assert len({each.upload_id for each in told}) == 1
        assert len(await rows(database, "select * from catalog.uploads")) == 1

    async def test_it_is_followed_to_its_end(self, phone, parts):
        told = await phone.init()
        seen = await phone.look(told.upload_id)
        assert (seen.status, seen.size_bytes, seen.gcs_generation) == ("pending", 0, "")
        facts = await arrived(parts, told.object_name)
        seen = await phone.look(told.upload_id)
        assert (seen.status, seen.bucket, seen.object_name) == ("completed", "shelf", told.object_name)
        assert (seen.size_bytes, seen.md5_hash_hex) == (len(CONTENT), md5_of(CONTENT))
        assert (seen.gcs_generation, seen.gcs_etag) == (facts.generation, facts.etag)
        again = await phone.init()
        assert (again.already_completed, again.resumable_init_url) == (True, "")
        assert (again.upload_id, again.object_name) == (told.upload_id, told.object_name)

    async def test_a_merchant_with_too_much_open_is_told_what_to_do(self, phone, parts):
        largest = int(parts.direct.settings.open_bytes_per_merchant)
        for number in range(largest // (1 << 31)):
            await phone.init(size_bytes=1 << 31, content_md5_hex=md5_of(str(number).encode()))
        full = await refused(phone.with_(accept_language="zh").init())
        assert (full.code, full.reason) == (Code.RESOURCE_EXHAUSTED, "UPLOAD_SLOTS_FULL")
        assert full.details["ErrorInfo"].metadata["remedy"] == "请先完成、提交或取消部分已有的上传"
        assert full.details["ErrorInfo"].metadata["held_bytes"] == str(largest)
        assert full.details["RetryInfo"].retry_delay.seconds == 60

    async def test_what_is_not_known_is_left_out(self, phone):
        assert (await phone.init(size_bytes=0, duration_seconds=0)).resumable_init_url

    async def test_it_is_the_callers(self, phone, database):
        told = await phone.init()
        [row] = await rows(database, "select * from catalog.uploads")
        assert str(row["upload_id"]) == told.upload_id
        assert (row["user_name"], row["merchant_id"]) == ("alice", "m-1")


class TestRefusals:
    @pytest.mark.parametrize(
        ("changes", "code", "reason"),
        [
            ({"content_md5_hex": "xyz"}, Code.INVALID_ARGUMENT, "REQUEST_INVALID"),
            ({"filename": ""}, Code.INVALID_ARGUMENT, "REQUEST_INVALID"),
            ({"filename": "a\x00b"}, Code.INVALID_ARGUMENT, "REQUEST_INVALID"),
            ({"size_bytes": -1}, Code.INVALID_ARGUMENT, "REQUEST_INVALID"),
            ({"video_id": "7"}, Code.INVALID_ARGUMENT, "REQUEST_INVALID"),
            ({"content_type": "image/gif\x00"}, Code.INVALID_ARGUMENT, "DIRECT_TYPE_REFUSED"),
            ({"duration_seconds": 301}, Code.INVALID_ARGUMENT, "VIDEO_TOO_LONG"),
            ({"size_bytes": 3 << 30}, Code.INVALID_ARGUMENT, "FILE_SIZE_EXCEEDED"),
            ({"video_id": NOBODY}, Code.NOT_FOUND, "VIDEO_NOT_FOUND"),
        ],
        ids=str,
    )
    async def test_what_cannot_work(self, phone, changes, code, reason):
        refusal = await refused(phone.init(**changes))
        assert (refusal.code, refusal.reason) == (code, reason)
        assert refusal.message.startswith(reason)

    async def test_other_facts_of_the_same_content(self, phone):
        await phone.init()
        refusal = await refused(phone.init(content_type="video/quicktime"))
        assert (refusal.code, refusal.reason) == (Code.ALREADY_EXISTS, "DIRECT_UPLOAD_DIFFERS")

    @pytest.mark.parametrize("upload_id", [NOBODY, "", "7", "x" * 10_000])
    async def test_an_upload_that_is_not_there(self, phone, upload_id):
        refusal = await refused(phone.look(upload_id))
        assert (refusal.code, refusal.reason) == (Code.NOT_FOUND, "UPLOAD_NOT_FOUND")

    async def test_another_users_is_not_there_either(self, phone):
        told = await phone.init()
        stranger = phone.with_(authorization=bearer(merchant="m-2")["Authorization"])
        assert (await refused(stranger.look(told.upload_id))).reason == "UPLOAD_NOT_FOUND"

    async def test_the_details_are_for_programs_and_for_people(self, phone):
        refusal = await refused(phone.with_(accept_language="zh-CN", x_request_id="r-17").init(content_md5_hex="xyz"))
        info, said = refusal.details["ErrorInfo"], refusal.details["LocalizedMessage"]
        assert (info.domain, info.metadata["request_id"]) == ("penstock", "r-17")
        assert (said.locale, said.message) == ("zh", "请求参数不正确")
        assert info.metadata["remedy"].startswith("请")
        [violation] = refusal.details["BadRequest"].field_violations
        assert violation.field == "content_md5_hex"
        english = await refused(phone.with_(accept_language="en").init(content_md5_hex="xyz"))
        assert english.details["LocalizedMessage"].message == "The request is not valid"

    async def test_what_is_no_message_of_ours(self, phone):
        call = phone.channel.unary_unary(f"/{SERVICE}/GetUpload")
        assert (await refused(call(b"\xff\xff"))).code is Code.UNAUTHENTICATED
        refusal = await refused(call(b"\xff\xff", metadata=list(phone.metadata.items())))
        assert (refusal.code, refusal.reason) == (Code.INVALID_ARGUMENT, "REQUEST_INVALID")

    async def test_a_message_that_is_too_large(self, phone):
        assert (await refused(phone.init(filename="x" * (2 << 20)))).code is Code.RESOURCE_EXHAUSTED


class TestWhoCalls:
    @pytest.mark.parametrize(
        ("metadata", "code", "reason"),
        [
            ({"x": "y"}, Code.UNAUTHENTICATED, "TOKEN_MISSING"),
            ({"authorization": "Bearer nonsense"}, Code.UNAUTHENTICATED, "TOKEN_INVALID"),
            ({"authorization": "Basic YTpi"}, Code.UNAUTHENTICATED, "TOKEN_INVALID"),
            ({"x-user-id": "u", "x-merchant-id": "m", "x-role": "admin"}, Code.UNAUTHENTICATED, "TOKEN_MISSING"),
        ],
        ids=["nothing", "nonsense", "basic", "a gateway nobody trusts"],
    )
    async def test_who_may_not(self, phone, metadata, code, reason):
        refusal = await refused(Phone(phone.channel, **metadata).init())
        assert (refusal.code, refusal.reason) == (code, reason)

    async def test_a_token_that_has_expired_or_is_of_another_role(self, phone):
        for token, code, reason in (
            (bearer(seconds=-60), Code.UNAUTHENTICATED, "TOKEN_INVALID"),
            (bearer("annotator"), Code.PERMISSION_DENIED, "ROLE_DENIED"),
        ):
            refusal = await refused(phone.with_(authorization=token["Authorization"]).init())
            assert (refusal.code, refusal.reason) == (code, reason)

    async def test_the_token_counts_and_not_the_headers_of_a_gateway_nobody_trusts(self, phone, database):
        await phone.with_(x_user_id="mallory", x_merchant_id="m-2", x_role="admin").init()
        [row] = await rows(database, "select * from catalog.uploads")
        assert (row["user_name"], row["merchant_id"]) == ("alice", "m-1")

    @pytest.mark.parametrize("role", ["uploader", "admin"])
    @pytest.mark.parametrize(
        "name", ["impersonate_merchant_id", "impersonate-merchant-id", "x-impersonate-merchant-id"]
    )
    async def test_nobody_acts_for_another_merchant_by_metadata(self, phone, database, name, role):
        asking = Phone(phone.channel, **{"authorization": bearer(role)["Authorization"], name: "m-2"})
        refusal = await refused(asking.init())
        assert (refusal.code, refusal.reason) == (Code.INVALID_ARGUMENT, "REQUEST_INVALID")
        assert await rows(database, "select * from catalog.uploads") == []

    def test_whoever_may_by_http_may_by_grpc(self, parts):
        calls = upload_calls(parts)
        assert calls.methods["InitResumableUpload"].roles == ACCESS["POST", "/api/v1/direct-uploads"]
        assert calls.methods["GetUpload"].roles == ACCESS["GET", "/api/v1/direct-uploads/{upload_id}"]

    def test_every_call_of_the_service_is_answered(self, parts):
        declared = wire.DESCRIPTOR.services_by_name["UploadService"].methods_by_name
        assert set(upload_calls(parts).methods) == set(declared)


GIVEN = {"x-user-id": "ming", "x-merchant-id": "m-7", "x-role": "uploader"}


class TestBehindAGateway:
    @pytest.fixture
    async def phone(self, database, redis_client, keys):
        async with (
            edge_parts(database, redis_client, keys, grpc_trust_metadata=True) as parts,
            running(parts) as (channel, _),
        ):
            yield Phone(channel, **GIVEN)

    async def test_its_word_is_taken(self, phone, database):
        await phone.init()
        [row] = await rows(database, "select * from catalog.uploads")
        assert (row["user_name"], row["merchant_id"]) == ("ming", "m-7")

    @pytest.mark.parametrize(
        "changes", [{"x-role": "root"}, {"x-role": ""}, {"x-merchant-id": "a b"}, {"x-user-id": ""}], ids=str
    )
    async def test_but_not_when_it_makes_no_sense(self, phone, changes):
        refusal = await refused(Phone(phone.channel, **GIVEN | changes).init())
        assert (refusal.code, refusal.reason) == (Code.UNAUTHENTICATED, "TOKEN_INVALID")

    @pytest.mark.parametrize("missing", ["x-merchant-id", "x-role"])
    async def test_nor_when_a_part_is_missing(self, phone, missing):
        given = {name: value for name, value in GIVEN.items() if name != missing}
        assert (await refused(Phone(phone.channel, **given).init())).reason == "TOKEN_INVALID"

    async def test_nor_when_a_client_has_added_one_of_its_own(self, phone):
        asked = wire.InitResumableUploadRequest(**WISH)
        call = phone.channel.unary_unary(f"/{SERVICE}/InitResumableUpload")
        given = [*GIVEN.items(), ("x-user-id", "mallory")]
        refusal = await refused(call(asked.SerializeToString(), metadata=given))
        assert (refusal.code, refusal.reason) == (Code.UNAUTHENTICATED, "TOKEN_INVALID")

    async def test_a_token_opens_the_door_as_well(self, phone):
        assert (await Phone(phone.channel).init()).upload_id
        assert (await refused(Phone(phone.channel, x="y").init())).reason == "TOKEN_MISSING"


class _Stuck:
    """A bucket whose signer never answers, until it does."""

    def __init__(self, bucket):
        self._bucket = bucket
        self.reached, self.free = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name):
        return getattr(self._bucket, name)

    async def sign_start(self, *given):
        self.reached.set()
        await self.free.wait()
        return await self._bucket.sign_start(*given)


class _Broken(_Stuck):
    async def sign_start(self, *_given):
        raise RuntimeError("the signer's secret is 4711")


class TestTrouble:
    async def called(self, parts, bucket):
        return running(replace(parts, direct=replace(parts.direct, bucket=bucket)))

    async def test_what_nobody_expected_is_logged_once_and_not_told(self, parts):
        async with await self.called(parts, _Broken(parts.direct.bucket)) as (channel, _):
            with structlog.testing.capture_logs() as logs:
                refusal = await refused(Phone(channel).init())
        assert (refusal.code, refusal.reason) == (Code.INTERNAL, "INTERNAL_ERROR")
        assert "4711" not in refusal.message + str(refusal.details)
        assert [line["event"] for line in logs if line["log_level"] == "error"] == ["rpc.failed"]

    async def test_a_bucket_that_is_away(self, phone, parts):
        parts.direct.bucket.is_away = True
        refusal = await refused(phone.init())
        assert (refusal.code, refusal.reason) == (Code.UNAVAILABLE, "STORE_UNAVAILABLE")

    async def test_direct_uploads_that_are_off(self, parts):
        async with await self.called(parts, None) as (channel, _):
            refusal = await refused(Phone(channel).init())
        assert (refusal.code, refusal.reason) == (Code.FAILED_PRECONDITION, "DIRECT_UPLOADS_OFF")

    async def test_a_database_that_is_away(self, redis_client, keys):
        nowhere = Database(f"postgresql://nobody@127.0.0.1:{free_port()}/none", name="test", size=1, wait_seconds=0.2)
        await nowhere.open()
        async with edge_parts(nowhere, redis_client, keys) as parts, running(parts) as (channel, _):
            refusal = await refused(Phone(channel).look(NOBODY))
        await nowhere.close()
        assert (refusal.code, refusal.reason) == (Code.UNAVAILABLE, "DB_UNAVAILABLE")

    async def test_a_merchant_who_calls_too_fast(self, parts, redis_client, keys):
        gate = ForgivingGate(redis_client, keys, clock=parts.clock)
        slow = CallLimits(gate, DocumentSettings(api_rate_per_sec=0.1, api_burst=2))
        async with running(replace(parts, limits=slow)) as (channel, _):
            phone = Phone(channel)
            await phone.init()
            await phone.init()
            refusal = await refused(phone.init())
        assert (refusal.code, refusal.reason) == (Code.RESOURCE_EXHAUSTED, "RATE_LIMITED")
        assert refusal.details["RetryInfo"].retry_delay.ToMilliseconds() > 0

    async def test_a_deadline_is_kept(self, parts):
        stuck = _Stuck(parts.direct.bucket)
        async with await self.called(parts, stuck) as (channel, _):
            began, before = time.monotonic(), counted("InitResumableUpload", "DEADLINE_EXCEEDED", "CANCELLED")
            assert (await refused(Phone(channel).init(deadline=0.3))).code is Code.DEADLINE_EXCEEDED
            assert time.monotonic() - began < 10
            while counted("InitResumableUpload", "DEADLINE_EXCEEDED", "CANCELLED") == before:
                assert time.monotonic() - began < 20, "the server went on with it"
                await asyncio.sleep(0.02)
            stuck.free.set()
            assert (await Phone(channel).init()).upload_id

    async def test_a_call_under_way_is_answered_when_the_server_stops(self, parts):
        stuck = _Stuck(parts.direct.bucket)
        async with await self.called(parts, stuck) as (channel, stop):
            under_way = asyncio.ensure_future(_answer_of(Phone(channel).init()))
            await asyncio.wait_for(stuck.reached.wait(), 10)
            stop.set()
            stuck.free.set()
            assert (await under_way).upload_id

    async def test_a_call_that_is_given_up_harms_nothing(self, parts, database):
        stuck = _Stuck(parts.direct.bucket)
        async with await self.called(parts, stuck) as (channel, _):
            given_up = [Phone(channel).init(deadline=None) for _ in range(40)]
            tasks = [asyncio.ensure_future(_awaited(call)) for call in given_up]
            await asyncio.wait_for(stuck.reached.wait(), 10)
            for call in given_up:
                call.cancel()
            assert set(await asyncio.gather(*tasks)) == {"cancelled"}
            stuck.free.set()
            told = await asyncio.gather(*(Phone(channel).init() for _ in range(10)))
        assert len({each.upload_id for each in told}) == 1
        assert len(await rows(database, "select * from catalog.uploads")) == 1


async def _answer_of(call):
    return await call


async def _awaited(call):
    try:
        await call
    except asyncio.CancelledError:
        return "cancelled"
    return "answered"


class TestWatching:
    async def test_calls_are_counted_and_timed(self, phone):
        def seen():
            return counted("GetUpload", "OK"), counted("GetUpload", "NOT_FOUND")

        before, told = seen(), await phone.init()
        await phone.look(told.upload_id)
        await refused(phone.look(NOBODY))
        assert seen() == (before[0] + 1, before[1] + 1)

    async def test_a_trace_goes_on(self, phone, database):
        trace = "0af7651916cd43dd8448eb211c80319c"
        await phone.with_(traceparent=f"00-{trace}-b7ad6b7169203331-01").init()
        [told] = await rows(database, "select * from outbox_events where event_type = 'direct_upload.pending'")
        assert trace in str(told)

    async def test_the_answer_names_the_call(self, phone):
        call = phone.with_(x_request_id="mine-1").init()
        await call
        assert dict(await call.trailing_metadata())["x-request-id"] == "mine-1"

    async def test_a_signed_address_is_logged_nowhere(self, phone):
        with structlog.testing.capture_logs() as logs:
            told = await phone.init()
            await refused(phone.init(content_type="video/quicktime"))
        assert "?signed" in told.resumable_init_url
        assert "?signed" not in str(logs)
