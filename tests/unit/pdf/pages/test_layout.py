"""The blocks of a page: what a reader reads, in the order it is read."""

import copy
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.sheets import HEIGHT, WIDTH, Sheet, box

from penstock.pdf.pages.layout import arrange
from penstock.pdf.pages.model import BlockKind, Box, Cell, Image, Origin, Page, Span, Table

HEADING, PARAGRAPH, ITEM = BlockKind.HEADING, BlockKind.PARAGRAPH, BlockKind.LIST_ITEM
TABLE, IMAGE, FURNITURE = BlockKind.TABLE, BlockKind.IMAGE, BlockKind.FURNITURE

SHARE = st.floats(0, 1, allow_nan=False)
WORDS = st.sampled_from(
    ["pump", "Price:", "12.50", "•", "1.", "第三章 总则", "水泵", "مضخة", "-", "well-", "a b c", " ", "3", "…."]
)


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    x, y = draw(SHARE), draw(SHARE)
    return Box(x, y, min(1.0, x + draw(st.floats(0, 0.5))), min(1.0, y + draw(st.floats(0, 0.2))))


@st.composite
def pages(draw: st.DrawFn) -> Page:
    spans = [
        Span(
            f"s{at}",
            draw(WORDS),
            draw(boxes()),
            size=draw(st.sampled_from([0.0, 8.0, 10.0, 24.0])),
            is_bold=draw(st.booleans()),
        )
        for at in range(draw(st.integers(0, 25)))
    ]
    ids = [span.id for span in spans]
    tables = []
    for at in range(draw(st.integers(0, 2))):
        frame = draw(boxes())
        named = draw(st.lists(st.sampled_from([*ids, "s999"]), max_size=5))
        tables.append(Table(f"t{at}", frame, 1, 1, [Cell(0, 0, draw(WORDS), frame, spans=named)]))
    images = [Image(f"i{at}", draw(boxes())) for at in range(draw(st.integers(0, 4)))]
    return Page(1, draw(st.sampled_from([0.0, 595.0])), 842.0, spans=spans, tables=tables, images=images)


class TestNothingIsLost:
    @given(pages())
    @settings(max_examples=120, deadline=None)
    def test_every_span_table_and_picture_is_somewhere_once(self, page: Page):
        arrange(page)
        assert sorted(id_ for block in page.blocks for id_ in block.spans) == sorted(span.id for span in page.spans)
        assert sorted(block.ref for block in page.blocks if block.kind is TABLE) == sorted(
            table.id for table in page.tables
        )
        pictures = [block.ref for block in page.blocks if block.kind is IMAGE]
        assert len(pictures) == len(set(pictures))

    @given(pages())
    @settings(max_examples=80, deadline=None)
    def test_every_letter_of_a_text_block_is_in_its_text(self, page: Page):
        arrange(page)
        spans = {span.id: span for span in page.spans}
        for block in page.blocks:
            if block.kind not in (TABLE, IMAGE):
                said = "".join(letter for id_ in block.spans for letter in spans[id_].text if letter.isalnum())
                assert "".join(filter(str.isalnum, block.text)) == said

    @given(pages())
    @settings(max_examples=40, deadline=None)
    def test_twice_gives_the_same(self, page: Page):
        again = copy.deepcopy(page)
        arrange(page)
        arrange(again)
        arrange(again)
        assert again.blocks == page.blocks

    @given(st.floats(-0.02, 0.02), st.floats(-0.02, 0.02))
    @settings(max_examples=40, deadline=None)
    def test_where_the_page_begins_does_not_matter(self, right: float, down: float):
        still, moved = _article(), _article()
        for thing in (*moved.page.spans, *moved.page.images):
            thing.box = Box(thing.box.x0 + right, thing.box.y0 + down, thing.box.x1 + right, thing.box.y1 + down)
        assert moved.told() == still.told()


_LEFT = [
    "The left column begins here and is full of",
    "words that go on to the very edge of it and",
    "then some more until it ends with a point.",
]


def _article() -> Sheet:
    """A title over two columns, a picture in the left one, a subtitle in the right one."""
    sheet = Sheet()
    sheet.text(150, 100, "How pumps are made in our works", 20)
    sheet.lines(50, 150, _LEFT)
    sheet.image(50, 200, 260, 300)
    sheet.lines(50, 320, ["Below the picture the left column goes on", "for two more lines, which is quite enough."])
    sheet.lines(320, 156, ["The right column comes second although it", "stands as high as the first one on the page."])
    sheet.text(320, 200, "Of valves", 13)
    sheet.lines(
        320, 226, ["Valves are told of below their own heading", "and this is the last line of the whole page."]
    )
    return sheet


