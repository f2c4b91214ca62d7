"""Texts that a stranger writes to keep a worker busy: each takes no longer than its length.

With a form that tries every division of a row of equal letters, each of these would take hours.
"""

from penstock.extraction.chunks import chunks
from penstock.extraction.markdown_page import page_of_markdown
from penstock.extraction.places import places_of
from penstock.extraction.providers.mineru.storing import _linked
from penstock.extraction.sentences import sentences
from penstock.extraction.spelling import number_of
from penstock.llm.answers import NotReadable, json_in
from penstock.pdf.pages.model import Box, Page, Span

MANY = 200_000


class TestLongRowsOfOneLetter:
    def test_points_without_an_end_are_one_sentence(self):
        text = "!" * MANY + "x"
        assert list(sentences(text, 0, len(text))) == [(0, len(text))]

    def test_points_are_cut_into_chunks(self):
        text = "?!" * MANY
        assert "".join(chunk.own for chunk in chunks(text, 16_000)) == text

    def test_blanks_around_a_number_are_blanks(self):
        assert number_of("(" + " " * MANY + "12.50" + " " * MANY + ")") == -12.5
        assert number_of("(" + " " * MANY + "x") is None

    def test_a_value_is_found_behind_many_blanks(self):
        page = Page(1, 595, 842, spans=[Span("s1", "total" + " " * MANY + "12.50", Box(0, 0, 1, 1))])
        assert list(places_of({"total": 12.5}, [page])) == ["/total"]

    def test_a_heading_may_end_with_any_number_of_marks(self):
        assert page_of_markdown("# a " + "#" * MANY + "x").blocks[0].text == "a " + "#" * MANY + "x"
        assert page_of_markdown("# a " + "#" * MANY).blocks[0].text == "a"

    def test_links_that_never_close_are_none(self):
        assert _linked("![" * MANY + "](images/a.png)") == {"images/a.png"}

    def test_an_answer_with_a_fence_that_never_closes_is_not_json(self):
        try:
            json_in("Here: ```" + "\n" * MANY + "x")
        except NotReadable:
            return
        raise AssertionError("it was read")
