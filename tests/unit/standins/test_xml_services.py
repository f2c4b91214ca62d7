"""PubMed, arXiv and OAI-PMH: each documented rule, asked for over plain HTTP."""

import json
import re
from datetime import timedelta

import httpx
import pytest
from lxml import etree
from tests.standins import Library, standin
from tests.standins.times import reach
from tests.support.clock import TurnedClock

ATOM = {"a": "http://www.w3.org/2005/Atom", "os": "http://a9.com/-/spec/opensearch/1.1/"}
OAI = {"o": "http://www.openarchives.org/OAI/2.0/"}


@pytest.fixture(scope="module")
async def large():
    """More records than one query of PubMed gives."""
    async with standin("pubmed", Library(12_000, days=2), enforce_rate=False) as api:
        yield api


class TestPubmed:
    @pytest.fixture
    async def api(self, library: Library):
        async with standin("pubmed", library, enforce_rate=False) as api:
            yield api

    async def esearch(self, client: httpx.AsyncClient, api, **query) -> httpx.Response:
        asked = {"db": "pubmed", "term": "all[sb]", "retmode": "json", **query}
        return await client.get(f"{api.url}/entrez/eutils/esearch.fcgi", params=asked)

    async def found(self, client: httpx.AsyncClient, api, **query) -> dict:
        return (await self.esearch(client, api, **query)).json()["esearchresult"]

    @pytest.mark.parametrize(("kind", "stamp"), [("mdat", "updated"), ("edat", "created"), ("pdat", "created")])
    async def test_windows_go_by_day_and_include_both(self, api, client: httpx.AsyncClient, kind: str, stamp: str):
        window = {"datetype": kind, "mindate": "2026/01/03", "maxdate": "2026/01/04", "retmax": 9999}
        result = await self.found(client, api, **window)
        start, end = reach("2026-01-03")[0], reach("2026-01-04")[1]
        held = api.library.at(api.library.now).values()
        wanted = {api.id_of(entry.number) for entry in held if start <= getattr(entry, stamp) < end}
        assert set(result["idlist"]) == wanted
        assert result["count"] == str(len(wanted))  # a string

    async def test_one_bound_alone_is_passed_over(self, api, client: httpx.AsyncClient):
        result = await self.found(client, api, datetype="mdat", mindate="2026/01/03")
        assert result["count"] == str(api.library.records)

    async def test_the_number_alone(self, api, client: httpx.AsyncClient):
        assert await self.found(client, api, rettype="count") == {"count": str(api.library.records)}

    async def test_more_than_the_ceiling_is_cut_with_a_warning_only(self, large, client: httpx.AsyncClient):
        result = await self.found(client, large, retmax=20_000)
        assert len(result["idlist"]) == 9_999
        assert int(result["count"]) > 9_999
        assert "adjusted to 0, 9999" in result["warninglist"]["outputmessages"][0]
        last = await self.found(client, large, retstart=9_998, retmax=10)
        assert len(last["idlist"]) == 1
        assert "warninglist" not in await self.found(client, large, retstart=9_000, retmax=999)

    async def test_an_offset_beyond_the_ceiling_is_an_error_that_is_no_json(self, large, client: httpx.AsyncClient):
        answer = await self.esearch(client, large, retstart=9_999)
        assert answer.status_code == 200
        assert '"ERROR"' in answer.text
        with pytest.raises(json.JSONDecodeError):
            answer.json()

    async def test_a_failing_search_can_be_asked_for(self, api, client: httpx.AsyncClient):
        api.faults.change(in_band=1)
        answer = await self.esearch(client, api)
        assert answer.status_code == 200
        assert "Search Backend failed" in answer.text

    async def test_a_crowded_day_can_be_split_by_another_field(self, api, client: httpx.AsyncClient):
        whole = set((await self.found(client, api, retmax=9999))["idlist"])
        middle = 40_000_001 + api.library.records // 2
        ranges = (f"1:{middle}[UID]", f"{middle + 1}:99999999[UID]")
        parts = [set((await self.found(client, api, term=term, retmax=9999))["idlist"]) for term in ranges]
        assert parts[0] | parts[1] == whole
        assert not parts[0] & parts[1]

    async def test_history_keeps_a_result_for_efetch(self, api, client: httpx.AsyncClient):
        result = await self.found(client, api, usehistory="y", retmax=5)
        asked = {"db": "pubmed", "WebEnv": result["webenv"], "query_key": result["querykey"], "retmax": 5}
        answer = await client.get(f"{api.url}/entrez/eutils/efetch.fcgi", params=asked)
        assert etree.fromstring(answer.content).xpath("*/*/PMID/text()") == result["idlist"]

    async def test_two_hundred_ids_by_post_and_unknown_ones_are_left_out(self, api, client: httpx.AsyncClient):
        ids = [api.id_of(number) for number in range(198)] + ["1", "99999999"]
        form = {"db": "pubmed", "retmode": "xml", "id": ",".join(ids)}
        answer = await client.post(f"{api.url}/entrez/eutils/efetch.fcgi", data=form)
        records = etree.fromstring(answer.content)
        assert records.xpath("*/*/PMID/text()") == ids[:198]
        assert {record.tag for record in records} == {"PubmedArticle", "PubmedBookArticle"}
        day = records.xpath("string(*/*/DateRevised/Year)")
        assert day == "2026"
        too_long = await client.get(
            f"{api.url}/entrez/eutils/efetch.fcgi", params={**form, "id": ",".join([*ids, "2"])}
        )
        assert too_long.status_code == 414

    async def test_summaries_say_which_id_is_unknown(self, api, client: httpx.AsyncClient):
        asked = {"db": "pubmed", "id": f"{api.id_of(1)},7", "retmode": "json"}
        result = (await client.get(f"{api.url}/entrez/eutils/esummary.fcgi", params=asked)).json()["result"]
        assert result["uids"] == [api.id_of(1), "7"]
        assert "title" in result[api.id_of(1)]
        assert result["7"]["error"]

    @pytest.mark.parametrize(("key", "limit"), [({}, 3), ({"api_key": "mine"}, 10)])
    async def test_three_a_second_or_ten_with_a_key(self, library, client: httpx.AsyncClient, key: dict, limit: int):
        async with standin("pubmed", library, clock=TurnedClock().monotonic) as api:
            answers = [await self.esearch(client, api, retmax=1, **key) for _ in range(limit + 1)]
        assert [answer.status_code for answer in answers] == [200] * limit + [429]
        told = answers[-1].json()
        assert (told["error"], told["limit"]) == ("API rate limit exceeded", str(limit))

    async def test_a_wrong_key_is_refused(self, api, client: httpx.AsyncClient):
        assert (await self.esearch(client, api, api_key="wrong")).status_code == 400