class TestReadingOrder:
    def test_a_title_then_column_by_column(self):
        assert _article().told() == [
            (HEADING, "How pumps are made in our works"),
            (PARAGRAPH, " ".join(_LEFT)),
            (IMAGE, "i1"),
            (PARAGRAPH, "Below the picture the left column goes on for two more lines, which is quite enough."),
            (
                PARAGRAPH,
                "The right column comes second although it stands as high as the first one on the page.",
            ),
            (HEADING, "Of valves"),
            (PARAGRAPH, "Valves are told of below their own heading and this is the last line of the whole page."),
        ]

    def test_three_columns_under_wide_text_and_over_wide_text(self):
        sheet = Sheet()
        wide = "A line of text that runs over the whole width of the page, from the left margin to the right one and on"
        sheet.lines(50, 80, [wide, wide])
        for column in range(3):
            sheet.lines(50 + 175 * column, 130, [f"column {column} line {line} is full of it" for line in range(6)])
        sheet.lines(50, 230, [wide, wide])
        texts = sheet.texts()
        assert [text[:8] for text in texts] == ["A line o", "column 0", "column 1", "column 2", "A line o"]
        assert "line 0" in texts[1]
        assert "line 5" in texts[1]

    def test_a_short_heading_between_two_parts_in_columns_parts_them(self):
        sheet = Sheet()
        for top, part in ((80, "one"), (200, "two")):
            for x, side in ((50, "left"), (320, "right")):
                sheet.lines(x, top, [f"{part} {side} {line} with words to fill the line" for line in range(5)])
        sheet.text(50, 172, "Second part", 14)
        assert [text[:8] for text in sheet.texts()] == ["one left", "one righ", "Second p", "two left", "two righ"]

    def test_labels_are_read_with_their_values(self):
        sheet = Sheet()
        for row, (label, value) in enumerate(
            [("Name:", "Pump"), ("Weight:", "12 kg"), ("Colour:", "blue"), ("Price:", "9.50")]
        ):
            sheet.text(50, 100 + 20 * row, label)
            sheet.text(300, 100 + 20 * row, value)
        assert sheet.texts() == ["Name: Pump", "Weight: 12 kg", "Colour: blue", "Price: 9.50"]

    def test_cards_in_rows_are_read_row_by_row_and_card_by_card(self):
        sheet = Sheet()
        for row in range(2):
            for column in range(3):
                x, y, name = 50 + 180 * column, 80 + 260 * row, f"{row}{column}"
                sheet.image(x, y, x + 120, y + 120)
                sheet.text(x, y + 130, f"Pump {name}")
                sheet.text(x, y + 146, f"costs {name}.50")
        order = [text for text in sheet.texts() if text.startswith("Pump")]
        assert [text[5:7] for text in order] == ["00", "01", "02", "10", "11", "12"]

    def test_a_picture_stays_beside_its_table(self):
        sheet = Sheet()
        for row in range(3):
            sheet.image(50, 80 + 100 * row, 150, 160 + 100 * row)
            sheet.table(200, 80 + 100 * row, [["name", "price"], [f"pump {row}", f"{row}.50"]])
        assert sheet.texts() == ["i1", "t1", "i2", "t2", "i3", "t3"]

    def test_a_sidebar_does_not_cut_into_the_text(self):
        sheet = Sheet()
        sheet.lines(50, 80, [f"main text line {line} which is as wide as the main column is" for line in range(14)])
        sheet.lines(430, 87, ["A note in the margin", "of three short lines", "in a smaller letter."], size=8)
        texts = sheet.texts()
        assert len(texts) == 2
        assert texts[0].count("main text") == 14

    def test_bullets_set_apart_belong_to_their_items(self):
        sheet = Sheet()
        for row in range(4):
            sheet.text(50, 100 + 30 * row, "•")
            sheet.lines(80, 100 + 30 * row, [f"item {row} is long enough to be broken into", "a second line."])
        assert [text[:8] for text in sheet.texts()] == ["• item 0", "• item 1", "• item 2", "• item 3"]

    def test_a_page_of_contents_is_read_along_its_dots(self):
        sheet = Sheet()
        for row, title in enumerate(["Pumps", "Valves and more", "Pipes", "Index of it"]):
            sheet.text(50, 100 + 16 * row, title)
            for x in range(60 + 5 * len(title), 510, 15):
                sheet.text(x, 100 + 16 * row, ".")
            sheet.text(520, 100 + 16 * row, str(row + 3))
        assert len(sheet.texts()) == 4
        assert all(text.replace(" ", "").endswith(f"....{row + 3}") for row, text in enumerate(sheet.texts()))

    def test_a_page_scanned_at_an_angle_has_straight_lines(self):
        sheet = Sheet()
        slope = math.tan(math.radians(1.2))
        words = [f"w{line}{word}" + "x" * (line * 5 + word * 7 % 11 % 9) for line in range(12) for word in range(8)]
        for line in range(12):
            x = 50.0
            for word in words[8 * line : 8 * line + 8]:
                sheet.text(x, 100 + 15 * line + slope * x, word, 6, origin=Origin.OCR)
                x += 3 * len(word) + 4
        assert " ".join(sheet.texts()).split() == words

    def test_a_short_line_above_a_long_one_at_an_angle_is_a_line_of_its_own(self):
        sheet = Sheet()
        for text, width, top, bottom in (
            ("长" * 40, 480, 158, 183),
            ("保养。", 40, 180, 194),
            ("面" * 40, 480, 186, 211),
        ):
            sheet.page.spans.append(Span(text[0], text, box(42, top, 42 + width, bottom), Origin.OCR, size=12))
        assert "".join(sheet.texts()) == "长" * 40 + "保养。" + "面" * 40


