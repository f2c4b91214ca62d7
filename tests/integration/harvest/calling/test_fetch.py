"""One page: what is repeated, what is not, what goes back to the queue, and what is written down of it."""

import asyncio
import hashlib
import json
import traceback
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
import structlog
from prometheus_client import REGISTRY
from tests.integration.harvest.calling.conftest import SECRET, spec_for
from tests.support.misbehaving import misbehaving, said

from penstock.harvest.calling.credentials import Credentials
from penstock.harvest.calling.fetch import Fetcher, Order, pause_after
from penstock.harvest.calling.pacing import Pacer
from penstock.harvest.calling.render import Context, render
from penstock.harvest.calling.transport import Transports
from penstock.harvest.settings import HarvestSettings
from penstock.harvest.spec import Operation, Retry
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.rategate import GateSettings, RateGate
from penstock.kernel.redis import connect


async def refusal(calling, spec, **more):
    with pytest.raises(PenstockError) as caught:
        await calling.fetch(spec, **more)
    return caught.value


class TestRepeating:
    @pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
    async def test_what_passes_is_asked_again(self, calling, status):
        async with misbehaving(said(status), said(200, b"at last")) as source:
            fetched = await calling.fetch(spec_for(source.address))
        assert fetched.answer.body == b"at last"
        assert fetched.evidence["retryCount"] == 1
        assert fetched.evidence["429Count"] == (status == 429)
        assert len(source.asked) == 2

    async def test_torn_connections_are_asked_again(self, calling):
        async def hang_up(asked, writer):
            return None

        async with misbehaving(hang_up, said(200, b"whole")) as source:
            fetched = await calling.fetch(spec_for(source.address))
        assert fetched.answer.body == b"whole"
        assert fetched.evidence["attempts"][0]["reason"] == "PROTOCOL_BROKEN"

    async def test_attempts_come_to_an_end(self, calling):
        async with misbehaving(said(503, b"down")) as source:
            failure = await refusal(calling, spec_for(source.address))
        assert failure.code is error_codes.SOURCE_UNAVAILABLE
        assert (failure.details["status"], failure.details["attempts"]) == (503, 3)
        assert failure.details["evidence"]["retryCount"] == 2
        assert len(source.asked) == 3

    @pytest.mark.parametrize("status", [300, 302, 400, 403, 404, 409, 410, 422])
    async def test_what_will_not_change_is_asked_once(self, calling, status):
        answer = said(status, {"message": "no such field: foo", "by": "ada@example.org"})
        async with misbehaving(answer) as source:
            failure = await refusal(calling, spec_for(source.address))
        assert failure.code is error_codes.SOURCE_REFUSED
        assert failure.details["status"] == status
        assert "no such field" in failure.details["answer"]
        assert "ada@" not in failure.details["answer"]
        assert len(source.asked) == 1

    async def test_a_source_may_declare_more_to_be_passing(self, calling):
        async with misbehaving(said(423), said(200)) as source:
            await calling.fetch(spec_for(source.address, retry={"retryableStatus": [423]}))
        assert len(source.asked) == 2

    async def test_a_server_error_that_is_not_declared_is_left_to_the_task(self, calling):
        async with misbehaving(said(501)) as source:
            assert (await refusal(calling, spec_for(source.address))).code is error_codes.SOURCE_UNAVAILABLE
        assert len(source.asked) == 1

    async def test_a_body_that_is_too_large_is_not_asked_for_again(self, calling):
        async with misbehaving(said(200, b"x" * 2000)) as source:
            failure = await refusal(calling, spec_for(source.address, http={"maxBodyBytes": 1000}))
        assert failure.code is error_codes.SOURCE_ANSWER_INVALID
        assert len(source.asked) == 1

    def test_pauses_grow_to_the_longest_and_spread(self):
        retry = Retry.model_validate({"first": "100ms", "longest": "2s", "multiplier": 2, "jitter": 0.2})
        for attempt, least in [(1, 0.1), (2, 0.2), (3, 0.4), (5, 1.6), (6, 2.0), (400, 2.0)]:
            assert least <= pause_after(attempt, retry) <= least * 1.2 + 1e-9


