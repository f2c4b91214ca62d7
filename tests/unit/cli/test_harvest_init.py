"""`penstock harvest init`: what one answer of an API tells, and the first file that is made of it."""

from datetime import UTC, datetime

import pytest
from tests.standins import Library, standin

from penstock import cli
from penstock.cli.harvest.first_file import code_of, first_file, take_apart
from penstock.cli.harvest.guessing import Guess, guess_json, guess_xml
from penstock.cli.harvest.init import _draft, problems_of
from penstock.harvest.registry.document import read_source

START = datetime(2026, 3, 1, tzinfo=UTC)


async def draft(source: str, path: str) -> str:
    library = Library(400, days=2, start=START)
    async with standin(source, library, enforce_rate=False) as api:
        return await _draft(api.url + path, "mine")


def read(text: str) -> dict:
    """The file, which lacks nothing but what one answer cannot tell: whether the source can be asked by time."""
    assert all("window." in each for each in problems_of(text)), problems_of(text)
    return read_source(text.encode(), "draft.yaml").canonical()


class TestAgainstTheStandIns:
    async def test_crossref_tokens_items_ids_and_times_are_found(self):
        made = read(await draft("crossref", "/v1/works?rows=50&cursor=*"))["endpoints"]["items"]
        assert made["pagination"]["type"] == "TOKEN"
        assert made["pagination"]["initialToken"] == "*"
        assert made["pagination"]["nextTokenPath"] == "$.message['next-cursor']"
        assert made["pagination"]["pageSize"] == 50
        assert made["http"]["queryTemplate"] == {"rows": "${page.size}", "cursor": "${page.token}"}
        response = made["response"]
        assert response["itemsPath"] == "$.message.items"
        assert response["idPath"] == "$.DOI"
        assert response["updatedAtPath"] == "$.indexed['date-time']"
        assert response["totalPath"] == "$.message['total-results']"

    async def test_a_repository_is_known_by_its_protocol_and_asked_for_its_granularity(self):
        made = read(await draft("oai", "/oai?verb=ListRecords&metadataPrefix=oai_dc"))["endpoints"]["records"]
        assert made["window"]["watermarkKey"] == "datestamp"
        assert made["window"]["granularity"] == "PT1S"
        assert made["pagination"]["type"] == "TOKEN"

    async def test_a_feed_of_atom_is_read_as_one(self):
        text = await draft("arxiv", "/api/query?search_query=all:x&start=0&max_results=20")
        made = read(text)["endpoints"]["items"]
        assert made["pagination"]["type"] in {"OFFSET", "URL"}
        assert made["response"]["itemsPath"] == "/a:feed/a:entry"
        assert made["response"]["totalPath"] == "/a:feed/os:totalResults"

    @pytest.mark.parametrize(
        ("source", "path"),
        [
            ("europepmc", "/europepmc/webservices/rest/search?query=*&format=json&resultType=core&cursorMark=*"),
            ("doaj", "/api/search/articles/last_updated:[2026-03-01 TO 2026-03-03]?page=1&pageSize=10"),
        ],
    )
    async def test_others_make_a_file_that_lacks_only_the_question_of_time(self, source, path):
        response = read(await draft(source, path.replace(" ", "%20")))["endpoints"]["items"]["response"]
        assert response["itemsPath"]
        assert response["idPath"]