class TestParagraphs:
    def test_a_word_broken_over_two_lines_is_made_whole(self):
        sheet = Sheet()
        sheet.lines(50, 100, ["The manufac-", "ture of well-", "Known goods"])
        assert sheet.texts() == ["The manufacture of well-Known goods"]

    def test_chinese_lines_are_joined_without_spaces(self):
        sheet = Sheet()
        sheet.lines(50, 100, ["本公司生产各种水泵和阀门并且", "出口到世界各地，年产量达到100", "万台。"])
        assert sheet.texts() == ["本公司生产各种水泵和阀门并且出口到世界各地，年产量达到100万台。"]

    def test_an_indented_line_begins_a_paragraph(self):
        sheet = Sheet()
        sheet.lines(70, 100, ["The first paragraph is indented as in books"])
        sheet.lines(50, 113, ["and it goes on over the second line to the edge.", "And over the third as well."])
        sheet.lines(70, 139, ["The second paragraph follows without a gap"])
        sheet.lines(50, 152, ["and ends here."])
        assert [text.split(" paragraph")[0] for text in sheet.texts()] == ["The first", "The second"]

    def test_a_gap_begins_a_paragraph(self):
        sheet = Sheet()
        y = sheet.lines(
            50, 100, ["One line of the first paragraph of this page", "and another one, which is full too, all of it"]
        )
        sheet.lines(50, y + 10, ["One line of the second paragraph of this page", "and the last line."])
        assert len(sheet.texts()) == 2

    def test_a_line_ended_on_purpose_ends_the_paragraph(self):
        sheet = Sheet()
        sheet.lines(50, 100, ["Width 35 cm", "Density from 45 grams to the square metre, or more", "White"])
        assert sheet.texts()[0] == "Width 35 cm"

    def test_a_number_that_only_happens_to_begin_a_line_makes_no_list(self):
        sheet = Sheet()
        sheet.lines(50, 100, ["The results of the year are told in detail in part", "3. of the report, which is long."])
        assert [kind for kind, _ in sheet.told()] == [PARAGRAPH]

    @pytest.mark.parametrize("mark", ["• ", "- ", "1. ", "2) ", "a) ", "（1）", "①", "一、", "1、"])
    def test_items_of_a_list(self, mark: str):
        sheet = Sheet()
        sheet.lines(50, 100, [f"{mark}水泵及其配件说明，", f"{mark}阀门及其配件说明，", f"{mark}管道及其配件说明。"])
        assert [kind for kind, _ in sheet.told()] == [ITEM] * 3

    def test_a_superscript_stays_in_its_line(self):
        sheet = Sheet()
        sheet.text(50, 100, "An area of 12 m")
        sheet.text(125, 98, "2", 6)
        sheet.text(133, 100, "is enough")
        assert sheet.texts() == ["An area of 12 m2 is enough"]

    def test_vertical_chinese_is_read_from_the_right(self):
        sheet = Sheet()
        for column, words in enumerate(["床前明月光", "疑是地上霜", "举头望明月"]):
            sheet.page.spans.append(
                Span(f"s{column + 1}", words, box(400 - 20 * column, 100, 412 - 20 * column, 164), size=12)
            )
        assert "".join(sheet.texts()) == "床前明月光疑是地上霜举头望明月"

    def test_words_from_the_right_keep_the_order_of_the_file(self):
        sheet = Sheet()
        for at, word in enumerate(["مضخة", "مياه", "صناعية"]):
            sheet.text(400 - 60 * at, 100, word, width=50)
        assert sheet.texts() == ["مضخة مياه صناعية"]


