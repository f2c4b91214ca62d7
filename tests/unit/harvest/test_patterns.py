"""Patterns of sources: linear in strangers' text, and refused with a reason where they cannot be."""

import time
from datetime import UTC, datetime

import pytest

from penstock.harvest.calling.render import Context, render
from penstock.harvest.patterns import PatternUnfit, compile_pattern
from penstock.harvest.reading import Reader
from penstock.harvest.spec import Sections
from penstock.kernel.errors import PenstockError

_HOSTILE, _TEXT = "^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 4_000
_SECONDS = 1.0  # measured: under a millisecond; Python's own engine needs hours


def _sections(**response: object) -> Sections:
    paths = {"itemsPath": "$.items", "idPath": "$.id", "updatedAtPath": "$.at", "errorPath": "$.error"}
    return Sections.model_validate({"response": paths | response})


class TestHostilePatterns:
    def test_the_id_of_a_stranger_is_searched_in_no_time(self):
        reader = Reader(_sections(idPattern=f"({_HOSTILE})"), ids_only=False)
        began = time.process_time()
        page = reader.read(b'{"items": [{"id": "%s", "at": "2026-01-01"}]}' % _TEXT.encode())
        assert time.process_time() - began < _SECONDS
        assert [fault.reason for fault in page.faults] == [f"the id {_TEXT[:80]!r} does not match idPattern"]

    @pytest.mark.parametrize("key", ["emptyErrors", "retryErrors"])
    def test_the_error_of_a_stranger_is_searched_in_no_time(self, key):
        reader = Reader(_sections(**{key: [_HOSTILE]}), ids_only=False)
        began = time.process_time()
        with pytest.raises(PenstockError):
            reader.read(b'{"error": "%s"}' % _TEXT.encode())
        assert time.process_time() - began < _SECONDS

    def test_a_value_of_a_request_is_matched_in_no_time(self):
        sections = Sections.model_validate(
            {
                "http": {"baseUrl": "https://api.example.org", "pathTemplate": "/"},
                "mapping": {"requestParams": [{"name": "q", "pattern": _HOSTILE}]},
            }
        )
        began = time.process_time()
        with pytest.raises(PenstockError):
            render(sections, Context(now=datetime(2026, 1, 1, tzinfo=UTC), params={"q": _TEXT}))
        assert time.process_time() - began < _SECONDS


class TestRefusing:
    @pytest.mark.parametrize("pattern", ["a(?=b)", "a(?!b)", "(?<=a)b", "(?<!a)b", r"(a)\1", "(?>a)"])
    def test_what_is_not_linear_is_named_in_both_languages(self, pattern):
        with pytest.raises(PatternUnfit) as caught:
            compile_pattern(pattern)
        assert "not supported" in caught.value.said.en
        assert "不支持" in caught.value.said.zh

    @pytest.mark.parametrize("pattern", ["(", "a" * 1_001, "(a{1000}){1000}", "\ud800", r"(\p{L}{900})+"])
    def test_what_is_no_pattern_or_too_large_is_refused_and_prints_nothing(self, pattern, capfd):
        with pytest.raises(PatternUnfit):
            compile_pattern(pattern)
        assert capfd.readouterr() == ("", "")

    def test_text_that_is_no_text_matches_nothing_and_breaks_nothing(self):
        assert compile_pattern("b").first_group("a\ud800b") == "b"
        assert not compile_pattern("\ud7ff").occurs_in("\ud800")
