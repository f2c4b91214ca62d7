"""From sections and a place in a slice to a request."""

from datetime import UTC, datetime, timedelta

import pytest

from penstock.harvest.calling.render import Context, PageVars, for_count, last_tick, public_url, render
from penstock.harvest.slices import Span
from penstock.harvest.spec import Sections
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
DAYS = Span(datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 3, tzinfo=UTC))


def sections(http=None, **more):
    return Sections.model_validate({"http": {"baseUrl": "https://api.example.org/v1/works", **(http or {})}, **more})


def rendered(made, **context):
    return render(made, Context(now=NOW, **context))


def refusal(made, **context):
    with pytest.raises(PenstockError) as caught:
        rendered(made, **context)
    assert caught.value.code is error_codes.EXPRESSION_FAILED
    return caught.value.details["reason"]


class TestWindows:
    FORMAT = '${formatDateTime(window.to, "%Y-%m-%d")}'

    def test_an_inclusive_source_hears_the_last_tick(self):
        window = {"bounds": "INCLUSIVE", "granularity": "1d"}
        made = sections({"queryTemplate": {"to": self.FORMAT, "from": "${window.from}"}}, window=window)
        assert rendered(made, span=DAYS).query == (("to", "2026-03-02"), ("from", "2026-03-01T00:00:00Z"))

    def test_a_half_open_source_hears_the_end(self):
        made = sections({"queryTemplate": {"to": self.FORMAT}})
        assert rendered(made, span=DAYS).query == (("to", "2026-03-03"),)

    def test_without_a_window_its_ends_are_null_and_left_out(self):
        assert rendered(sections({"queryTemplate": {"to": "${window.to}", "a": "1"}})).query == (("a", "1"),)

    @pytest.mark.parametrize(
        ("end", "granularity", "tick"),
        [
            ("2026-03-03T00:00:00", timedelta(days=1), "2026-03-02T00:00:00"),
            ("2026-03-03T12:00:00", timedelta(days=1), "2026-03-03T00:00:00"),  # a part of the day belongs to it
            ("2026-03-03T00:00:00", timedelta(seconds=1), "2026-03-02T23:59:59"),
            ("2026-03-03T00:00:00.5", timedelta(seconds=1), "2026-03-03T00:00:00"),
            ("2026-03-03T00:00:00", timedelta(microseconds=1), "2026-03-02T23:59:59.999999"),
        ],
    )
    def test_the_last_tick_is_the_latest_before_the_end(self, end, granularity, tick):
        assert last_tick(datetime.fromisoformat(end + "+00:00"), granularity).isoformat()[:-6] == tick


class TestPages:
    def test_a_source_that_counts_from_one_hears_one_more(self):
        query = {"queryTemplate": {"page": "${page.no}"}}
        one = sections(query, pagination={"type": "PAGE", "base1": True})
        zero = sections(query, pagination={"type": "PAGE", "base1": False})
        assert rendered(one, page=PageVars(no=0)).query == (("page", "1"),)
        assert rendered(zero, page=PageVars(no=0)).query == (("page", "0"),)

    def test_a_next_link_replaces_address_and_query(self):
        made = sections({"queryTemplate": {"q": "x"}, "headersTemplate": {"Accept": "application/json"}})
        request = rendered(made, page=PageVars(url="https://api.example.org/v1/works?page=2&q=%C3%BC"))
        assert (request.url, request.query) == ("https://api.example.org/v1/works", (("page", "2"), ("q", "ü")))
        assert request.headers == {"Accept": "application/json"}

    def test_a_next_link_may_be_relative(self):
        assert rendered(sections(), page=PageVars(url="/v1/works?page=3")).url == "https://api.example.org/v1/works"
        made = sections({"pathTemplate": "search"})
        assert rendered(made, page=PageVars(url="?page=3")).url == "https://api.example.org/v1/works/search"

    @pytest.mark.parametrize(
        "url",
        [
            "https://evil.example/v1/works?page=2",
            "http://api.example.org/v1/works?page=2",
            "https://api.example.org:8443/v1",
            "//evil.example/x",
            "https://api.example.org@evil.example/",
            "https://me:pw@api.example.org/",
            "https://api.example.org.evil.example/",
            "file:///etc/passwd",
            "https://api.example.org\\@evil.example/",
            "https://[::1",
            "https://api.example.org/a\r\nHost: evil",
            "javascript:alert(1)",
        ],
    )
    def test_a_next_link_to_elsewhere_is_refused(self, url):
        assert refusal(sections(), page=PageVars(url=url))

    def test_a_key_that_the_source_echoes_in_its_link_does_not_stay(self):
        made = sections(auth={"type": "API_KEY", "location": "QUERY", "name": "api_key", "credentialRef": "k"})
        link = "https://api.example.org/v1/works?page=2&API_KEY=s3cr3t&x=%2B"
        assert public_url(made, link) == "https://api.example.org/v1/works?page=2&x=%2B"
        assert rendered(made, page=PageVars(url=link)).query == (("page", "2"), ("x", "+"))


