"""Paths into answers: those that take more time than the answer is long are refused, with what to write instead."""

import gc
import time
from collections.abc import Callable

import pytest
from lxml import etree

from penstock.harvest.path_bounds import JSON_PATHS, jsonpath_beyond_bounds, xpath_beyond_bounds
from penstock.harvest.reading.xml_paths import XmlPath
from penstock.kernel.errors import PenstockError


def json_refusal(path: str):
    return jsonpath_beyond_bounds(path, JSON_PATHS.compile(path).segments)


class TestJson:
    @pytest.mark.parametrize(
        "path",
        [
            "$..*..*", "$..a..b", "$[?@..a]", "$.a[?$.b]", "$.a[?@.b[?@.c]]", "$[*,*][*,*][*,*][*,*]",
            "$.a[?count(@..*) > 1]", "$." + "a" * 500,
        ],
    )  # fmt: skip
    def test_what_grows_faster_than_the_answer_is_refused(self, path):
        assert json_refusal(path) is not None

    @pytest.mark.parametrize(
        "path", ["$", "$.a.b[0]", "$..a", "$..a[*].b", "$['a','b']", "$.a[?@.type == '..?$']", "$[*][*].x", "$.a[-1]"]
    )
    def test_the_rest_is_allowed(self, path):
        assert json_refusal(path) is None

    def test_patterns_are_matched_in_no_time(self):
        text = "a" * 4_000
        for pattern, expected in (("a+", 1), ("^(([a-z])+.)+[A-Z]([a-z])+$", 0), ("(", 0)):
            for function in ("match", "search"):
                found = JSON_PATHS.findall(f"$[?{function}(@, '{pattern}')]", [text, None, 1])
                assert len(found) == expected


class TestXml:
    @pytest.mark.parametrize(
        "path",
        [
            "//*[//*[//*]]", "//a//b", "a//b", "a[.//b]", "a[../b]", "a[/r/b]", "a[b = /r/c]", "a/following-sibling::*",
            "preceding::a", "a/ancestor::*", "//*/descendant::*", "a[count(//b) > 1]", "a[ancestor :: b]", "a[.. = 1]",
            "(a)//b", "*//b", "a" * 501,
            "/r[a=b]", "/r[a != b]", "/r[a < b]", "/r/a = /r/b", "/r[b = (a)]", "/r[a[1] >= b]",
            "/r[a|b]", "name(/r/a|/r/b)", "(a|b)[1]", "a | b = 'c'", "a | b + 1", "a | b and c", "a * b | c",
            "a | string(b)", "(a | b)/c[d | e]", "|".join("abcdefghi"), "(a | string(b))/c", "a | 'b'",
            "/r/a/b/..", "/r/a/../@x", "/r/*/namespace::*", "id(/r/a)",
        ],
    )  # fmt: skip
    def test_what_grows_faster_than_the_answer_is_refused(self, path):
        assert xpath_beyond_bounds(path, of_item=False) is not None

    @pytest.mark.parametrize(
        "path",
        [
            "/o:OAI-PMH/*/o:record", "//a", ".//a", ".//dc:title", "/a:feed/a:entry[a:title = '//..']/a:summary",
            "a | b", "concat(*/D/Y, '-', */D/M)", "(M | B)/PMID", "a[b][c = 1]/@d", "a[last()]", "string(.)",
            "id | a/id",
            "/r[a = string(b)]", "/r[count(a) = b]", "/r[a > 1]", "/r['x' = a]", "/r[a = 'x' = b]",
            "a[position() = last()]", "a[b = -1]",
            "((a | b)/c | d)/@e", "a/and | or/text()", "a[b = 'x'] | c[1]", "* | @*", "/r/a | /r/b",
            "a[self::b or self::c]", "//a[1] | //b",
        ],
    )  # fmt: skip
    def test_the_rest_is_allowed(self, path):
        assert xpath_beyond_bounds(path, of_item=False) is None

    def test_a_path_of_an_item_does_not_begin_at_the_root(self):
        """It would walk the whole answer for each of its items."""
        assert all(xpath_beyond_bounds(path, of_item=True) for path in ("//a", "/r/a", "concat('x', /r/a)"))
        assert all(xpath_beyond_bounds(path, of_item=True) is None for path in (".//a", "a/b", "a div b"))

    @pytest.mark.parametrize("path", ["../a", "../@x", "string(..)", "count(../*)"])
    def test_a_path_of_an_item_does_not_leave_it(self, path):
        """Text or elements of the parent would be read once for each of its items."""
        assert xpath_beyond_bounds(path, of_item=True) is not None

    @pytest.mark.parametrize(
        "path", ["/r/a | /r/b", "/r/b | //a | /r/a", "(/r/a | /r/b | /r/c)/d", "//d | /r/*", "//* | /r/a[d = '1']/d"]
    )
    def test_a_union_finds_what_the_library_finds(self, path):
        root = etree.fromstring("<r><b><d>1</d></b><a><d>2</d><d/></a><c/><a><d>1</d></a><b/><e/></r>")
        assert XmlPath("itemsPath", path, {}).find_all(root) == etree.XPath(path)(root)

    def test_a_union_of_attributes_finds_them_branch_by_branch(self):
        root = etree.fromstring("<r><b y='1'/><a x='2'/></r>")
        assert XmlPath("itemsPath", "a/@x | b/@y", {}).find_all(root) == ["2", "1"]

    def test_a_union_of_many_elements_is_found_faster_than_by_the_library(self):
        """The library compares every two elements of a union: it takes 50 times as long."""
        root = etree.fromstring(b"<r>" + b"<a/><b/>" * 40_000 + b"</r>")

        def seconds(find: Callable[[etree._Element], list[etree._Element]]) -> float:
            begun = time.thread_time()
            assert len(find(root)) == 80_000
            return time.thread_time() - begun

        gc.disable()  # a collection would walk the heap of all tests that ran before
        try:
            ours, libraries = (
                seconds(XmlPath("itemsPath", "/r/a | /r/b", {}).find_all),
                seconds(etree.XPath("/r/a | /r/b")),
            )
        finally:
            gc.enable()
        assert ours < libraries / 4

    def test_no_namespace_brings_pattern_functions(self):
        with pytest.raises(PenstockError):
            XmlPath("idPath", "re:test(., '(a+)+$')", {"re": "http://exslt.org/regular-expressions"})
