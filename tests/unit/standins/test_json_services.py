"""Crossref, Europe PMC, OpenAlex and DOAJ: each documented rule, asked for over plain HTTP."""

import asyncio
import re
from datetime import timedelta
from urllib.parse import quote

import httpx
import pytest
from tests.standins import KEY, Library, standin
from tests.standins.times import reach
from tests.support.clock import TurnedClock

EVER = "from-index-date:2026-01-01"


def in_window(api, first: str, last: str) -> set[str]:
    """The ids that a window with both bounds included must give."""
    start, end = reach(first)[0], reach(last)[1]
    held = api.library.at(api.library.now)
    return {api.id_of(number) for number, entry in held.items() if start <= entry.updated < end}


class TestCrossref:
    @pytest.fixture
    async def api(self, library: Library):
        async with standin("crossref", library, enforce_rate=False) as api:
            yield api

    async def works(self, client: httpx.AsyncClient, api, **query) -> httpx.Response:
        return await client.get(f"{api.url}/v1/works", params=query)

    async def read_all(self, client: httpx.AsyncClient, api, rows: int, **query) -> tuple[list[str], str]:
        dois, cursor = [], "*"
        while True:
            message = (await self.works(client, api, rows=rows, cursor=cursor, **query)).json()["message"]
            dois += [item["DOI"] for item in message["items"]]
            cursor = message["next-cursor"]
            if len(message["items"]) < rows:
                return dois, cursor

    @pytest.mark.parametrize("bound", ["2026-01-05", "2026-01-05T12", "2026-01-05T12:00:00"])
    async def test_a_window_includes_both_its_bounds(self, api, client: httpx.AsyncClient, bound: str):
        first = "2026-01-03T06:30:15"
        dois, _ = await self.read_all(client, api, 100, filter=f"from-index-date:{first},until-index-date:{bound}")
        assert len(dois) == len(set(dois))
        assert set(dois) == in_window(api, first, bound)

    async def test_the_last_page_still_carries_a_cursor_and_it_leads_to_an_empty_page(
        self, api, client: httpx.AsyncClient
    ):
        dois, cursor = await self.read_all(client, api, 400, filter=EVER)
        assert len(dois) == api.library.records
        message = (await self.works(client, api, rows=400, cursor=cursor, filter=EVER)).json()["message"]
        assert message["items"] == []
        assert message["next-cursor"]

    async def test_a_cursor_lives_for_five_minutes(self, api, client: httpx.AsyncClient):
        cursor = (await self.works(client, api, rows=10, cursor="*")).json()["message"]["next-cursor"]
        api.skip(290)
        assert (await self.works(client, api, rows=10, cursor=cursor)).status_code == 200
        api.skip(20)
        refused = await self.works(client, api, rows=10, cursor=cursor)
        assert refused.status_code == 400
        assert refused.json()["message-type"] == "validation-failure"

    async def test_a_cursor_holds_its_result_fast_while_records_change(self, library: Library, client):
        library.now = library.start + timedelta(days=4)
        async with standin("crossref", library, enforce_rate=False) as api:
            before = set(api.records_at(library.now))
            page = (await self.works(client, api, rows=50, cursor="*")).json()["message"]
            seen = {item["DOI"] for item in page["items"]}
            library.advance(timedelta(days=5))
            while len(page["items"]) == 50:
                page = (await self.works(client, api, rows=50, cursor=page["next-cursor"])).json()["message"]
                seen |= {item["DOI"] for item in page["items"]}
        assert seen == before

    async def test_zero_rows_give_the_number_alone(self, api, client: httpx.AsyncClient):
        message = (await self.works(client, api, rows=0, filter=EVER)).json()["message"]
        assert message["total-results"] == api.library.records
        assert message["items"] == []

    @pytest.mark.parametrize(
        "query", [{"rows": 1001}, {"rows": "x"}, {"offset": 10_001}, {"offset": 9_990, "rows": 20}, {"limit": 5},
                  {"filter": "from-idx-date:2026-01-01"}, {"filter": "from-index-date:soon"},
                  {"cursor": "*", "rows": 0}, {"cursor": "made-up"}],
    )  # fmt: skip
    async def test_what_is_wrong_is_named_in_a_validation_failure(self, api, client: httpx.AsyncClient, query: dict):
        refused = await self.works(client, api, **query)
        assert refused.status_code == 400
        problem = refused.json()
        assert problem["status"] == "failed"
        assert {"type", "value", "message"} == set(problem["message"][0])

    async def test_offsets_are_another_way_to_page(self, api, client: httpx.AsyncClient):
        both = (await self.works(client, api, rows=20)).json()["message"]["items"]
        second = (await self.works(client, api, rows=10, offset=10)).json()["message"]
        assert second["items"] == both[10:]
        assert "next-cursor" not in second

    async def test_works_are_found_by_doi_one_or_many(self, api, client: httpx.AsyncClient):
        one, other = api.id_of(3), api.id_of(4)
        single = await client.get(f"{api.url}/v1/works/{one}")
        listed = await self.works(client, api, filter=f"doi:{one},doi:{other},doi:10.5555/standin.9999999")
        assert single.json()["message"]["DOI"] == one
        assert [item["DOI"] for item in listed.json()["message"]["items"]] == [one, other]
        missing = await client.get(f"{api.url}/v1/works/10.5555/nothing")
        assert (missing.status_code, missing.text) == (404, "Resource not found.")

    @pytest.mark.parametrize(
        ("mailto", "pool", "most"), [({}, "public", 1), ({"mailto": "a@example.org"}, "polite", 3)]
    )
    async def test_the_pool_sets_the_limit_and_the_headers_tell(
        self, library: Library, client: httpx.AsyncClient, mailto: dict, pool: str, most: int
    ):
        async with standin("crossref", library, clock=TurnedClock().monotonic) as api:
            answers = [await self.works(client, api, rows=1, **mailto) for _ in range(most + 1)]
        assert [answer.status_code for answer in answers] == [200] * most + [429]
        headers = answers[0].headers
        assert (headers["x-rate-limit-limit"], headers["x-rate-limit-interval"]) == (str(most), "1s")
        assert (headers["x-concurrency-limit"], headers["x-api-pool"]) == (str(most), f"{pool}-array")

    async def test_too_many_at_once_are_refused(self, library: Library, client: httpx.AsyncClient):
        async with standin("crossref", library, latency=0.2) as api:
            url = f"{api.url}/v1/works/{api.id_of(1)}"
            answers = await asyncio.gather(*(client.get(url) for _ in range(3)))
        assert sorted(answer.status_code for answer in answers) == [200, 429, 429]

    async def test_a_failure_is_a_page_of_html(self, api, client: httpx.AsyncClient):
        api.faults.change(rate_500=1)
        answer = await self.works(client, api)
        assert answer.status_code == 502
        assert answer.headers["content-type"].startswith("text/html")