class TestPaths:
    def test_values_stay_within_their_segment(self):
        made = sections({"pathTemplate": "articles/${param.q}/list"})
        assert rendered(made, params={"q": "a/../b?c#d e"}).url.endswith("/articles/a%2F..%2Fb%3Fc%23d%20e/list")

    def test_a_value_that_is_encoded_already_is_not_encoded_again(self):
        made = sections({"pathTemplate": 'articles/${urlEncode(concat("q:[", param.q, "]"))}'})
        assert rendered(made, params={"q": "a b"}).url.endswith("/articles/q%3A%5Ba%20b%5D")

    def test_path_parameters_fill_their_places(self):
        made = sections(
            {"pathTemplate": "/search/{query}"}, mapping={"requestParams": [{"name": "query", "location": "PATH"}]}
        )
        assert rendered(made, params={"query": "a/b"}).url == "https://api.example.org/v1/works/search/a%2Fb"
        assert "query" in refusal(made)

    @pytest.mark.parametrize("value", ["..", "."])
    def test_nobody_climbs_out(self, value):
        assert refusal(sections({"pathTemplate": "a/${param.q}/b"}), params={"q": value})

    def test_an_absolute_path_cannot_change_the_host(self):
        made = sections({"pathTemplate": '${urlEncode("x") == "x" ? "//evil.example/a" : ""}'})
        assert rendered(made).url.startswith("https://api.example.org/v1/works/")

    def test_the_base_address_may_have_no_path_or_end_with_a_slash(self):
        assert rendered(sections({"baseUrl": "https://h.example", "pathTemplate": "a"})).url == "https://h.example/a"
        assert rendered(sections({"baseUrl": "https://h.example/e/"})).url == "https://h.example/e/"
        assert rendered(sections({"baseUrl": "https://h.example/e/", "pathTemplate": "/f"})).url.endswith("example/e/f")

    @pytest.mark.parametrize("base", ["", "nonsense", "http://h.example", "ftp://h.example", "https://"])
    def test_without_an_https_address_nothing_is_sent(self, base):
        assert refusal(sections({"baseUrl": base}))