class TestTables:
    def test_the_words_of_a_table_are_only_in_the_table(self):
        sheet = Sheet()
        sheet.text(50, 80, "Above the table stands a line of text.")
        table = sheet.table(50, 110, [["name", "price"], ["pump", "9.50"]])
        sheet.text(50, 160, "Below the table stands another one.")
        blocks = sheet.blocks()
        assert [block.kind for block in blocks] == [PARAGRAPH, TABLE, PARAGRAPH]
        assert blocks[1].ref == table.id
        assert blocks[1].spans == [id_ for cell in table.cells for id_ in cell.spans]

    def test_a_word_in_the_frame_that_no_cell_has_is_told_after_it(self):
        sheet = Sheet()
        sheet.table(50, 110, [["name", "price"], ["pump", ""]])
        sheet.text(140, 126, "stray")
        assert sheet.told() == [(TABLE, "t1"), (PARAGRAPH, "stray")]

    def test_a_word_that_a_cell_says_without_naming_it_is_not_told_twice(self):
        sheet = Sheet()
        table = sheet.table(50, 110, [["name", "price"], ["pump", "9.50"]])
        for cell in table.cells:
            cell.spans = []
        assert sheet.told() == [(TABLE, "t1")]

    def test_a_picture_in_a_cell_is_the_tables(self):
        sheet = Sheet()
        sheet.table(50, 110, [["name", ""], ["pump", ""]])
        sheet.image(132, 111, 158, 123)
        assert sheet.told() == [(TABLE, "t1")]


class TestPictures:
    def test_a_picture_behind_the_text_comes_before_it_and_cuts_nothing(self):
        sheet = Sheet()
        sheet.image(0, 0, WIDTH, HEIGHT)
        sheet.lines(50, 100, ["A paragraph of two lines that lies on the", "picture and is still one paragraph."])
        assert [kind for kind, _ in sheet.told()] == [IMAGE, PARAGRAPH]

    def test_thousands_of_small_pictures_are_no_trouble(self):
        sheet = Sheet()
        sheet.lines(50, 100, [f"line {line} of the text with some words" for line in range(40)])
        for at in range(3000):
            sheet.image(at % 60 * 10, at // 60 * 16, at % 60 * 10 + 4, at // 60 * 16 + 4)
        assert sum(block.kind is IMAGE for block in sheet.blocks()) == 3000


class TestHostilePages:
    @pytest.mark.timeout(60)
    @pytest.mark.parametrize("step", [(0.0, 0.0), (1e-4, 0.0), (0.0, 1e-4), (1e-4, 1e-4)])
    def test_ten_thousand_pieces_anywhere_are_told_once(self, step: tuple[float, float]):
        spans = [
            Span(f"s{at}", "12", Box(at * step[0], at * step[1], at * step[0] + 5e-5, at * step[1] + 5e-5), size=8)
            for at in range(10_000)
        ]
        page = Page(1, WIDTH, HEIGHT, spans=spans)
        arrange(page)
        assert sum(len(block.spans) for block in page.blocks) == 10_000


class TestPageNumbers:
    @pytest.mark.parametrize("words", ["7", "- 7 -", "Page 7 of 12", "第 7 页", "第7页 共12页", "7 / 12", "vii"])
    def test_a_number_in_the_margin_is_furniture(self, words: str):
        sheet = Sheet()
        sheet.lines(50, 100, ["Some text stands on the page,", "well above the number."])
        sheet.text(290, 770, words)
        assert sheet.told()[-1] == (FURNITURE, words)

    def test_the_last_of_a_column_of_numbers_is_not(self):
        sheet = Sheet()
        for row in range(50):
            sheet.text(290, 110 + 13 * row, str(row))
        assert FURNITURE not in [kind for kind, _ in sheet.told()]
