"""Markdown that says what the page said, and nothing that the page could make it say."""

import html
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.sheets import Sheet, box

from penstock.pdf.pages.escaping import block_text, cell_text, heading_text, running_text
from penstock.pdf.pages.furniture import RunningHeads, edges_of
from penstock.pdf.pages.joining import tidy
from penstock.pdf.pages.markdown import document_markdown, markdown_pieces, page_markdown, stream_markdown
from penstock.pdf.pages.model import Block, BlockKind, Box, Cell, Image, Page, Table

NASTY = st.text(st.sampled_from("ab1 *_`[]()<>&#;:~|\\!-+=.\n/script\u00e9水"), max_size=60)


def page_of(*blocks: Block) -> Page:
    return Page(1, 600, 800, blocks=list(blocks))


def written(kind: BlockKind, text: str, level: int = 0) -> str:
    return page_markdown(page_of(Block(kind, Box(0, 0, 1, 1), text, level)))


def unescaped(markdown: str) -> str:
    """As CommonMark reads it: unlike in HTML, an entity ends with a semicolon."""
    return re.sub(r"\\([!-/:-@\[-`{-~])|(&#?\w+;)", lambda found: found[1] or html.unescape(found[2]), markdown)


class TestText:
    @pytest.mark.parametrize(
        "text",
        [
            "5 * 3 = 15",
            "snake_case_name",
            "a < b and b > a",
            "R&D",
            "costs $5 ~ approx",
            "[1] see note",
            "50% (off)",
            "C:\\files",
            "#hash",
        ],
    )
    def test_plain_text_stays_plain(self, text: str):
        assert block_text(text) == text

    @pytest.mark.parametrize(
        ("text", "markdown"),
        [
            ("# not a heading", "\\# not a heading"),
            ("1. not a list", "1\\. not a list"),
            ("- not a list", "\\- not a list"),
            ("> not a quotation", "\\> not a quotation"),
            ("--- ", "\\---"),
            ("*bold*", "\\*bold\\*"),
            ("_it_", "\\_it\\_"),
            ("`code`", "\\`code\\`"),
            ("[a](b)", "\\[a](b)"),
            ("10~20, 30~40", "10\\~20, 30\\~40"),
            ("a \\* b", "a \\\\\\* b"),
            ("&lt;", "&amp;lt;"),
        ],
    )
    def test_what_would_change_its_meaning_is_escaped(self, text: str, markdown: str):
        assert block_text(text) == markdown

    @given(NASTY)
    @settings(max_examples=200, deadline=None)
    @example("&#1")
    @example("a&amp;b &#35;")
    def test_it_reads_as_it_was(self, text: str):
        assert unescaped(running_text(text)) == tidy(text)

    @given(NASTY)
    @settings(max_examples=200, deadline=None)
    @example("<script>alert(1)</script>")
    @example("<!-- page 9 -->")
    def test_no_tag_and_no_comment_comes_from_a_document(self, text: str):
        for markdown in (block_text(text), heading_text(text), cell_text(text).replace("<br>", " ")):
            assert not re.search(r"<[a-zA-Z/!?]", markdown)
            assert "\n" not in markdown

    def test_half_a_letter_does_not_stop_the_writing(self):
        assert running_text("a\ud83db").encode() == "a\ufffdb".encode()

    def test_very_long_lines_of_marks_take_no_time(self):
        for text in (
            "[" * 50_000,
            "*" * 50_000,
            "_a" * 30_000,
            "~" * 50_000,
            "<" * 50_000,
            "&a" * 30_000,
            "- " * 30_000,
        ):
            assert unescaped(block_text(text)) == tidy(text)


class TestBlocks:
    def test_headings_lists_and_paragraphs(self):
        kinds = [
            Block(BlockKind.HEADING, Box(0, 0, 1, 1), "Pumps #", 2),
            Block(BlockKind.PARAGRAPH, Box(0, 0, 1, 1), "Text."),
            Block(BlockKind.LIST_ITEM, Box(0, 0, 1, 1), "• one"),
            Block(BlockKind.LIST_ITEM, Box(0, 0, 1, 1), "2) two"),
            Block(BlockKind.LIST_ITEM, Box(0, 0, 1, 1), "（三）three"),
            Block(BlockKind.FURNITURE, Box(0, 0, 1, 1), "7"),
            Block(BlockKind.PARAGRAPH, Box(0, 0, 1, 1), "End."),
        ]
        assert page_markdown(page_of(*kinds)) == "## Pumps \\#\n\nText.\n\n- one\n2) two\n- （三）three\n\nEnd."

    def test_a_picture_is_named_by_its_key_or_its_id(self):
        page = page_of(
            Block(BlockKind.IMAGE, Box(0, 0, 1, 1), ref="i1"), Block(BlockKind.IMAGE, Box(0, 0, 1, 1), ref="i2")
        )
        page.images = [Image("i1", Box(0, 0, 0.5, 0.5)), Image("i2", Box(0, 0, 0.5, 0.5), key="etl/7/a (1).png")]
        assert page_markdown(page) == "![i1](i1)\n\n![i2](etl/7/a%20%281%29.png)"

    def test_ornaments_are_left_out(self):
        page = page_of(Block(BlockKind.IMAGE, Box(0, 0, 1, 1), ref="i1"))
        page.images = [Image("i1", Box(0, 0, 0.9, 0.001))]
        assert page_markdown(page) == ""