class TestParameters:
    def test_declared_parameters_override_templates_and_go_where_they_belong(self):
        params = [
            {"name": "q", "default": "all"},
            {"name": "X-Part", "location": "HEADER", "expr": "${param.part}"},
            {"name": "field", "location": "BODY", "expr": "${join(ids, ',')}"},
        ]
        http = {"method": "POST", "queryTemplate": {"q": "template", "r": "1"}, "bodyTemplate": {"db": "pubmed"}}
        request = rendered(sections(http, mapping={"requestParams": params}), ids=["1", "2"], params={"part": "p"})
        assert request.query == (("q", "all"), ("r", "1"))
        assert request.headers == {"X-Part": "p"}
        assert request.form == {"db": "pubmed", "field": "1,2"}

    def test_a_parameter_of_the_run_wins_over_the_source_and_its_default(self):
        made = sections(mapping={"requestParams": [{"name": "q", "default": "all"}]}, params={"q": "source"})
        assert rendered(made).query == (("q", "source"),)
        assert rendered(made, params={"q": "run"}).query == (("q", "run"),)

    def test_a_required_parameter_without_value_refuses(self):
        assert "required" in refusal(sections(mapping={"requestParams": [{"name": "q", "required": True}]}))

    @pytest.mark.parametrize("value", ["1 OR 1", "", "12x", "1\n", "9" * 5000])
    def test_a_value_that_does_not_match_its_pattern_is_not_sent(self, value):
        made = sections(mapping={"requestParams": [{"name": "n", "pattern": r"\d{1,4}|9+"}]})
        assert "match" in refusal(made, params={"n": value})

    @pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\x00", "\u4e2d"])
    def test_line_breaks_do_not_get_into_headers(self, value):
        assert refusal(sections({"headersTemplate": {"X-A": "${param.v}"}}), params={"v": value})

    @pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "X Y", "X:Y", ""])
    def test_headers_that_belong_to_the_transport_cannot_be_set(self, name):
        assert refusal(sections({"headersTemplate": {name: "1"}}))


class TestNulls:
    def test_what_is_null_is_left_out_or_empty_or_refused(self):
        query = {"queryTemplate": {"cursor": "${page.token}", "rows": "5"}}
        assert rendered(sections(query)).query == (("rows", "5"),)
        assert rendered(sections(query, expr={"nullPolicy": "empty"})).query == (("cursor", ""), ("rows", "5"))
        assert "null" in refusal(sections(query, expr={"nullPolicy": "fail"}))


class TestBodies:
    def test_a_json_body_keeps_types(self):
        http = {"method": "POST", "bodyType": "JSON"}
        http["bodyTemplate"] = {"ids": "${ids}", "n": "${page.size}", "none": "${page.token}", "t": "x${page.size}"}
        request = rendered(sections(http), ids=["1"], page=PageVars(size=5))
        assert request.json == {"ids": ["1"], "n": 5, "t": "x5"}
        assert request.content() == (b'{"ids":["1"],"n":5,"t":"x5"}', "application/json")

    def test_a_get_has_no_body(self):
        assert rendered(sections({"bodyTemplate": {"a": "b"}})).content() == (None, None)

    def test_a_description_tells_a_body_by_its_hash(self):
        http = {"method": "POST", "bodyTemplate": {"id": "${ids}"}}
        shown = rendered(sections(http), ids=["1"]).described()
        assert shown["bodyHash"].startswith("sha256:")
        assert shown["bodyFields"] == ["id"]

    def test_a_description_holds_what_it_takes_to_make_the_request_again(self):
        http = {"method": "POST", "bodyTemplate": {"id": "${ids}", "at": "${now()}"}}
        request = rendered(sections(http), ids=["1", "2"])
        shown = request.described()
        assert (shown["ids"], shown["now"]) == (["1", "2"], NOW.isoformat())
        again = rendered(sections(http), ids=shown["ids"])
        assert again.described()["bodyHash"] == shown["bodyHash"]

    def test_a_description_shows_tokens_of_paging_but_no_key_that_somebody_wrote_down(self):
        http = {"queryTemplate": {"resumptionToken": "t1", "api_key": "k1"}, "headersTemplate": {"X-Api-Key": "k2"}}
        shown = rendered(sections(http)).described()
        assert shown["query"] == [["resumptionToken", "t1"], ["api_key", "<masked>"]]
        assert shown["headers"] == ["X-Api-Key: <masked>"]


class TestCounting:
    def test_the_count_is_laid_over_the_query(self):
        made = sections(
            {"queryTemplate": {"rows": "100", "cursor": "*"}},
            count={"queryTemplate": {"rows": "0", "cursor": "${null}"}},
        )
        assert rendered(for_count(made)).query == (("rows", "0"),)
        assert rendered(made).query == (("rows", "100"), ("cursor", "*"))
