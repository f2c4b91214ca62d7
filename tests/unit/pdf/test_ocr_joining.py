"""What the file says and what was recognised become one page: each text once, boxes where the text is seen."""

import math

import pytest

from penstock.pdf.ocr.found import Recognised
from penstock.pdf.ocr.joining import joined, lean_back, once, turn_page, turned_box
from penstock.pdf.pages.model import Block, BlockKind, Box, Cell, Image, Origin, Page, Span, Table
from penstock.pdf.pages.reading import PageDraft


def written(number: int, text: str, *corners: float) -> Span:
    return Span(f"s{number}", text, Box(*corners))


def recognised(number: int, text: str, *corners: float) -> Span:
    return Span(f"s{number}", text, Box(*corners), Origin.OCR, 0.9)


class TestEachTextOnce:
    def test_a_recognised_line_that_is_written_too_is_dropped(self):
        kept = once(
            [written(1, "Total 12", 0.1, 0.1, 0.5, 0.15)], [recognised(1, "Tota1 12", 0.09, 0.095, 0.51, 0.155)]
        )
        assert [span.text for span in kept] == ["Total 12"]

    def test_a_line_written_word_by_word_counts_as_written(self):
        words = [written(1, "Total", 0.1, 0.1, 0.29, 0.15), written(2, "12", 0.31, 0.1, 0.5, 0.15)]
        assert once(words, [recognised(1, "Total 12", 0.1, 0.1, 0.5, 0.15)]) == words

    def test_written_text_that_is_a_part_of_a_recognised_line_gives_way(self):
        kept = once([written(1, "12", 0.4, 0.1, 0.45, 0.15)], [recognised(1, "Total 12 EUR", 0.1, 0.1, 0.6, 0.15)])
        assert [span.text for span in kept] == ["Total 12 EUR"]

    def test_both_stay_where_they_do_not_meet_and_have_ids_of_their_own(self):
        kept = once([written(7, "Head", 0.1, 0.1, 0.5, 0.15)], [recognised(1, "Foot", 0.1, 0.8, 0.5, 0.85)])
        assert [(span.id, span.text) for span in kept] == [("s7", "Head"), ("s8", "Foot")]


class TestJoining:
    def test_rubbish_gives_way_to_what_was_recognised_in_its_place(self):
        page = Page(
            1,
            600,
            800,
            spans=[written(1, "\ue000\ue001\ue002", 0.1, 0.1, 0.5, 0.15), written(2, "Foot", 0.1, 0.9, 0.2, 0.92)],
        )
        draft = PageDraft(page, needs_ocr=[Box(0.05, 0.05, 0.6, 0.2)], garbled=["s1"])
        found = Recognised(600, 800, spans=[recognised(1, "Summe", 0.1, 0.1, 0.5, 0.15)], confidence=0.97)
        made = joined(draft, found, warn_below=0.8)
        assert [(span.text, span.origin) for span in made.spans] == [("Foot", Origin.TEXT), ("Summe", Origin.OCR)]
        assert len({span.id for span in made.spans}) == 2
        assert (made.ocr_share, made.warnings) == (0.5556, [])

    def test_a_page_that_was_hard_to_read_says_so(self):
        draft = PageDraft(Page(1, 600, 800), needs_ocr=[Box(0, 0, 1, 1)])
        assert joined(draft, Recognised(600, 800, confidence=0.6), warn_below=0.8).warnings == ["low_confidence"]


class TestTurning:
    @pytest.mark.parametrize("degrees", [0, 90, 180, 270])
    def test_turned_there_and_back_a_box_is_the_same(self, degrees):
        box = Box(0.1, 0.2, 0.3, 0.6)
        back = turned_box(turned_box(box, degrees), -degrees)
        assert tuple(map(pytest.approx, (back.x0, back.y0, back.x1, back.y1))) == (0.1, 0.2, 0.3, 0.6)

    def test_a_page_on_its_side_stands_up_with_all_that_is_on_it(self):
        # Its head is at the right edge: turned counter-clockwise, the head is at the top.
        page = Page(
            1, 800, 600, spans=[written(1, "Head", 0.9, 0.1, 1.0, 0.9)], images=[Image("i1", Box(0, 0, 0.5, 1))]
        )
        turn_page(page, 90)
        assert (page.width, page.height, page.rotation) == (600, 800, 270)
        assert page.spans[0].box.y1 == pytest.approx(0.1)
        assert page.images[0].box == Box(0, 0.5, 1, 1)


class TestSkew:
    def test_boxes_go_back_to_where_the_text_is_seen(self):
        """Text at the right edge of a page that leans clockwise by two degrees is lower than it would be straight."""
        page = Page(1, 600, 800, spans=[recognised(1, "12", 0.9, 0.5, 1.0, 0.52)])
        page.tables = [Table("t1", Box(0, 0.4, 1, 0.6), 1, 1, [Cell(0, 0, "12", Box(0.9, 0.5, 1.0, 0.52))])]
        page.images = [Image("i1", Box(0, 0, 1, 1))]
        page.blocks = [
            Block(BlockKind.TABLE, Box(0, 0.4, 1, 0.6), ref="t1"),
            Block(BlockKind.IMAGE, Box(0, 0, 1, 1), ref="i1"),
        ]
        lean_back(page, 2.0)
        lower = math.sin(math.radians(2)) * 0.45 * 600 / 800
        for box in (page.spans[0].box, page.tables[0].cells[0].box):
            assert (box.y0 + box.y1) / 2 == pytest.approx(0.51 + lower, abs=0.001)
        assert page.tables[0].box == page.blocks[0].box
        assert page.tables[0].box.y1 > 0.61
        assert page.blocks[1].box == Box(0, 0, 1, 1)
