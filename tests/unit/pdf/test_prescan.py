"""From measures to the verdict of the prescan."""

from dataclasses import replace

import pytest
from tests.support.pdfs import RULES

from penstock.pdf import PageMetrics, judge_pages

EMPTY = PageMetrics(1, 595, 842, ink=0.0)
TEXT = PageMetrics(2, 595, 842, text_chars=2000)
SCAN = PageMetrics(3, 595, 842, image_count=1, image_share=1.0)
READ_SCAN = replace(SCAN, number=4, hidden_chars=1500)


class TestBlankPages:
    @pytest.mark.parametrize(
        ("page", "blank"),
        [
            (EMPTY, True),
            (replace(EMPTY, text_chars=2, ink=0.00004), True),  # a page number
            (replace(EMPTY, ink=0.0005), True),  # at the limit
            (replace(EMPTY, ink=0.00051), False),
            (replace(EMPTY, text_chars=10), False),
            (replace(EMPTY, hidden_chars=500), True),  # nothing is seen on it
            (TEXT, False),
            (SCAN, False),
            (READ_SCAN, False),
            (replace(EMPTY, readable=False), False),  # never called blank without having been seen
            (replace(EMPTY, ink=None), False),
        ],
    )
    def test_a_page_is_blank_by_text_ink_and_pictures_together(self, page, blank):
        assert judge_pages([page], RULES).blank_pages == ([1] if blank and page.number == 1 else [])
        assert judge_pages([page], RULES).all_blank is blank

    def test_the_numbers_are_those_of_the_document(self):
        found = judge_pages([EMPTY, TEXT, SCAN, replace(EMPTY, number=4)], RULES)
        assert (found.blank_pages, found.all_blank) == ([1, 4], False)

    def test_no_pages_are_all_blank(self):
        assert judge_pages([], RULES).all_blank


class TestTextCoverage:
    @pytest.mark.parametrize(
        ("pages", "rate"),
        [
            ([TEXT], 1.0),
            ([SCAN], 0.0),
            ([READ_SCAN], 1.0),
            ([TEXT, SCAN], 0.5),
            ([TEXT, EMPTY, EMPTY], 1.0),  # blank pages do not count
            ([replace(TEXT, text_chars=50)], 0.5),
            ([EMPTY], 0.0),
        ],
    )
    def test_it_is_the_mean_of_what_each_written_page_has(self, pages, rate):
        assert judge_pages(pages, RULES).ocr_rate == rate


class TestPenalties:
    def test_a_scan_is_penalised_for_text_and_a_text_for_pictures(self):
        scan, text = judge_pages([SCAN], RULES), judge_pages([TEXT], RULES)
        assert [(each.rule, each.weight) for each in scan.penalties] == [("ocr_rate_low", 0.15)]
        assert [(each.rule, each.weight) for each in text.penalties] == [("no_images", 0.1)]
        assert "0.00" in scan.penalties[0].reason
        assert "0.3" in scan.penalties[0].reason

    def test_they_add_up(self):
        assert judge_pages([EMPTY], RULES).total_penalty == 0.25
        assert judge_pages([TEXT, READ_SCAN], RULES).total_penalty == 0

    def test_pictures_in_patterns_are_pictures(self):
        found = judge_pages([TEXT], RULES, images_in_patterns=3)
        assert (found.image_count, found.penalties) == (3, [])


class TestRawMetrics:
    def test_what_the_verdict_rests_on_is_kept(self):
        pages = [EMPTY, TEXT, SCAN, READ_SCAN, PageMetrics(5, rotation=90, readable=False)]
        assert judge_pages(pages, RULES).raw_metrics == {
            "total_pages": 5,
            "blank_page_count": 1,
            "blank_rate": 0.2,
            "ocr_rate": 0.5,
            "image_count": 2,
            "text_chars": 2000,
            "hidden_chars": 1500,
            "scanned_page_count": 2,
            "rotated_page_count": 1,
            "unreadable_pages": [5],
        }
