"""Answers as the seven sources give them, read with the paths that their files use."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from penstock.harvest.page import FaultKind
from penstock.harvest.slices import Span
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

_DATA = Path(os.environ.get("PENSTOCK_TEST_DATA") or Path(__file__).parents[5] / "shared" / "data") / "api-samples"
pytestmark = pytest.mark.skipif(not _DATA.is_dir(), reason="the sample answers are not here (PENSTOCK_TEST_DATA)")

ESEARCH = {
    "itemsPath": "$.esearchresult.idlist",
    "idPath": "$",
    "totalPath": "$.esearchresult.count",
    "errorPath": "$.esearchresult.ERROR",
    "retryErrors": ["rate limit exceeded", "Search Backend failed: .*timed out"],
    "truncatedPath": "$.esearchresult.warninglist.outputmessages[?search(@, 'Restrictions achieved')]",
}
CROSSREF = {
    "itemsPath": "$.message.items",
    "idPath": "$.DOI",
    "updatedAtPath": "$.indexed['date-time']",
    "totalPath": "$.message['total-results']",
    "errorPath": "$.message[?@.type].message",
    "pagination": {"nextTokenPath": "$.message['next-cursor']"},
}
ARXIV = {
    "format": "XML",
    "namespaces": {"a": "http://www.w3.org/2005/Atom", "s": "http://a9.com/-/spec/opensearch/1.1/"},
    "itemsPath": "/a:feed/a:entry",
    "idPath": "a:id",
    "idPattern": r"abs/(.+?)(?:v[0-9]+)?$",
    "updatedAtPath": "a:updated",
    "versionPath": "substring-after(substring-after(a:id, '/abs/'), 'v')",
    "totalPath": "/a:feed/s:totalResults",
    "errorPath": "/a:feed/a:entry[a:title='Error']/a:summary",
    "retryErrors": ["Rate exceeded"],
}
OAI = {
    "format": "XML",
    "namespaces": {"o": "http://www.openarchives.org/OAI/2.0/"},
    "itemsPath": "/o:OAI-PMH/o:ListRecords/o:record",
    "idPath": "o:header/o:identifier",
    "updatedAtPath": "o:header/o:datestamp",
    "deletedPath": "o:header/@status",
    "deletedValue": "deleted",
    "totalPath": "//o:resumptionToken/@completeListSize",
    "errorPath": "/o:OAI-PMH/o:error",
    "emptyErrors": ["^noRecordsMatch"],
    "pagination": {"nextTokenPath": "//o:resumptionToken"},
}


def sample(name):
    return (_DATA / name).read_bytes()


def refused(reader, name):
    with pytest.raises(PenstockError) as caught:
        reader.read(sample(name))
    return caught.value


class TestPubmed:
    def test_a_search_gives_ids_and_a_total_written_as_text(self, reader):
        page = reader(ids_only=True, **ESEARCH).read(sample("pubmed_esearch.json"))
        assert page.ids == ["41000003", "41000002", "41000001"]
        assert (page.total, page.is_truncated) == (23117, False)

    def test_a_search_that_was_cut_short_says_so(self, reader):
        assert reader(ids_only=True, **ESEARCH).read(sample("pubmed_esearch_truncated.json")).is_truncated

    def test_an_error_that_is_not_even_json_is_told(self, reader):
        error = refused(reader(ids_only=True, **ESEARCH), "pubmed_esearch_error_200_invalid_json.txt")
        assert error.code is error_codes.SOURCE_REFUSED
        assert "cannot be larger than 9998" in error.details["answer"]

    def test_too_many_requests_may_come_with_a_200(self, reader):
        error = refused(reader(ids_only=True, **ESEARCH), "pubmed_ratelimit_429.json")
        assert error.code is error_codes.SOURCE_UNAVAILABLE

    def test_articles_and_books_come_from_one_answer(self, reader):
        paths = {
            "format": "XML",
            "itemsPath": "/PubmedArticleSet/PubmedArticle | /PubmedArticleSet/PubmedBookArticle",
            "idPath": "MedlineCitation/PMID | BookDocument/PMID",
            "updatedAtPath": ("MedlineCitation/DateRevised", "BookDocument/DateRevised"),
        }
        page = reader(**paths).read(sample("pubmed_efetch.xml"), asked=["41000001", "20301000", "7"])
        assert page.ids == ["41000001"]
        assert page.updated == [datetime(2026, 11, 5, tzinfo=UTC)]
        assert [(fault.kind, fault.provider_id) for fault in page.faults] == [
            (FaultKind.BAD_UPDATED_AT, "20301000"),
            (FaultKind.NO_DETAIL, "7"),
        ]

    def test_summaries_are_members_of_an_object(self, reader):
        paths = {"itemsPath": "$.result[?@.uid && !@.error]", "idPath": "$.uid", "updatedAtPath": "$.sortpubdate"}
        page = reader(**paths).read(sample("pubmed_esummary.json"), asked=["41000001", "41000002"])
        assert page.ids == ["41000001"]
        assert page.updated == [datetime(2026, 11, 2, tzinfo=UTC)]
        assert page.bodies[0] in sample("pubmed_esummary.json")
        assert [(fault.kind, fault.provider_id) for fault in page.faults] == [(FaultKind.NO_DETAIL, "41000002")]


class TestJsonSources:
    def test_crossref(self, reader):
        page = reader(**CROSSREF).read(sample("crossref_works.json"))
        assert (page.ids, page.total) == (["10.5555/lab.0001"], 2741)
        assert page.next_token.endswith("_standin==")
        parts = reader(**CROSSREF | {"updatedAtPath": "$.indexed['date-parts']"}).read(sample("crossref_works.json"))
        assert parts.updated == [datetime(2026, 11, 3, tzinfo=UTC)]

    def test_a_refusal_of_crossref(self, reader):
        error = refused(reader(**CROSSREF), "crossref_400.json")
        assert error.code is error_codes.SOURCE_REFUSED
        assert "no such filter" in error.details["answer"]

    def test_europe_pmc_has_ids_of_two_parts_and_no_time(self, reader):
        paths = {"itemsPath": "$.resultList.result", "idPath": ("$.source", "$.id"), "updatedAtFrom": "WINDOW"}
        one = reader(totalPath="$.hitCount", errorPath="$.errMsg", window={"granularity": "P1D"}, **paths)
        span = Span(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 3, tzinfo=UTC))
        page = one.read(sample("europepmc_search.json"), span=span)
        assert (page.ids, page.updated) == (["MED:41000001"], [datetime(2026, 11, 2, tzinfo=UTC)])
        assert refused(one, "europepmc_error_200.json").code is error_codes.SOURCE_REFUSED

    def test_openalex(self, reader):
        paths = {"itemsPath": "$.results", "updatedAtPath": "$.updated_date", "idPattern": "(W[0-9]+)$"}
        one = reader(errorPath="$.message", totalPath="$.meta.count", **paths)
        page = one.read(sample("openalex_works.json"))
        assert (page.ids, page.total) == (["W4400000001"], 8123)
        assert page.updated == [datetime(2026, 11, 3, 4, 12, 55, 180390, tzinfo=UTC)]
        assert refused(one, "openalex_error.json").code is error_codes.SOURCE_REFUSED

    def test_doaj(self, reader):
        paths = {"itemsPath": "$.results", "updatedAtPath": "$.last_updated", "errorPath": "$.error"}
        one = reader(pagination={"nextUrlPath": "$.next"}, **paths)
        page = one.read(sample("doaj_articles.json"))
        assert page.ids == ["00aa11bb22cc33dd44ee55ff66778899"]
        assert page.next_url.startswith("https://doaj.org/")
        assert refused(one, "doaj_400.json").code is error_codes.SOURCE_REFUSED


class TestXmlSources:
    def test_arxiv_keeps_the_version_out_of_the_id(self, reader):
        page = reader(**ARXIV).read(sample("arxiv_feed.xml"))
        assert (page.ids, page.versions, page.total) == (["2611.00001"], ["2"], 35)
        assert page.updated == [datetime(2026, 11, 2, 17, 59, 59, tzinfo=UTC)]

    def test_errors_of_arxiv_come_as_an_entry_or_as_plain_words(self, reader):
        error = refused(reader(**ARXIV), "arxiv_error_200.xml")
        assert error.details["answer"] == "start must be an integer"
        assert refused(reader(**ARXIV), "arxiv_429.txt").code is error_codes.SOURCE_UNAVAILABLE

    def test_oai_records_may_be_deleted(self, reader):
        page = reader(**OAI).read(sample("oai_listrecords.xml"))
        assert page.ids == ["oai:example.org:1", "oai:example.org:2"]
        assert (page.deleted, page.total, page.next_token) == ([False, True], 842, "eyJuIjoxMDB9")
        assert refused(reader(**OAI), "oai_error_200.xml").details["answer"].startswith("badResumptionToken")
