"""A source that sends our secrets back wherever it can: they are found in nothing that is kept, shown or logged."""

import base64
import json
import logging
from datetime import timedelta
from urllib.parse import quote, quote_plus

import pytest
import structlog
from tests.standins import Library
from tests.standins.wire import Response, as_json
from tests.support.harvesting import DETAILS, laid, written

from penstock.harvest.compiling.explain import explain
from penstock.harvest.planning import Trigger
from penstock.harvest.records.export import Export, Format, Order
from penstock.harvest.records.reads import Selection
from penstock.harvest.spec import Operation
from penstock.kernel.errors import PenstockError

SECRET = "hushMARKED/secret+key=="
TOKEN = "tokenMARKED/of+an+hour=="
WAYS = {
    "query": {"type": "API_KEY", "location": "QUERY", "name": "api_key"},
    "header": {"type": "API_KEY", "name": "X-Api-Key"},
    "bearer": {"type": "BEARER"},
    "oauth2": {"type": "OAUTH2"},
}


def spellings(secret: str) -> set[str]:
    pair = base64.b64encode(f"client:{secret}".encode()).decode()
    return {secret, quote(secret, safe=""), quote_plus(secret), base64.b64encode(secret.encode()).decode(), pair,
            json.dumps(secret)[1:-1].replace("/", "\\/")}  # fmt: skip


def echoed(who: str) -> list[str]:
    """What is secret when we sign in this way."""
    return sorted(spellings(SECRET) | (spellings(TOKEN) if who == "oauth2" else set()))


