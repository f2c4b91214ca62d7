"""What is a heading: larger, bolder or numbered, and never by the chance of how high a recognised line came out."""

import pytest
from tests.support.sheets import Sheet

from penstock.pdf.pages.model import Block, BlockKind, Origin

HEADING, PARAGRAPH = BlockKind.HEADING, BlockKind.PARAGRAPH


class TestHeadings:
    BODY = (
        "The text of the page is set in letters of ten points and",
        "there is a good deal of it, so that it is the usual size.",
    )

    def heading(self, words: str, size: float = 10, **more: object) -> Block:
        sheet = Sheet()
        sheet.lines(50, 60, list(self.BODY))
        sheet.text(50, 110, words, size, **more)
        sheet.lines(50, 140, [*self.BODY, *self.BODY])
        return sheet.blocks()[1]

    @pytest.mark.parametrize(
        ("words", "size", "bold", "level"),
        [
            ("Our products", 20, False, 1),
            ("Our products", 14, False, 2),
            ("Our products", 12, False, 3),
            ("Our products", 10, True, 4),
            ("1.2 Sizes and weights", 10, False, 3),
            ("1.2.3 Sizes and weights", 10, True, 4),
            ("第三章 产品说明", 10, False, 1),
            ("一、产品说明", 10, False, 2),
            ("（二）产品说明", 10, False, 3),
            ("2. Sizes", 14, False, 2),
        ],
    )
    def test_by_size_weight_or_number(self, words: str, size: float, bold: bool, level: int):
        block = self.heading(words, size, is_bold=bold)
        assert (block.kind, block.text, block.level) == (HEADING, words, level)

    @pytest.mark.parametrize(
        ("words", "size"),
        [
            ("¥ 1,299.00", 20),
            ("一、水泵的流量应当符合下列规定。", 10),
            ("Figure 3: Weights", 10),
            ("1.2 kg of it, dry,", 10),
            ("• Sizes", 14),
        ],
    )
    def test_what_is_none(self, words: str, size: float):
        assert self.heading(words, size, is_bold=size == 10).kind is not HEADING

    def test_a_title_over_two_lines_is_one(self):
        sheet = Sheet()
        sheet.lines(50, 60, ["A general catalogue of our pumps and", "valves"], size=18)
        sheet.lines(50, 140, [*self.BODY, *self.BODY])
        assert sheet.told()[0] == (HEADING, "A general catalogue of our pumps and valves")

    def test_bold_words_inside_a_paragraph_are_none(self):
        sheet = Sheet()
        lines = [
            "The paragraph begins here and goes on in the next line",
            "which is bold from its beginning to its very end, and",
            "is followed by one that is not.",
        ]
        for row, line in enumerate(lines):
            sheet.text(50, 60 + 13 * row, line, is_bold=row == 1)
        assert sheet.told() == [(PARAGRAPH, " ".join(lines))]

    def test_letters_that_most_of_the_page_is_set_in_are_no_headings(self):
        sheet = Sheet()
        for row in range(12):
            sheet.text(50, 60 + 50 * row, f"Pump number {row} here", 14)
            sheet.text(50, 80 + 50 * row, "small words of it here", 8)
        assert HEADING not in [kind for kind, _ in sheet.told()]


class TestRecognisedLines:
    """Heights as a recogniser gave them for letters of one size: low where no letter goes up or down."""

    PLAIN = (
        (11.0, "we own a cow or a crane"),
        (13.4, "no man can worry us as we can worry"),
        (11.0, "some women saw a rare vase on a cross"),
        (11.8, "we saw no menu now"),
        (16.9, "Happy people jig (by type) quickly"),
        (11.0, "as soon as we saw a crane"),
    )

    @staticmethod
    def told(lines: list[tuple[float, str, float]]) -> list[tuple[BlockKind, str]]:
        """Of lines with their heights and the width of a letter."""
        sheet = Sheet()
        for row, (height, words, letter) in enumerate(lines):
            sheet.text(50, 60 + 40 * row, words, height, width=letter * len(words), origin=Origin.OCR)
        return sheet.told()

    def test_plain_lines_have_no_heading_whatever_their_heights(self):
        told = self.told([(height, words, 7.0) for height, words in self.PLAIN])
        assert [kind for kind, _ in told] == [PARAGRAPH] * 6

    @pytest.mark.parametrize("at", [1.05, 1.1, 1.2, 1.28])
    def test_a_line_a_little_higher_and_wider_than_the_others_is_none(self, at: float):
        lines = [(height, words, 7.0) for height, words in self.PLAIN]
        assert HEADING not in [kind for kind, _ in self.told([(11.8 * at, "Store notes of May", 7.0 * at), *lines])]

    def test_heights_that_run_on_in_small_steps_are_of_one_size(self):
        rising = [(10.0 * 1.07**step, f"Line that is numbered {step}", 7.0 * 1.07**step) for step in range(8)]
        usual = [(10.0, "and many words of the usual height", 7.0)] * 9
        assert HEADING not in [kind for kind, _ in self.told([*usual, *rising])]

    def test_what_is_clearly_higher_and_wider_is_one(self):
        lines = [(height, words, 7.0) for height, words in self.PLAIN]
        assert self.told([(24.0, "Store notes of May", 11.0), *lines])[0] == (HEADING, "Store notes of May")
