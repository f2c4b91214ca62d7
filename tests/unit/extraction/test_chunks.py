"""A long document is cut where it hurts least, and its chunks are the document again."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.extraction.chunks import Chunk, chunks
from penstock.extraction.sentences import sentences
from penstock.extraction.units import units_of
from penstock.kernel.errors import PenstockError

WORDS = st.sampled_from(
    ["Price", "list", "of", "pumps", "3.14", "e.g.", "Dr.", "价格", "水泵", "型号", "No. 7", "\\|", "𝔘é"]
)
SENTENCE = st.builds(
    lambda words, end: " ".join(words) + end, st.lists(WORDS, min_size=1, max_size=9), st.sampled_from("。！？.!?；")
)
PARAGRAPH = st.lists(SENTENCE, min_size=1, max_size=6).map(" ".join)
HEADING = st.builds(
    lambda level, words: "#" * level + " " + " ".join(words), st.integers(1, 4), st.lists(WORDS, min_size=1, max_size=5)
)
ROW = st.lists(WORDS, min_size=3, max_size=3).map(lambda cells: "| " + " | ".join(cells) + " |")
PIPES = st.lists(ROW, min_size=1, max_size=14).map(lambda rows: "\n".join([rows[0], "| --- | --- | --- |", *rows[1:]]))
HTML = st.lists(st.lists(WORDS, min_size=2, max_size=2), min_size=1, max_size=9).map(
    lambda rows: (
        "<table>" + "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows) + "</table>"
    )
)
CODE = st.lists(WORDS, max_size=9).map(lambda words: "```\n" + "\n".join(words) + "\n```")
LIST = st.lists(SENTENCE, min_size=1, max_size=5).map(lambda items: "\n".join(f"- {item}" for item in items))
MARK = st.integers(1, 99).map(lambda number: f"<!-- page {number} -->")
DOCUMENT = st.lists(st.one_of(PARAGRAPH, HEADING, PIPES, HTML, CODE, LIST, MARK), max_size=14).map("\n\n".join)
ANYTHING = st.text(st.sampled_from("ab。. \n|-#`<>tr/able$!é\u0301\u200d"), max_size=300)


def own(parts: list[Chunk]) -> str:
    return "".join(part.own for part in parts)


def pieces(markdown: str) -> list[str]:
    return [markdown[unit.start : unit.end] for unit in units_of(markdown)]


class TestNothingIsLostOrSaidTwice:
    @given(DOCUMENT, st.integers(1, 400))
    @settings(max_examples=150, deadline=None)
    def test_the_chunks_are_the_document(self, markdown: str, size: int):
        assert own(chunks(markdown, size)) == markdown

    @given(ANYTHING, st.integers(1, 60))
    @settings(max_examples=200, deadline=None)
    @example("<table><tr><td>a</td></tr>", 5)
    @example("| a |\n|-|\n| b |\n \n| c |", 4)
    @example("$$ a", 3)
    def test_any_text_at_all(self, markdown: str, size: int):
        parts = chunks(markdown, size)
        assert own(parts) == markdown
        assert [part.index for part in parts] == list(range(len(parts)))
        assert "".join(pieces(markdown)) == markdown

    @given(DOCUMENT, st.integers(60, 400))
    @settings(max_examples=150, deadline=None)
    def test_a_chunk_is_longer_than_asked_only_for_one_row_or_sentence(self, markdown: str, size: int):
        for part in chunks(markdown, size):
            if len(part.text) > size:
                assert sum(1 for piece in pieces(part.own) if piece.strip()) == 1
                assert len(part.own) <= 4 * size

    @given(DOCUMENT, st.integers(60, 400))
    @settings(max_examples=100, deadline=None)
    def test_rows_and_sentences_stay_whole(self, markdown: str, size: int):
        whole = {piece for piece in pieces(markdown) if len(piece) <= 4 * size}
        cuts, at = set(), 0
        for part in chunks(markdown, size):
            at += len(part.own)
            cuts.add(at)
        at = 0
        for piece in pieces(markdown):
            if piece in whole:
                assert not any(at < cut < at + len(piece) for cut in cuts)
            at += len(piece)

    @given(DOCUMENT, st.integers(60, 400))
    @settings(max_examples=80, deadline=None)
    def test_what_is_said_again_is_marked_or_the_head_of_a_table(self, markdown: str, size: int):
        for part in chunks(markdown, size):
            before = part.text[: part.text.index(part.own)] if part.own else ""
            rest = re.sub(r"^<!-- context: [^\n]* -->\n\n", "", before)
            assert rest == "" or rest in markdown


class TestTables:
    TABLE = "| name | price |\n| --- | --- |\n" + "".join(f"| item {number} | {number}.50 |\n" for number in range(60))

    def test_a_long_table_goes_on_under_its_head(self):
        parts = chunks(self.TABLE, 200)
        assert len(parts) > 5
        for part in parts[1:]:
            assert "| name | price |\n| --- | --- |\n| item" in part.text
            assert "name" not in part.own
        assert all(part.own.endswith(" |\n") for part in parts)

    def test_a_head_is_not_left_without_a_row(self):
        before = "A sentence of some length that fills. " * 5
        for size in range(150, 330, 7):
            for part in chunks(f"{before}\n\n{self.TABLE}", size):
                assert not part.own.rstrip().endswith("| --- |")

    def test_an_html_table_is_closed_and_opened_again(self):
        rows = "".join(f"<tr><td>part {number}</td><td>{number}</td></tr>" for number in range(40))
        table = f"<table><thead><tr><th>name</th><th>count</th></tr></thead><tbody>{rows}</tbody></table>\n"
        parts = chunks(table, 400)
        assert len(parts) > 4
        for part in parts:
            assert part.text.count("<table>") == part.text.count("</table>") == 1
            assert part.text.count("<th>name</th>") == 1
            assert part.text.count("<tr>") == part.text.count("</tr>")

    def test_rows_that_a_merged_cell_ties_together_stay_together(self):
        rows = "".join(
            f'<tr><td rowspan="2">pair {number}</td><td>first</td></tr><tr><td>second</td></tr>' for number in range(20)
        )
        for part in chunks(f"<table><tr><td>head</td><td>of it</td></tr>{rows}</table>", 300):
            assert part.own.count("first") == part.own.count("second")

    def test_a_table_after_text_in_one_line_is_still_a_table(self):
        text = (
            "Intro. <table>"
            + "".join(f"<tr><td>a. B {number}</td></tr>" for number in range(30))
            + "</table> After. That."
        )
        for part in chunks(text, 120):
            assert part.own.count("<td>") == part.own.count("</td>")


class TestSentences:
    @pytest.mark.parametrize(
        ("text", "parts"),
        [
            ("It costs 3.14 euro. Dr. Who pays.", ["It costs 3.14 euro. ", "Dr. Who pays."]),
            ("See e.g. Fig. 3 for it. Then go!", ["See e.g. Fig. 3 for it. ", "Then go!"]),
            ("By J. R. Smith of the U.S. Army. Done", ["By J. R. Smith of the U.S. Army. ", "Done"]),
            ("他说：“好。”然后走了！为什么？因为；所以", ["他说：“好。”", "然后走了！", "为什么？", "因为；", "所以"]),
            ("Version 2.0.1 is out? yes. It is.", ["Version 2.0.1 is out? yes. ", "It is."]),
            ("价格为 3.5 元。No. 7 已停产。", ["价格为 3.5 元。", "No. 7 已停产。"]),
            ("In 2019. After", ["In 2019. ", "After"]),
        ],
    )
    def test_where_a_sentence_ends(self, text: str, parts: list[str]):
        assert [text[start:end] for start, end in sentences(text, 0, len(text))] == parts

    def test_a_sentence_longer_than_a_chunk_is_a_chunk(self):
        long = "Word " + "by word " * 20 + "end. "
        parts = chunks(f"Short one. {long}Another one.", 60)
        assert long in [part.own for part in parts]

    def test_one_that_is_far_too_long_is_cut_between_whole_letters(self):
        accented = "e\u0301" * 500
        parts = chunks(accented, 100)
        assert own(parts) == accented
        assert len(parts) > 5
        assert all(not part.own.startswith("\u0301") and len(part.text) <= 100 for part in parts)


class TestHeadings:
    def test_a_heading_stays_with_its_text(self):
        text = "".join(f"## Part {number}\n\nThe text of this part. It has two sentences.\n\n" for number in range(30))
        for size in (80, 120, 200, 333):
            for part in chunks(text, size):
                assert not re.search(r"## Part \d+\s*$", part.own)

    def test_the_headings_above_are_told_as_context(self):
        body = "A sentence about prices. " * 40
        parts = chunks(f"# Catalogue\n\n## Pumps --> and > more\n\n{body}\n\n## Valves\n\nNew.\n", 300)
        assert parts[0].headings == ()
        assert parts[1].headings == ("Catalogue", "Pumps --> and > more")
        assert parts[1].text.startswith("<!-- context: page 1; Catalogue > Pumps - -› and › more -->\n\n")
        assert parts[1].text.count("-->") == 1

    def test_a_new_heading_ends_the_deeper_ones(self):
        text = "# A\n\n## B\n\n### C\n\nText one.\n\n## D\n\n" + "Text two goes on. " * 30
        assert chunks(text, 150)[-1].headings == ("A", "D")

    def test_a_cut_before_a_heading_is_better_than_a_full_chunk(self):
        text = "First part here. " * 8 + "\n\n# Next\n\n" + "Second part here. " * 8
        assert chunks(text, 200)[1].own.startswith("# Next")


class TestPages:
    def test_a_chunk_knows_its_pages(self):
        text = "".join(f"<!-- page {number} -->\n\n" + "Some text here. " * 10 + "\n\n" for number in range(1, 8))
        parts = chunks(text, 400)
        assert (parts[0].first_page, parts[-1].last_page) == (1, 7)
        for part in parts:
            marks = [int(number) for number in re.findall(r"<!-- page (\d+) -->", part.own)]
            assert part.last_page == (marks[-1] if marks else part.first_page)
            assert marks == [] or part.first_page in (marks[0], marks[0] - 1)


class TestCode:
    def test_a_code_block_stays_whole(self):
        code = "```\n# no heading\n\n| no | table |\nA. B. C.\n```\n"
        for size in (60, 90, 140):
            assert any(
                code.strip() in part.own for part in chunks(f"Before it. And so.\n\n{code}\nAfter it. And so.", size)
            )


class TestLimits:
    def test_a_document_of_too_many_chunks_is_refused(self):
        text = "A sentence here. " * 100
        count = len(chunks(text, 100))
        assert len(chunks(text, 100, count)) == count
        with pytest.raises(PenstockError) as refused:
            chunks(text, 100, count - 1)
        assert refused.value.code.code == "ETL_DOCUMENT_TOO_LONG"

    def test_an_empty_document_has_no_chunks(self):
        assert chunks("", 100) == []

    def test_openings_without_end_do_not_take_for_ever(self):
        for text in ("<table> " * 20_000, "$$\n" * 20_000, "[" * 20_000, "| a\n" * 20_000, "# \n" * 20_000):
            assert own(chunks(text, 5_000)) == text
