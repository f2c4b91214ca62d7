"""Every way to say who we are, through planner and executor; what happens when a source does not believe us."""

import hashlib
import hmac
import time
from datetime import timedelta
from importlib.metadata import EntryPoint
from urllib.parse import urlsplit

import pytest
from tests.standins import KEY, Library
from tests.standins.generic import CLIENT_ID, CLIENT_SECRET
from tests.support.harvesting import CALM, laid, written

from penstock.harvest.calling import auth as auth_module
from penstock.harvest.calling.auth import Signature

WAYS = {
    "none": {"type": "NONE"},
    "header": {"type": "API_KEY", "name": "X-Api-Key", "credentialRef": "key"},
    "query": {"type": "API_KEY", "location": "QUERY", "name": "api_key", "credentialRef": "key"},
    "body": {"type": "API_KEY", "location": "BODY", "name": "api_key", "credentialRef": "key"},
    "bearer": {"type": "BEARER", "credentialRef": "key"},
    "oauth2": {"type": "OAUTH2", "credentialRef": "key"},
    "signed": {"type": "CUSTOM", "credentialRef": "key", "signingHook": "standin"},
}
TYPES = {"bearer": "BEARER", "oauth2": "OAUTH2", "signed": "CUSTOM"}


def sign(outgoing, secret):
    parts, stamp = urlsplit(outgoing.url), str(int(time.time()))
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    said = f"{outgoing.method}\n{target}\n{stamp}".encode()
    signature = hmac.new(secret("secret").encode(), said, hashlib.sha256).hexdigest()
    return Signature(headers={"X-Timestamp": stamp, "X-Signature": signature})


@pytest.fixture(autouse=True)
def _secrets(monkeypatch):
    monkeypatch.setenv("STANDIN_KEY", KEY)
    monkeypatch.setenv("STANDIN_ID", CLIENT_ID)
    monkeypatch.setenv("STANDIN_SECRET", CLIENT_SECRET)
    hook = EntryPoint("standin", f"{__name__}:sign", auth_module.SIGNING)
    monkeypatch.setattr(auth_module, "entry_points", lambda **_: [hook])


def signed_in(who: str, **sections):
    credential = {"type": TYPES.get(who, "API_KEY"), "secret": {"env": "STANDIN_KEY"}}
    if who in {"oauth2", "signed"}:
        credential["secret"] = {"env": "STANDIN_SECRET"}
    if who == "oauth2":
        credential["clientId"] = {"env": "STANDIN_ID"}

    def document(url: str) -> dict:
        auth = {**WAYS[who], "required": who != "none"}
        if who == "oauth2":
            auth["oauth2"] = {"tokenUrl": f"{url}/oauth2/token", "early": "5s"}
        made = written("offset", who, auth=auth, credentials={"key": credential}, **sections)(url)
        if who == "body":
            http = made["endpoints"]["works"]["http"]
            made["endpoints"]["works"]["http"] = laid(http, {"method": "POST", "bodyTemplate": http["queryTemplate"]})
            made["endpoints"]["works"]["http"]["queryTemplate"] = {}
        return made

    return document


def library(records: int = 120) -> Library:
    made = Library(records, days=0.9, seed=2, habits=CALM)
    made.now = made.end + timedelta(days=2)
    return made


def until(made: Library) -> dict:
    return {"since": made.start, "until": made.start + timedelta(days=1)}


class TestBelieved:
    @pytest.mark.parametrize("who", WAYS)
    async def test_the_source_answers_and_everything_is_stored(self, beside, who):
        made = library()
        async with beside("generic", made, document=signed_in(who)) as here:
            await here.harvest(**until(made))
            assert await here.stored() == here.served()
            assert set(here.api.counts.by_status) == {200}


