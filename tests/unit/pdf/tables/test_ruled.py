"""Tables with drawn cells."""

from itertools import pairwise

from tests.support.set_pages import SetPage

from penstock.pdf.pages.model import Table, TableKind
from penstock.pdf.pages.tables import find_tables

XS = [40.0, 140.0, 240.0, 340.0]
YS = [100.0, 120.0, 140.0, 160.0]


def grid(table: Table) -> list[list[str | None]]:
    rows: list[list[str | None]] = [[None] * table.columns for _ in range(table.rows)]
    for cell in table.cells:
        rows[cell.row][cell.column] = cell.text
    return rows


def found(page: SetPage) -> list[Table]:
    return find_tables(page.spans, page.rulings, page.size)


def only(page: SetPage) -> Table:
    (table,) = found(page)
    return table


def full_page() -> SetPage:
    page = SetPage()
    page.rule_grid(XS, YS)
    page.write_rows(
        [45, 145, 245], 106, [["Pan", "Size", "Price"], ["Wok", "30 cm", "12.50"], ["Pot", "5 l", "20"]], 20
    )
    return page


class TestDrawnCells:
    def test_each_word_is_in_the_cell_it_stands_in(self):
        table = only(full_page())
        assert table.kind is TableKind.RULED
        assert grid(table) == [["Pan", "Size", "Price"], ["Wok", "30 cm", "12.50"], ["Pot", "5 l", "20"]]

    def test_a_cell_tells_its_box_and_its_spans(self):
        page = full_page()
        cell = next(each for each in only(page).cells if each.text == "30 cm")
        texts = {span.id: span.text for span in page.spans}
        assert [texts[each] for each in cell.spans] == ["30", "cm"]
        assert (cell.box.x0 * 512, cell.box.y0 * 1024, cell.box.x1 * 512, cell.box.y1 * 1024) == (140, 120, 240, 140)

    def test_several_lines_of_one_cell_are_one_text(self):
        page = SetPage()
        page.rule_grid(XS, [100, 140, 160, 180])
        page.write_rows([45, 145, 245], 106, [["Name of", "Size", "Price"], ["the pan", "", ""]], 12)
        page.write_rows([45, 145, 245], 146, [["Wok", "30", "12"], ["Pot", "5", "20"]], 20)
        assert grid(only(page))[0] == ["Name of the pan", "Size", "Price"]

    def test_a_cell_over_two_columns_and_one_over_two_rows_are_merged(self):
        page = SetPage()
        for y in YS:
            page.rule(140 if y == 120 else 40, y, 340, y)
        for x in XS:
            page.rule(x, 120 if x == 240 else 100, x, 160)
        page.write(45, 116, "Pan")
        page.write(200, 106, "Sizes in cm")
        page.write_rows([145, 245], 126, [["wide", "high"], ["30", "12"]], 20)
        page.write(45, 146, "Wok")
        cells = {cell.text: (cell.row_span, cell.column_span) for cell in only(page).cells}
        assert cells["Pan"] == (2, 1)
        assert cells["Sizes in cm"] == (1, 2)

    def test_open_sides_and_double_lines_are_no_columns(self):
        page = SetPage()
        for y in YS:
            page.rule(40, y, 340, y)
            page.rule(40, y + 3, 340, y + 3)
        for x in (140, 143, 240, 243):
            page.rule(x, 100, x, 163)
        page.write_rows([45, 150, 250], 108, [["Pan", "Size", "Price"], ["Wok", "30", "12"], ["Pot", "5", "20"]], 20)
        assert grid(only(page)) == [["Pan", "Size", "Price"], ["Wok", "30", "12"], ["Pot", "5", "20"]]

    def test_lines_drawn_in_pieces_are_lines(self):
        page = full_page()
        page.rulings.clear()
        for x in XS:
            for y0, y1 in pairwise(YS):
                page.rule(x, y0, x, y1 - 1)
        for y in YS:
            for x0, x1 in pairwise(XS):
                page.rule(x0 + 0.5, y, x1 - 0.5, y + 0.4)
        assert grid(only(page))[2] == ["Pot", "5 l", "20"]

    def test_rows_without_rulings_between_are_told_by_their_figures(self):
        page = SetPage()
        page.rule_grid([40, 140, 240, 340], [100, 120, 180])
        page.write_rows([45, 145, 245], 106, [["Country", "Fund", "Total"]])
        page.write_rows(
            [45, 145, 245],
            126,
            [["Cyprus", "0.2", "1.5"], ["Malta", "0.3", "1.7"], ["Aid", "", "0.9"], ["Sum", "0.5", "4.1"]],
            13,
        )
        assert grid(only(page))[3] == ["Aid", "", "0.9"]

    def test_an_empty_cell_in_the_first_column_does_not_end_the_header_nor_begin_the_data(self):
        corner = SetPage()
        corner.rule_grid(XS, YS)
        corner.write_rows(
            [45, 145, 245], 106, [["", "Size", "Price"], ["Wok", "30 cm", "12.50"], ["Pot", "5 l", "20"]], 20
        )
        words = SetPage()
        words.rule_grid(XS, YS)
        words.write_rows(
            [45, 145, 245], 106, [["Pan", "Size", "Colour"], ["Wok", "large", "red"], ["", "small", "blue"]], 20
        )
        assert [only(page).header_rows for page in (corner, words)] == [1, 1]

    def test_rows_above_the_first_figures_are_header_and_a_table_that_goes_on_has_none(self):
        assert only(full_page()).header_rows == 1
        page = SetPage()
        page.rule_grid(XS, YS)
        page.write_rows(
            [45, 145, 245], 106, [["38", "Chain", "Piece"], ["39", "Cable", "Set"], ["40", "Plug", "Pair"]], 20
        )
        assert only(page).header_rows == 0

    def test_chinese_has_no_spaces_put_in(self):
        page = SetPage()
        page.rule_grid(XS[:3], [100, 130, 150])
        page.write_rows([45, 145], 104, [["产品名称", "价格"], ["及型号", "（元）"]], 12)
        page.write_rows([45, 145], 136, [["电压力锅", "399"]])
        assert grid(only(page)) == [["产品名称及型号", "价格（元）"], ["电压力锅", "399"]]

    def test_two_tables_on_a_page_are_two(self):
        page = full_page()
        page.rule_grid(XS, [y + 200 for y in YS])
        page.write_rows([45, 145, 245], 306, [["Lid", "Size", "Price"], ["Cup", "1", "2"], ["Mug", "3", "4"]], 20)
        assert [grid(table)[0][0] for table in found(page)] == ["Pan", "Lid"]