class TestRetryAfter:
    @pytest.mark.parametrize("status", [429, 503])
    async def test_a_long_one_gives_the_task_back_at_once(self, calling, status):
        async with misbehaving(said(status, retry_after="3600")) as source:
            failure = await refusal(calling, spec_for(source.address))
            again = await refusal(calling, spec_for(source.address))
        assert failure.code is again.code is error_codes.RATE_LIMITED
        assert failure.details["retry_after"] == 3600
        assert failure.details["evidence"]["rate"]["decision"] == "REJECT"
        assert again.details["retry_after"] > 3500
        assert len(source.asked) == 1  # nobody asks again before the time

    async def test_a_date_is_understood(self, calling):
        later = format_datetime(datetime.now(UTC) + timedelta(hours=2), usegmt=True)
        async with misbehaving(said(503, retry_after=later)) as source:
            failure = await refusal(calling, spec_for(source.address))
        assert 7100 < failure.details["retry_after"] <= 7200

    async def test_a_short_one_is_waited_for(self, calling):
        moments = []

        async def busy(asked, writer):
            moments.append(asyncio.get_running_loop().time())
            return said(429, retry_after="1") if len(moments) == 1 else said(200)

        async with misbehaving(busy) as source:
            fetched = await calling.fetch(spec_for(source.address))
        assert moments[1] - moments[0] >= 1
        assert fetched.evidence["retryAfterHits"] == 1
        assert fetched.evidence["rate"]["decision"] == "WAIT"
        assert fetched.evidence["rate"]["waitMs"] >= 900
        assert fetched.evidence["rate"]["cooldownUntil"]


class TestReading:
    async def test_a_refusal_that_came_as_200_is_asked_again(self, calling):
        def read(answer):
            found = json.loads(answer.body)
            if "wait" in found:
                raise PenstockError(error_codes.SOURCE_UNAVAILABLE, reason="try again")
            return found["items"]

        async with misbehaving(said(200, {"wait": 1}), said(200, {"items": [1, 2]})) as source:
            fetched = await calling.fetch(spec_for(source.address), read=read)
        assert fetched.page == [1, 2]
        assert fetched.evidence["retryCount"] == 1
        assert fetched.evidence["demoteEvents"] == 1

    @pytest.mark.parametrize("body", [b"Rate exceeded.", b'{"error":"API rate limit exceeded","limit":"3"}'])
    async def test_a_429_in_words_counts_as_one(self, calling, body):
        async with misbehaving(said(200, body), said(200, b"{}")) as source:
            fetched = await calling.fetch(spec_for(source.address))
        assert fetched.evidence["429Count"] == 1
        assert fetched.answer.body == b"{}"

    async def test_a_page_that_cannot_be_read_is_asked_for_again_and_then_told(self, calling, monkeypatch):
        monkeypatch.setenv("EXAMPLE_KEY", SECRET)
        calling.references["key"] = {"env": "EXAMPLE_KEY"}

        def read(answer):
            sample = answer.body.decode()
            raise PenstockError(error_codes.SOURCE_ANSWER_INVALID, sample=sample)

        async with misbehaving(said(200, f'{{"you sent": "{SECRET}", "by": "ada@example.org'.encode())) as source:
            spec = spec_for(source.address, auth={"type": "BEARER", "credentialRef": "key"})
            failure = await refusal(calling, spec, read=read)
        assert failure.code is error_codes.SOURCE_ANSWER_INVALID
        assert "<masked>" in failure.details["sample"]
        assert "ada@" not in str(failure)
        assert "hushMARKED" not in str(failure)
        assert len(source.asked) == 3

    async def test_another_refusal_of_the_reader_is_passed_on(self, calling):
        def read(answer):
            raise PenstockError(error_codes.SOURCE_TRUNCATED, total=10)

        async with misbehaving(said(200, b"{}")) as source:
            failure = await refusal(calling, spec_for(source.address), read=read)
        assert failure.code is error_codes.SOURCE_TRUNCATED
        assert len(source.asked) == 1

    async def test_reading_may_take_its_time_elsewhere(self, calling):
        async def read(answer):
            return await asyncio.to_thread(json.loads, answer.body)

        async with misbehaving(said(200, {"a": 1})) as source:
            assert (await calling.fetch(spec_for(source.address), read=read)).page == {"a": 1}

    async def test_samples_of_a_page_can_be_masked(self, calling, monkeypatch):
        monkeypatch.setenv("EXAMPLE_KEY", SECRET)
        calling.references["key"] = {"secret": {"env": "EXAMPLE_KEY"}}
        async with misbehaving(said(200, {"echo": SECRET})) as source:
            spec = spec_for(source.address, auth={"type": "BEARER", "credentialRef": "key"})
            fetched = await calling.fetch(spec)
        assert fetched.mask.sample(fetched.answer.body) == '{"echo": "<masked>"}'