class TestTokensOfAnHour:
    async def test_a_token_that_ends_in_the_middle_is_renewed_before_it_does(self, beside):
        made = library(300)
        async with beside("generic", made, document=signed_in("oauth2", pagination={"pageSize": 20})) as here:
            here.api.access_ttl = 60.0
            answer, asked = here.api.answer, []

            def grow_old(request):
                asked.append(request.path)
                if len(asked) == 6:
                    made.advance(timedelta(seconds=57))
                    here.api.skip(57)
                return answer(request)

            here.api.answer = grow_old
            await here.harvest(**until(made))
            assert await here.stored() == here.served()
            assert 401 not in here.api.counts.by_status
            assert here.api.tokens_issued == 2

    async def test_a_token_that_the_source_takes_back_in_the_middle_is_replaced_once(self, beside):
        made = library(300)
        async with beside("generic", made, document=signed_in("oauth2", pagination={"pageSize": 20})) as here:
            answer, asked = here.api.answer, []

            def take_back(request):
                asked.append(request.path)
                if len(asked) == 6:
                    here.api.revoke()
                return answer(request)

            here.api.answer = take_back
            await here.harvest(**until(made))
            assert await here.stored() == here.served()
            assert here.api.tokens_issued == 2
            assert here.api.counts.by_status[401] == 1


class TestNotBelieved:
    @pytest.mark.parametrize("who", ["header", "query", "body", "bearer", "oauth2", "signed"])
    async def test_the_task_fails_the_partition_rests_and_nobody_asks_as_a_stranger(self, beside, monkeypatch, who):
        monkeypatch.setenv("STANDIN_KEY", "wrong-key")
        monkeypatch.setenv("STANDIN_SECRET", "wrong-secret")
        made = library(10)
        async with beside("generic", made, document=signed_in(who)) as here:
            carried = []
            answer = here.api.answer

            def note(request):
                carried.append(bool(
                    request.headers.get("authorization") or request.headers.get("x-api-key") or request.form
                    or "api_key" in request.query or "x-signature" in request.headers
                ))  # fmt: skip
                return answer(request)

            here.api.answer = note
            await here.harvest(**until(made))
            assert await here.tasks() == {"FAILED": 1}
            (task,) = await here.rows("select error ->> 'code' as code from ing_task")
            assert task["code"] == "SOURCE_AUTH_FAILED"
            (rest,) = await here.rows(
                "select not_before > now() + interval '5 minutes' as rests, reason from ing_partition"
            )
            assert rest == {"rests": True, "reason": "SOURCE_AUTH_FAILED"}
            assert carried
            assert all(carried)
            assert 200 not in here.api.counts.by_status
            assert await here.stored() == {}

    async def test_a_key_that_is_not_there_asks_nobody(self, beside, monkeypatch):
        monkeypatch.delenv("STANDIN_KEY")
        made = library(10)
        async with beside("generic", made, document=signed_in("header")) as here:
            await here.harvest(**until(made))
            assert await here.tasks() == {"FAILED": 1}
            (task,) = await here.rows("select error ->> 'code' as code from ing_task")
            assert task["code"] == "CREDENTIAL_MISSING"
            assert here.api.counts.total == 0

    async def test_after_the_rest_the_next_plan_takes_the_window_up_again(self, beside, monkeypatch):
        monkeypatch.setenv("STANDIN_KEY", "wrong-key")
        made = library(30)
        async with beside("generic", made, document=signed_in("header")) as here:
            await here.harvest(**until(made))
            monkeypatch.setenv("STANDIN_KEY", KEY)
            await here.rows("update ing_partition set not_before = now() returning 1")
            await here.harvest(**until(made))
            assert await here.stored() == here.served()
            assert await here.tasks() == {"FAILED": 1, "SUCCEEDED": 1}


class TestRotation:
    async def test_a_key_that_is_changed_in_the_middle_is_read_again(self, beside, monkeypatch):
        made = library(300)
        async with beside("generic", made, document=signed_in("header", pagination={"pageSize": 20})) as here:
            answer, asked = here.api.answer, []

            def change_locks(request):
                asked.append(request.headers.get("x-api-key"))
                if len(asked) == 5:
                    monkeypatch.setenv("STANDIN_KEY", "new-key")
                if len(asked) >= 5 and asked[-1] != "new-key":
                    request.headers["x-api-key"] = "refused"
                elif len(asked) >= 5:
                    request.headers["x-api-key"] = KEY
                return answer(request)

            here.api.answer = change_locks
            await here.harvest(**until(made))
            assert await here.stored() == here.served()
            assert here.api.counts.by_status[401] == 1
            assert await here.tasks() == {"SUCCEEDED": 1}