class TestDrawings:
    def test_a_frame_around_a_page_of_text_is_no_table(self):
        page = SetPage()
        page.rule_grid([20, 492], [20, 60, 1000])
        page.rule(100, 20, 100, 60)
        page.write_prose(40, 80, 40)
        page.write(30, 30, "Acme")
        page.write(110, 30, "Annual report")
        assert found(page) == []

    def test_the_scale_and_grid_lines_of_a_chart_are_no_table(self):
        page = SetPage()
        page.rule_grid([30, 400], [90, 320])
        for number in range(6):
            page.rule(60, 104 + 30 * number, 390, 104 + 30 * number)
            page.write(40, 100 + 30 * number, str(500 - 100 * number))
        page.rule(60, 100, 60, 260)
        page.write_rows([70, 150, 230, 310], 280, [["2001", "2002", "2003", "2004"]])
        assert found(page) == []

    def test_a_table_inside_a_frame_is_found(self):
        page = full_page()
        page.rule_grid([20, 492], [20, 1000])
        assert grid(only(page))[1] == ["Wok", "30 cm", "12.50"]

    def test_a_page_of_countless_lines_and_words_is_not_looked_through(self):
        page = SetPage()
        for number in range(600):
            page.rule(0, number * 1.5, 500, number * 1.5)
            page.rule(number * 0.8, 0, number * 0.8, 1000)
        for number in range(9000):
            page.write(number % 90 * 5.0, number // 90 * 9.0, "a")
        assert found(page) == []