class TestArxiv:
    @pytest.fixture
    async def api(self, library: Library):
        async with standin("arxiv", library, enforce_rate=False) as api:
            yield api

    async def feed(self, client: httpx.AsyncClient, api, **query):
        answer = await client.get(f"{api.url}/api/query", params=query)
        return answer.status_code, etree.fromstring(answer.content)

    async def test_windows_over_submission_include_both_minutes(self, api, client: httpx.AsyncClient):
        asked = "submittedDate:[202601030600 TO 202601050000]"
        _, feed = await self.feed(client, api, search_query=asked, max_results=2000)
        start, end = reach("2026-01-03T06:00")[0], reach("2026-01-05T00:00")[1]
        held = api.library.at(api.library.now).values()
        wanted = {api.id_of(entry.number) for entry in held if start <= entry.created < end}
        ids = [text.rpartition("/")[2] for text in feed.xpath("a:entry/a:id/text()", namespaces=ATOM)]
        assert {re.sub(r"v\d+$", "", one) for one in ids} == wanted
        assert feed.xpath("string(os:totalResults)", namespaces=ATOM) == str(len(wanted))

    async def test_a_revision_changes_the_version_and_the_update_but_not_the_window(self, api, client):
        revised = next(entry for entry in api.library.at(api.library.now).values() if entry.version > 1)
        _, feed = await self.feed(client, api, id_list=api.id_of(revised.number))
        assert feed.xpath("string(a:entry/a:id)", namespaces=ATOM).endswith(f"v{revised.version}")
        published, updated = (
            feed.xpath(f"string(a:entry/a:{name})", namespaces=ATOM) for name in ("published", "updated")
        )
        assert published < updated

    async def test_the_most_recent_changes_can_be_read_first(self, api, client: httpx.AsyncClient):
        _, feed = await self.feed(
            client, api, search_query="all:stand", sortBy="lastUpdatedDate", sortOrder="descending", max_results=200
        )
        stamps = feed.xpath("a:entry/a:updated/text()", namespaces=ATOM)
        assert len(stamps) == 200
        assert stamps == sorted(stamps, reverse=True)

    @pytest.mark.parametrize(
        "query",
        [{"search_query": "all:x", "start": "one"}, {"search_query": "all:x", "max_results": -1}, {"id_list": "what"},
         {}, {"search_query": "submittedDate:[2026-01-01 TO 2026-01-02]"}],
    )  # fmt: skip
    async def test_an_error_is_an_entry_inside_a_200(self, api, client: httpx.AsyncClient, query: dict):
        status, feed = await self.feed(client, api, **query)
        assert status == 200
        assert feed.xpath("a:entry/a:title/text()", namespaces=ATOM) == ["Error"]
        assert feed.xpath("string(os:totalResults)", namespaces=ATOM) == "1"

    async def test_two_thousand_a_request_and_thirty_thousand_in_all(self, client: httpx.AsyncClient):
        async with standin("arxiv", Library(2_100, days=3), enforce_rate=False, body_bytes=100) as api:
            _, feed = await self.feed(client, api, search_query="all:stand", max_results=2_100)
            assert len(feed.xpath("a:entry", namespaces=ATOM)) == 2_000
            status, _ = await self.feed(client, api, search_query="all:stand", max_results=30_001)
        assert status == 400

    async def test_one_request_every_three_seconds(self, library: Library, client: httpx.AsyncClient):
        clock = TurnedClock()
        async with standin("arxiv", library, clock=clock.monotonic) as api:
            url = f"{api.url}/api/query?search_query=all:x&max_results=1"
            answers = [await client.get(url), await client.get(url)]
            clock.advance(3)
            answers.append(await client.get(url))
        assert [answer.status_code for answer in answers] == [200, 429, 200]
        assert answers[1].text == "Rate exceeded."