def table_of(cells: list[Cell], rows: int, columns: int, header_rows: int = 0) -> str:
    table = Table("t1", Box(0, 0, 1, 1), rows, columns, cells, header_rows=header_rows)
    page = page_of(Block(BlockKind.TABLE, table.box, ref="t1"))
    page.tables = [table]
    return page_markdown(page)


def cell(row: int, column: int, text: str, row_span: int = 1, column_span: int = 1) -> Cell:
    return Cell(
        row, column, text, Box(0.1 * column, 0.1 * row, 0.1 * column + 0.1, 0.1 * row + 0.1), row_span, column_span
    )


class TestTables:
    def test_pipes_and_line_breaks_stay_in_their_cell(self):
        cells = [cell(0, 0, "a|b"), cell(0, 1, "c\nd"), cell(1, 0, "1 \\| 2"), cell(1, 1, "<b>x</b>")]
        assert table_of(cells, 2, 2, 1) == "| a\\|b | c<br>d |\n| --- | --- |\n| 1 \\\\\\| 2 | &lt;b>x&lt;/b> |"

    def test_a_merged_cell_says_its_text_once(self):
        cells = [
            cell(0, 0, "Kind"),
            cell(0, 1, "Name"),
            cell(1, 0, "Pump", row_span=2),
            cell(1, 1, "A"),
            cell(2, 1, "B"),
        ]
        assert table_of(cells, 3, 2, 1) == "| Kind | Name |\n| --- | --- |\n| Pump | A |\n|  | B |"

    def test_several_head_rows_become_one(self):
        cells = [
            cell(0, 0, "Sales in 2026", column_span=3),
            cell(1, 0, "Name", row_span=2),
            cell(1, 1, "Sales", column_span=2),
            cell(2, 1, "May"),
            cell(2, 2, "June"),
            cell(3, 0, "Pump"),
            cell(3, 1, "1"),
            cell(3, 2, "2"),
        ]
        head = "| Sales in 2026 / Name | Sales / May | Sales / June |"
        assert table_of(cells, 4, 3, 3) == f"{head}\n| --- | --- | --- |\n| Pump | 1 | 2 |"

    def test_a_first_row_that_names_its_columns_is_the_head(self):
        cells = [cell(0, 0, "Name"), cell(0, 1, "Price"), cell(1, 0, "Pump"), cell(1, 1, "9.50")]
        assert table_of(cells, 2, 2).startswith("| Name | Price |\n| --- | --- |\n")

    def test_a_table_without_head_gets_an_empty_one(self):
        cells = [cell(0, 0, "Pump"), cell(0, 1, "9.50"), cell(1, 0, "Valve"), cell(1, 1, "3.50")]
        assert table_of(cells, 2, 2) == "|  |  |\n| --- | --- |\n| Pump | 9.50 |\n| Valve | 3.50 |"

    def test_pictures_in_cells_are_in_the_table(self):
        sheet = Sheet()
        sheet.table(50, 110, [["name", "picture"], ["pump", ""]], header_rows=1)
        sheet.image(131, 125, 159, 137)
        sheet.page.images[0].box = box(131, 121, 159, 137)
        sheet.blocks()
        assert page_markdown(sheet.page) == "| name | picture |\n| --- | --- |\n| pump | ![i1](i1) |"

    @given(st.lists(st.lists(NASTY, min_size=3, max_size=3), min_size=1, max_size=5))
    @settings(max_examples=100, deadline=None)
    def test_every_row_is_one_line_with_all_its_columns(self, texts: list[list[str]]):
        cells = [cell(row, column, text) for row, line in enumerate(texts) for column, text in enumerate(line)]
        lines = table_of(cells, len(texts), 3).split("\n")
        assert len(lines) in (len(texts) + 1, len(texts) + 2)
        for line in lines:
            assert len(re.findall(r"(?:\\.|[^|\\])+", line)) == 3
            assert re.sub(r"\\.", "", line).count("|") == 4


class TestDocuments:
    @staticmethod
    def pages() -> list[Page]:
        pages = []
        for number in range(1, 5):
            sheet = Sheet(number)
            sheet.text(50, 30, "Pumps and valves")
            sheet.text(50, 200, f"The text of page {number}.")
            sheet.blocks()
            pages.append(sheet.page)
        return [*pages, Page(5, 600, 800)]

    def test_pages_are_marked(self):
        pages = self.pages()[3:]
        assert document_markdown(pages) == (
            "<!-- page 4 -->\n\nPumps and valves\n\nThe text of page 4.\n\n<!-- page 5 -->\n\n"
        )

    async def test_the_pieces_are_the_document_however_they_come(self):
        async def slowly():
            for page in self.pages():
                yield page

        whole = document_markdown(self.pages())
        assert "".join(markdown_pieces(self.pages())) == whole
        assert "".join([piece async for piece in stream_markdown(slowly())]) == whole

    def test_running_heads_are_left_out_after_the_first(self):
        heads = RunningHeads()
        for page in self.pages():
            heads.add(edges_of(page))
        assert document_markdown(self.pages(), heads).count("Pumps and valves") == 1