class Echo:
    """Answers to pages, details and tokens; whatever it says, it says with our secrets."""

    def __init__(self, url: str, who: str) -> None:
        self.url, self.asked, self.who = url, [], who

    def answer(self, request) -> Response:
        echo = {"you_sent": [*echoed(self.who), request.target, dict(request.headers)]}
        headers = {"X-Echo": quote(SECRET, safe=""), "X-RateLimit-Policy": base64.b64encode(SECRET.encode()).decode()}
        if request.path == "/oauth2/token":
            said = {"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600, **echo}
            return as_json(said, **headers)
        self.asked.append(request.target)
        if request.path.endswith("/details"):
            return as_json(echo, 400, **headers)
        number = len(self.asked)
        if number == 1:
            return as_json(echo, 503, **headers)
        if number == 3:
            return Response(200, json.dumps({**echo, "items": []}).encode()[:-9], headers=headers)
        if "page=3" in request.target:
            return as_json(echo, 400, **headers)
        page = 2 if "page=2" in request.target else 1
        items = [{"id": f"r-{page}-{n}", "updated": "2026-01-01T01:00:00Z", "deleted": False} for n in range(3)]
        items.append({"no_id": echoed(self.who), "updated": "2026-01-01T01:00:00Z"})
        link = f"{self.url}/none/url?page={page + 1}&api_key={quote(SECRET, safe='')}"
        if self.who == "oauth2":
            link += f"&access_token={quote(TOKEN, safe='')}"
        return as_json({**echo, "items": items, "next_url": link}, **headers)


def document_for(who: str, place: dict):
    kind = {"query": "API_KEY", "header": "API_KEY", "bearer": "BEARER", "oauth2": "OAUTH2"}[who]
    credential = {"type": kind, "secret": place, **({"clientId": {"env": "MARKED_ID"}} if who == "oauth2" else {})}

    def document(url: str) -> dict:
        auth = {**WAYS[who], "required": True, "credentialRef": "key"}
        if who == "oauth2":
            auth["oauth2"] = {"tokenUrl": f"{url}/oauth2/token"}
        details = laid(DETAILS, {"auth": auth})
        return written(
            "url", auth=auth, credentials={"key": credential}, linkedEndpoint="details", endpoints={"details": details},
            response={"totalPath": None}, pagination={"pageSize": 4}, count={"queryTemplate": {"limit": "1"}},
        )(url)  # fmt: skip

    return document


async def everything_in_redis(client) -> str:
    found = []
    async for key in client.scan_iter("*"):
        kind = await client.type(key)
        kind = kind.decode() if isinstance(kind, bytes) else kind
        reads = {"string": client.get, "hash": client.hgetall, "set": client.smembers, "stream": client.xrange}
        if kind == "zset":
            value = await client.zrange(key, 0, -1, withscores=True)
        elif kind == "list":
            value = await client.lrange(key, 0, -1)
        else:
            value = await reads[kind](key)
        found.append(f"{key!r} {value!r}")
    return "\n".join(found)


async def everything_in_the_database(here) -> dict[str, str]:
    tables = await here.rows(
        "select format('%I.%I', table_schema, table_name) as name from information_schema.tables"
        " where table_schema in ('public', 'catalog') and table_type = 'BASE TABLE'"
    )
    found = {}
    for table in tables:
        rows = await here.rows(f"select to_jsonb(t) as row from {table['name']} t")
        text = json.dumps([row["row"] for row in rows], ensure_ascii=False)
        packed = [value for row in rows for value in row["row"].values() if str(value).startswith("\\x")]
        found[table["name"]] = text + "".join(bytes.fromhex(value[2:]).decode("latin-1") for value in packed)
    return found


def assert_kept(who: str, name: str, text: str) -> None:
    for one in echoed(who):
        for shown in {one, json.dumps(one)[1:-1]}:
            at = text.find(shown)
            assert at < 0, f"{name} holds a secret: …{text[max(0, at - 200) : at]}HERE"


class TestSecrets:
    @pytest.mark.parametrize(
        ("who", "place"), [("query", "env"), ("header", "file"), ("bearer", "store"), ("oauth2", "env")]
    )
    async def test_nothing_that_is_kept_or_shown_holds_one(
        self, beside, redis_client, monkeypatch, tmp_path, caplog, who, place
    ):
        monkeypatch.setenv("MARKED_KEY", SECRET)
        monkeypatch.setenv("MARKED_ID", "client")
        (tmp_path / "marked").write_text(SECRET)
        where = {"env": {"env": "MARKED_KEY"}, "file": {"file": str(tmp_path / "marked")}, "store": {"store": "marked"}}
        made = Library(1, days=1)
        made.now = made.end + timedelta(days=2)
        caplog.set_level(logging.DEBUG)
        document, settings = document_for(who, where[place]), {"secrets": tmp_path}
        with structlog.testing.capture_logs() as logged:
            async with beside("generic", made, document=document, settings=settings) as here:
                source = Echo(here.api.url, who)
                here.api.answer = source.answer
                window = {"since": made.start, "until": made.end}
                await here.harvest(**window)
                assert len(source.asked) > 5
                assert set(await here.stored()) == {f"r-{page}-{n}" for page in (1, 2) for n in range(3)}
                assert (await here.tasks()) == {"FAILED": 1}
                await here.rows("update ing_record set checked_at = '2020-01-01' returning 1")
                await here.harvest(operation=Operation.UPDATE)
                shown = await self.shown(here, tmp_path)
                for name, text in (await everything_in_the_database(here)).items():
                    assert_kept(who, name, text)
                faults = await here.rows("select distinct reason_code from ing_quarantine order by 1")
                assert [row["reason_code"] for row in faults] == ["NO_DETAIL", "NO_ID"]
                assert [row for row in await here.requests() if row["error"]]
        assert_kept(who, "redis", await everything_in_redis(redis_client))
        assert_kept(who, "the log", json.dumps(logged, default=str, ensure_ascii=False))
        assert_kept(who, "the library's logs", caplog.text)
        for name, text in shown.items():
            assert_kept(who, name, text)

    async def shown(self, here, tmp_path) -> dict[str, str]:
        """What people and programs get to see."""
        source = await here.desk.source("generic")
        compiled = await here.desk.compile(Trigger("generic"))
        file = tmp_path / "records.jsonl"
        async with here.database.transaction() as tx:
            await Export(Order(Selection("generic", "works"), file, Format.JSONL)).run(tx)
        text = {
            "explain": str(explain(compiled)),
            "source": repr(source),
            "export": file.read_text(),
            "desk": repr(here),
        }
        credentials = here.desk.fetcher
        text["fetcher"] = repr(vars(credentials)) if hasattr(credentials, "__dict__") else repr(credentials)
        return text

    async def test_what_is_raised_for_a_preview_holds_none(self, beside, monkeypatch):
        monkeypatch.setenv("MARKED_KEY", SECRET)
        made = Library(1, days=1)
        made.now = made.end + timedelta(days=2)
        async with beside("generic", made, document=document_for("query", {"env": "MARKED_KEY"})) as here:
            here.api.answer = lambda request: as_json({"you": [*echoed("query"), request.target]}, 400)
            compiled = await here.desk.compile(Trigger("generic"))
            with pytest.raises(PenstockError) as raised:
                await here.desk._ask_total(compiled.spec, compiled.spec, None)
            told = repr(raised.value) + str(raised.value) + json.dumps(raised.value.details, default=str)
            assert_kept("query", "the error", told)
            assert "<masked>" in told