class TestGuessing:
    def test_the_list_of_things_with_ids_is_taken_not_the_longest(self):
        facets = [{"name": f"f{n % 2}", "n": 1} for n in range(9)]
        guess = guess_json({"facets": facets, "data": {"rows": [{"id": 1, "x": 2}, {"id": 2, "x": 2}]}})
        assert (guess.items, guess.id, guess.count) == ("$.data.rows", "$.id", 2)

    def test_a_change_counts_more_than_a_beginning(self):
        item = {"id": 1, "created_at": "2020-01-01T00:00:00Z", "last_updated": "2021-01-01T00:00:00Z"}
        assert guess_json([item]).updated == "$.last_updated"

    def test_what_is_not_in_every_item_is_no_id_and_no_time(self):
        items = [{"id": "a", "updated": "2020-01-01"}, {"id": "a", "updated": "soon"}]
        guess = guess_json({"items": items})
        assert (guess.id, guess.updated) == (None, None)

    def test_an_address_of_the_next_page_is_not_taken_for_a_token(self):
        guess = guess_json({"items": [{"id": 1}], "links": {"next": "https://example.org/?p=2"}, "total": 7})
        assert (guess.next_url, guess.next_token, guess.total) == ("$.links.next", None, "$.total")

    @pytest.mark.parametrize("value", [None, 3, "x", [], {}, [1, 2], {"a": [1, 2]}])
    def test_an_answer_without_items_is_no_error(self, value):
        assert guess_json(value) == Guess("JSON", total=None)

    def test_repeated_elements_of_other_xml_are_the_items(self):
        body = b"<r xmlns='urn:x'><list><e><id>1</id><updated>2020-01-01</updated></e><e><id>2</id>"
        body += b"<updated>2020-01-02</updated></e></list></r>"
        guess = guess_xml(body)
        assert (guess.items, guess.id, guess.updated) == ("/n:r/n:list/n:e", "n:id", "n:updated")
        assert guess.namespaces == {"n": "urn:x"}


class TestTheFile:
    def test_a_key_in_the_address_is_not_written_down(self):
        text = first_file("https://user:pw@api.example.org/x?api_key=s3cret&page=1", "x", Guess("JSON", items="$.a"))
        assert "s3cret" not in text
        assert "pw" not in text
        assert "api_key looks like a key" in text

    def test_times_in_the_address_become_the_window(self):
        asked = take_apart("https://example.org/x?updated_since=2026-01-01&until=2026-01-02T00:00:00Z&q=a")
        assert asked.has_since
        assert asked.query["updated_since"] == '${formatDateTime(window.from, "%Y-%m-%d")}'
        assert asked.query["until"] == "${window.to}"
        assert asked.query["q"] == "a"

    def test_with_times_in_the_address_it_can_be_applied_as_it_is(self):
        answer = {"items": [{"id": 1, "updated": "2026-01-01T10:00:00Z"}], "next_cursor": "abc", "total": 4}
        text = first_file("https://example.org/x?since=2026-01-01T00:00:00Z&limit=50", "x", guess_json(answer))
        assert problems_of(text) == []
        made = read(text)["endpoints"]["items"]
        assert made["window"]["supportsUpdatedSince"] is True
        assert made["http"]["queryTemplate"]["cursor"] == "${page.token}"

    def test_what_was_not_found_is_a_question_and_a_problem_that_is_told(self):
        text = first_file("https://example.org/x", "x", guess_json({"items": [{"a": 1}]}))
        assert "# TODO idPath: what names an item, for ever?" in text
        assert any("idPath" in each for each in problems_of(text))

    @pytest.mark.parametrize(
        ("url", "code"),
        [("https://api.crossref.org/works", "crossref"), ("http://127.0.0.1:1/x", "my_source"),
         ("https://export.arxiv.org", "arxiv")],
    )  # fmt: skip
    def test_the_code_comes_from_the_host(self, url, code):
        assert code_of(url) == code


class TestTheCommand:
    @pytest.mark.parametrize(
        ("url", "said"),
        [("http://example.org/x", "Only https"), ("ftp://example.org", "is no address"), ("works", "is no address")],
    )
    def test_other_addresses_are_refused(self, url, said, capsys):
        with pytest.raises(SystemExit) as left:
            cli.main(("harvest", "init", url), roles={})
        assert left.value.code == 1
        assert said in capsys.readouterr().err

    def test_a_file_that_is_there_is_not_written_over(self, tmp_path, capsys):
        (tmp_path / "a.yaml").write_text("mine")
        with pytest.raises(SystemExit):
            cli.main(("harvest", "init", "https://example.org", "-o", str(tmp_path / "a.yaml")), roles={})
        assert (tmp_path / "a.yaml").read_text() == "mine"
        assert "already" in capsys.readouterr().err