class TestWithoutRedis:
    async def test_pages_still_come_slowly_and_say_so(self, own_redis, keys):
        client = connect(own_redis.url)
        own_redis.stop()

        async def lookup(source, code):
            return None

        transport, credentials = Transports(allow_private=True), Credentials(lookup)
        gate = RateGate(client, keys, settings=GateSettings(local_share=0.5, call_seconds=0.5))
        fetcher = Fetcher(transport, credentials, Pacer(gate, HarvestSettings()))
        async with misbehaving(said(200, b"{}")) as source:
            spec = spec_for(source.address, rateLimit={"quotaDaily": 100})
            request = render(spec, Context(now=datetime.now(UTC)))
            order = Order(spec, spec, request, "task", "ing-1-1", Operation.BACKFILL)
            fetched = await fetcher.fetch(order)
        assert fetched.evidence["rate"]["isLocal"] is True
        await transport.close()
        await client.aclose()


class TestEvidence:
    async def test_it_tells_the_whole_story(self, calling):
        headers = {"x_ratelimit_remaining": "90", "x_ratelimit_limit": "100", "x_ratelimit_reset": "3000"}
        headers["date"] = format_datetime(datetime.now(UTC) - timedelta(minutes=5), usegmt=True)
        async with misbehaving(said(200, {"a": 1}, **headers)) as source:
            spec = spec_for(source.address, http={"queryTemplate": {"q": "x"}, "headersTemplate": {"Accept": "a/b"}})
            fetched = await calling.fetch(spec)
        told = fetched.evidence
        assert datetime.fromisoformat(told["request"].pop("now")).tzinfo is not None
        assert told["request"] == {
            "method": "GET",
            "url": source.address,
            "query": [["q", "x"]],
            "headers": ["Accept: a/b"],
        }
        assert told["response"]["status"] == 200
        assert told["response"]["bytes"] == 8
        assert told["response"]["bodyHash"] == f"sha256:{hashlib.sha256(fetched.answer.body).hexdigest()}"
        assert told["response"]["headerHints"]["rateLimitRemaining"] == 90
        assert told["rate"]["limitKey"] == "example/works"
        assert told["rate"].keys() >= {"permitCost", "waitMs", "decision", "r", "burst", "cooldownUntil"}
        assert told["quota"]["remaining"] == 90
        assert told["quota"]["limit"] == 100
        assert datetime.fromisoformat(told["quota"]["windowReset"]) > datetime.now(UTC)
        assert (told["retryCount"], told["429Count"], told["permits"]) == (0, 0, 1)
        assert timedelta(minutes=4) < fetched.date_behind < timedelta(minutes=6)
        json.dumps(told)

    async def test_requests_are_counted(self, calling):
        labels = {"source": "example", "endpoint": "works", "operation": "HARVEST"}

        def counted(name, **more):
            return REGISTRY.get_sample_value(f"penstock_harvest_{name}_total", labels | more) or 0

        before = counted("429"), counted("retries"), counted("requests", outcome="ok")
        async with misbehaving(said(429), said(200)) as source:
            await calling.fetch(spec_for(source.address))
        after = counted("429"), counted("retries"), counted("requests", outcome="ok")
        assert [now - then for now, then in zip(after, before, strict=True)] == [1, 1, 1]


class TestSecrets:
    """A marked secret never gets into an exception, a log line, a description or evidence."""

    @pytest.mark.parametrize("location", ["QUERY", "HEADER", "BODY"])
    async def test_no_trouble_of_any_kind_shows_it(self, calling, monkeypatch, caplog, location):
        async def echo(asked, writer):
            return said(400, f"{asked.target} {asked.headers} {asked.body.decode()}".encode())

        async def hang_up(asked, writer):
            return None

        async def redirect(asked, writer):
            return said(302, location="/" + "x" * 10, echo=asked.headers.get("authorization", asked.target))

        caplog.set_level("DEBUG")
        monkeypatch.setenv("EXAMPLE_KEY", SECRET)
        calling.references["key"] = {"env": "EXAMPLE_KEY"}
        auth = {"type": "BEARER", "location": location, "name": "access", "credentialRef": "key"}
        seen = []
        with structlog.testing.capture_logs() as logged:
            for says in (echo, hang_up, redirect, said(401), said(500), said(200, b"x" * 9, content_encoding="gzip")):
                async with misbehaving(says) as source:
                    spec = spec_for(source.address, auth=auth, http={"method": "POST", "bodyTemplate": {"a": "b"}})
                    failure = await refusal(calling, spec)
                    assert "hushMARKED" in repr(source.asked)
                seen += ["".join(traceback.format_exception(failure)), repr(failure.details), repr(vars(calling))]
        seen += [repr(logged), caplog.text, repr(calling.credentials), repr(vars(calling.credentials))]
        assert [text for text in seen if "hushMARKED" in text] == []