class TestOai:
    @pytest.fixture
    async def api(self, library: Library):
        async with standin("oai", library, enforce_rate=False) as api:
            yield api

    async def ask(self, client: httpx.AsyncClient, api, verb: str = "ListRecords", **query):
        answer = await client.get(f"{api.url}/oai", params={"verb": verb, **query})
        assert answer.status_code == 200
        return etree.fromstring(answer.content)

    def error(self, root) -> str:
        return root.xpath("string(o:error/@code)", namespaces=OAI)

    async def test_a_list_is_read_by_tokens_and_ends_with_an_empty_one(self, api, client: httpx.AsyncClient):
        bounds = {"from": "2026-01-03T06:30:15Z", "until": "2026-01-06T00:00:00Z"}
        root = await self.ask(client, api, metadataPrefix="oai_dc", **bounds)
        seen, pages = root.xpath("//o:identifier/text()", namespaces=OAI), 1
        while token := root.xpath("string(//o:resumptionToken)", namespaces=OAI):
            root = await self.ask(client, api, resumptionToken=token)
            seen += root.xpath("//o:identifier/text()", namespaces=OAI)
            pages += 1
        assert pages > 2
        assert root.xpath("count(//o:resumptionToken)", namespaces=OAI) == 1
        start, end = reach(bounds["from"])[0], reach(bounds["until"])[1]
        held = api.library.at(api.library.now).values()
        assert sorted(seen) == sorted(api.id_of(entry.number) for entry in held if start <= entry.updated < end)

    async def test_deleted_records_are_told(self, api, client: httpx.AsyncClient):
        deleted = {api.id_of(entry.number) for entry in api.library.at(api.library.now).values() if entry.is_deleted}
        ident = min(deleted)
        root = await self.ask(client, api, "GetRecord", metadataPrefix="oai_dc", identifier=ident)
        assert root.xpath("//o:header/@status", namespaces=OAI) == ["deleted"]
        assert not root.xpath("//o:metadata", namespaces=OAI)

    async def test_a_token_stands_alone_and_dies(self, api, client: httpx.AsyncClient):
        root = await self.ask(client, api, metadataPrefix="oai_dc")
        token = root.xpath("string(//o:resumptionToken)", namespaces=OAI)
        both = await self.ask(client, api, resumptionToken=token, metadataPrefix="oai_dc")
        assert self.error(both) == "badArgument"
        api.skip(86_401)
        assert self.error(await self.ask(client, api, resumptionToken=token)) == "badResumptionToken"

    @pytest.mark.parametrize(
        ("query", "code"),
        [
            ({}, "badArgument"),
            ({"metadataPrefix": "marc"}, "cannotDisseminateFormat"),
            ({"metadataPrefix": "oai_dc", "from": "2030-01-01"}, "noRecordsMatch"),
            ({"metadataPrefix": "oai_dc", "from": "2026-01-02", "until": "2026-01-01"}, "badArgument"),
            ({"metadataPrefix": "oai_dc", "from": "2026-01-02", "until": "2026-01-03T00:00:00Z"}, "badArgument"),
            ({"metadataPrefix": "oai_dc", "colour": "red"}, "badArgument"),
            ({"verb": "Destroy"}, "badVerb"),
            ({"verb": "GetRecord", "metadataPrefix": "oai_dc", "identifier": "oai:nobody:1"}, "idDoesNotExist"),
        ],
    )
    async def test_errors_have_codes_inside_a_200(self, api, client: httpx.AsyncClient, query: dict, code: str):
        assert self.error(await self.ask(client, api, **query)) == code

    async def test_identify_names_the_granularity_and_days_can_be_all_there_is(self, api, client: httpx.AsyncClient):
        root = await self.ask(client, api, "Identify")
        assert root.xpath("string(//o:granularity)", namespaces=OAI) == "YYYY-MM-DDThh:mm:ssZ"
        api.granularity = "YYYY-MM-DD"
        fine = await self.ask(client, api, metadataPrefix="oai_dc", **{"from": "2026-01-02T00:00:00Z"})
        assert self.error(fine) == "badArgument"
        day = await self.ask(client, api, metadataPrefix="oai_dc", **{"from": "2026-01-02", "until": "2026-01-02"})
        assert set(day.xpath("//o:datestamp/text()", namespaces=OAI)) == {"2026-01-02"}

    async def test_a_caller_that_is_too_fast_is_told_when_to_come_back(self, library, client: httpx.AsyncClient):
        async with standin("oai", library, clock=TurnedClock().monotonic) as api:
            answers = [await client.get(f"{api.url}/oai?verb=Identify") for _ in range(6)]
        assert [answer.status_code for answer in answers] == [200] * 5 + [503]
        assert answers[-1].headers["retry-after"] == "1"

    async def test_a_record_that_changes_while_the_list_is_read_is_not_lost(self, library: Library, client):
        library.now = library.start + timedelta(days=4)
        async with standin("oai", library, enforce_rate=False) as api:
            seen, query = set(), {"metadataPrefix": "oai_dc"}
            while True:
                root = await self.ask(client, api, **query)
                seen |= set(root.xpath("//o:identifier/text()", namespaces=OAI))
                if not (token := root.xpath("string(//o:resumptionToken)", namespaces=OAI)):
                    break
                query = {"resumptionToken": token}
                library.advance(timedelta(hours=8))
        assert seen >= set(api.records_at(library.start + timedelta(days=4)))