class TestEuropePmc:
    @pytest.fixture
    async def api(self, library: Library):
        async with standin("europepmc", library, enforce_rate=False) as api:
            yield api

    async def search(self, client: httpx.AsyncClient, api, query: str, **more) -> dict:
        path = "/europepmc/webservices/rest/search"
        answer = await client.get(api.url + path, params={"query": query, "format": "json", **more})
        assert answer.status_code == 200
        return answer.json()

    async def test_days_are_included_and_the_mark_stands_still_at_the_end(self, api, client: httpx.AsyncClient):
        query, seen, mark = "UPDATE_DATE:[2026-01-03 TO 2026-01-04]", [], "*"
        while True:
            answer = await self.search(client, api, query, pageSize=60, cursorMark=mark)
            seen += [f"{item['source']}:{item['id']}" for item in answer["resultList"]["result"]]
            if not answer["resultList"]["result"]:
                break
            mark = answer["nextCursorMark"]
        assert answer["nextCursorMark"] == mark
        assert len(seen) == len(set(seen)) == answer["hitCount"]
        assert set(seen) == in_window(api, "2026-01-03", "2026-01-04")

    async def test_the_same_id_occurs_under_two_sources(self, api, client: httpx.AsyncClient):
        ident = api.id_of(9).partition(":")[2]
        both = (await self.search(client, api, f"EXT_ID:{ident}"))["resultList"]["result"]
        assert {(item["source"], item["id"]) for item in both} == {("MED", ident), ("AGR", ident)}
        one = (await self.search(client, api, f"EXT_ID:{ident} AND SRC:AGR"))["resultList"]["result"]
        assert [item["source"] for item in one] == ["AGR"]

    async def test_several_are_found_by_source_and_id(self, api, client: httpx.AsyncClient):
        pairs = [api.id_of(number).split(":") for number in (8, 12, 19)]
        query = " OR ".join(f"(SRC:{source} AND EXT_ID:{ident})" for source, ident in pairs)
        found = (await self.search(client, api, query))["resultList"]["result"]
        assert sorted([item["source"], item["id"]] for item in found) == sorted(pairs)

    @pytest.mark.parametrize(
        ("query", "more"),
        [("asthma", {"pageSize": 1001}), ("", {}), ("asthma", {"cursorMark": "?"}), ("UPDATE_DATE:[a TO b]", {})],
    )
    async def test_errors_come_inside_a_200(self, api, client: httpx.AsyncClient, query: str, more: dict):
        answer = await self.search(client, api, query, **more)
        assert answer["errCode"] == 404
        assert "resultList" not in answer

    async def test_the_update_date_is_not_in_the_record(self, api, client: httpx.AsyncClient):
        item = (await self.search(client, api, "asthma", pageSize=1))["resultList"]["result"][0]
        assert not [name for name in item if "update" in name.lower()]


