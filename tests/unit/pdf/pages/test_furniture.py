"""Running heads are told from titles and numbers that mean something, over the pages of a document."""

from tests.support.sheets import Sheet

from penstock.pdf.pages.furniture import RunningHeads, edges_of, mark_furniture
from penstock.pdf.pages.model import BlockKind, Page


def page(number: int, head: str, foot: str = "") -> Page:
    sheet = Sheet(number)
    sheet.text(50, 30, head)
    sheet.lines(
        50, 150, [f"The text of page {number} stands here and is a sentence.", "And here is another line of it."]
    )
    if foot:
        sheet.text(50, 760, foot)
    sheet.blocks()
    return sheet.page


def furniture(pages: list[Page]) -> list[list[str]]:
    return [[block.text for block in page.blocks if block.kind is BlockKind.FURNITURE] for page in pages]


class TestRunningHeads:
    def test_what_comes_again_is_furniture_but_stays_where_it_stands_first(self):
        pages = [page(number, "Pumps and valves") for number in range(1, 6)]
        mark_furniture(pages)
        assert furniture(pages) == [[], *[["Pumps and valves"]] * 4]

    def test_a_line_with_the_pages_number_is_the_same_line(self):
        pages = [page(number, f"Head {number}", f"Catalogue 2026 | {number + 4}") for number in range(1, 6)]
        mark_furniture(pages)
        assert furniture(pages)[3] == ["Head 4", "Catalogue 2026 | 8"]

    def test_other_numbers_make_other_lines(self):
        pages = [page(number, f"Invoice No. {1000 + number * 17}") for number in range(1, 6)]
        mark_furniture(pages)
        assert furniture(pages) == [[]] * 5

    def test_twice_is_not_often(self):
        pages = [page(1, "Pumps"), page(2, "Pumps"), page(3, "Valves")]
        mark_furniture(pages)
        assert furniture(pages) == [[]] * 3

    def test_pages_may_come_in_any_order_and_one_at_a_time(self):
        heads = RunningHeads()
        for number in (3, 1, 4, 2):
            heads.add(edges_of(page(number, "Pumps and valves")))
        told = []
        for number in range(1, 5):
            one = page(number, "Pumps and valves")
            heads.mark(one)
            told.append(one)
        assert furniture(told) == [[], *[["Pumps and valves"]] * 3]

    def test_what_is_remembered_of_a_page_is_small(self):
        sheet = Sheet(1)
        for row in range(60):
            sheet.lines(50, 13.0 * row, [f"A line of a very full page {row} " * 4])
        sheet.blocks()
        assert sum(map(len, edges_of(sheet.page).keys)) < 8000