class TestOpenAlex:
    @pytest.fixture
    async def api(self, library: Library):
        async with standin("openalex", library, enforce_rate=False) as api:
            yield api

    async def works(self, client: httpx.AsyncClient, api, path: str = "", **query) -> httpx.Response:
        return await client.get(f"{api.url}/works{path}", params={"api_key": KEY, **query})

    @pytest.mark.parametrize("key", ["", "wrong-key"])
    async def test_strangers_are_refused(self, api, client: httpx.AsyncClient, key: str):
        refused = await self.works(client, api, api_key=key)
        assert refused.status_code == 403
        assert {"error", "message"} == set(refused.json())

    async def test_windows_go_to_the_microsecond_and_the_cursor_ends_with_null(self, api, client: httpx.AsyncClient):
        some = sorted(entry.updated for entry in api.library.at(api.library.now).values())
        first, last = (f"{stamp:%Y-%m-%dT%H:%M:%S.%f}" for stamp in (some[200], some[900]))
        seen, cursor = [], "*"
        while cursor:
            window = f"from_updated_date:{first},to_updated_date:{last}"
            answer = (await self.works(client, api, filter=window, per_page=100, cursor=cursor)).json()
            seen += [item["id"] for item in answer["results"]]
            cursor = answer["meta"]["next_cursor"]
        assert answer["results"] == []
        assert len(seen) == len(set(seen)) == answer["meta"]["count"]
        assert set(seen) == in_window(api, first, last)

    @pytest.mark.parametrize(
        "query",
        [{"per_page": 101}, {"per_page": 0}, {"filter": "author_name:x"}, {"cursor": "??"},
         {"page": 101, "per_page": 100}, {"filter": "from_updated_date:soon"},
         {"filter": "openalex:" + "|".join(f"W{n}" for n in range(101))}],
    )  # fmt: skip
    async def test_what_is_wrong_is_said_in_json(self, api, client: httpx.AsyncClient, query: dict):
        refused = await self.works(client, api, **query)
        assert refused.status_code == 400
        assert {"error", "message"} == set(refused.json())

    async def test_by_ids_and_one_alone_and_one_that_was_merged(self, api, client: httpx.AsyncClient):
        ids = [api.id_of(number) for number in (1, 2)]
        listed = (await self.works(client, api, filter="openalex:" + "|".join(ids))).json()["results"]
        assert sorted(item["id"] for item in listed) == ids
        short = ids[0].rpartition("/")[2]
        assert (await self.works(client, api, f"/{short}")).json()["id"] == ids[0]
        merged = await self.works(client, api, f"/W{int(short[1:]) + 100_000_000}")
        assert merged.status_code == 301
        assert merged.headers["location"].endswith(short)
        assert (await self.works(client, api, "/W1")).status_code == 404

    async def test_lists_cost_credits_until_none_are_left(self, library: Library, client: httpx.AsyncClient):
        async with standin("openalex", library) as api:
            api.credits = 25
            answers = [await self.works(client, api, per_page=1) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        assert [answer.headers["x-ratelimit-remaining"] for answer in answers] == ["15", "5", "5"]
        assert answers[0].headers["x-ratelimit-credits-used"] == "10"
        assert 0 <= int(answers[0].headers["x-ratelimit-reset"]) <= 86_400
        assert {"error", "message"} == set(answers[2].json())


class TestDoaj:
    @pytest.fixture
    async def api(self, library: Library):
        async with standin("doaj", library, enforce_rate=False) as api:
            yield api

    async def search(self, client: httpx.AsyncClient, api, query: str, **more) -> httpx.Response:
        return await client.get(f"{api.url}/api/search/articles/{quote(query, safe='')}", params=more)

    async def test_pages_from_one_over_a_window_to_the_second(self, api, client: httpx.AsyncClient):
        first, last = "2026-01-03T06:30:15Z", "2026-01-05T00:00:00Z"
        seen, page, total = [], 1, 1
        while len(seen) < total:
            answer = (
                await self.search(client, api, f"last_updated:[{first} TO {last}]", page=page, pageSize=100)
            ).json()
            seen += [item["id"] for item in answer["results"]]
            page, total = page + 1, answer["total"]
        assert set(seen) == in_window(api, first, last)
        assert "next" not in answer

    async def test_a_larger_page_is_taken_for_a_hundred(self, api, client: httpx.AsyncClient):
        answer = (await self.search(client, api, "*:*", pageSize=500)).json()
        assert answer["pageSize"] == len(answer["results"]) == 100

    async def test_nothing_beyond_a_thousand_though_a_link_leads_there(self, api, client: httpx.AsyncClient):
        tenth = (await self.search(client, api, "*:*", page=10, pageSize=100)).json()
        assert re.search(r"page=11&pageSize=100$", tenth["next"])
        refused = await client.get(tenth["next"])
        assert refused.status_code == 400
        assert refused.json()["status"] == "bad_request"

    @pytest.mark.parametrize("query", ["asth*", "asthma~", "last_updated:[soon TO later]"])
    async def test_wildcards_and_bad_dates_are_refused(self, api, client: httpx.AsyncClient, query: str):
        assert (await self.search(client, api, query)).status_code == 400

    async def test_one_article_by_id(self, api, client: httpx.AsyncClient):
        found = await client.get(f"{api.url}/api/articles/{api.id_of(5)}")
        assert found.json()["id"] == api.id_of(5)
        assert (await client.get(f"{api.url}/api/articles/{'0' * 32}")).status_code == 404

    async def test_five_at_once_then_two_a_second(self, library: Library, client: httpx.AsyncClient):
        clock = TurnedClock()
        async with standin("doaj", library, clock=clock.monotonic) as api:
            first = [(await self.search(client, api, "*:*", pageSize=1)).status_code for _ in range(6)]
            clock.advance(1)
            later = [(await self.search(client, api, "*:*", pageSize=1)).status_code for _ in range(3)]
        assert first == [200] * 5 + [429]
        assert later == [200, 200, 429]
