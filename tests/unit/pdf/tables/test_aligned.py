"""Tables whose words alone, or with a few level rulings, stand in rows and columns; and what only looks like one."""

from tests.support.set_pages import SetPage
from tests.unit.pdf.tables.test_ruled import found, grid, only

from penstock.pdf.pages.model import TableKind

XS = [40.0, 180.0, 260.0]
ROWS = [["Apples", "12.5", "100"], ["Pears", "8.0", "90"], ["Plums", "7.5", "85"], ["Cherries", "3.1", "20"]]


def with_rows(rows: list[list[str]] = ROWS, xs: list[float] = XS) -> SetPage:
    page = SetPage()
    page.write_rows(xs, 200, rows)
    return page


class TestColumnsWithoutRulings:
    def test_words_in_columns_are_a_table(self):
        table = only(with_rows([["Fruit", "Yield", "Acres"], *ROWS]))
        assert table.kind is TableKind.ALIGNED
        assert table.header_rows == 1
        assert grid(table) == [["Fruit", "Yield", "Acres"], *ROWS]

    def test_figures_set_to_the_right_keep_their_column(self):
        page = SetPage()
        for number, (name, one, two) in enumerate(
            [("Apples", "1,234,567", "5"), ("Pears", "8", "1,000"), ("Plums", "77", "123")]
        ):
            page.write(40, 200 + 12 * number, name)
            page.write(200, 200 + 12 * number, one, right=True)
            page.write(280, 200 + 12 * number, two, right=True)
        assert grid(only(page))[1] == ["Pears", "8", "1,000"]

    def test_a_wrapped_label_is_one_cell(self):
        page = with_rows([["Long-term unemployment", "", ""], ["rate of young people", "5.5", "4.1"], *ROWS])
        assert grid(only(page))[0] == ["Long-term unemployment rate of young people", "5.5", "4.1"]

    def test_a_sub_heading_is_a_row_of_its_own(self):
        page = with_rows([["Berries", "9.9", "55"], ["Stone", "", ""], *ROWS])
        assert grid(only(page))[1] == ["Stone", "", ""]

    def test_an_empty_place_is_an_empty_cell(self):
        page = with_rows([ROWS[0], ["Pears", "", "90"], *ROWS[2:]])
        assert grid(only(page))[1] == ["Pears", "", "90"]

    def test_a_heading_over_two_columns_spans_them(self):
        page = SetPage()
        page.write(215, 188, "Harvest in 2020")
        page.write_rows(XS, 200, [["", "tons", "acres"], *ROWS])
        page.write(40, 200, "Fruit")
        heading = next(cell for cell in only(page).cells if cell.text == "Harvest in 2020")
        assert (heading.column, heading.column_span, heading.row) == (1, 2, 0)

    def test_leaders_are_not_in_the_way(self):
        page = SetPage()
        for number, (name, one, two) in enumerate(ROWS):
            page.write(40, 200 + 12 * number, name + "." * (34 - len(name)))
            page.write(180, 200 + 12 * number, one)
            page.write(260, 200 + 12 * number, two)
        table = only(page)
        assert table.columns == 3
        assert grid(table)[1][1:] == ["8.0", "90"]

    def test_a_currency_sign_on_the_first_row_is_no_column(self):
        page = with_rows()
        page.write(166, 200, "$")
        assert only(page).columns == 3

    def test_caption_and_source_are_not_part_of_it(self):
        page = SetPage()
        page.write(40, 188, "Table 3: Fruit by kind")
        end = page.write_rows(XS, 200, ROWS)
        page.write(40, end, "Source: the ministry of orchards and gardens, 2020, own reckoning of the office")
        assert grid(only(page)) == ROWS

    def test_two_rows_are_a_table_between_rulings_only(self):
        page = with_rows(ROWS[:2])
        assert found(page) == []
        for y in (196, 210, 224):
            page.rule(36, y, 300, y)
        assert grid(only(page)) == ROWS[:2]

    def test_a_slightly_skewed_and_trembling_scan_is_read_alike(self):
        page = SetPage()
        for number, row in enumerate([["Fruit", "Yield", "Acres"], *ROWS, *ROWS]):
            for column, (x, text) in enumerate(zip(XS, row, strict=True)):
                off = ((number * 7 + column * 5) % 3 - 1) * 0.7
                page.write(x + off, 200 + 13 * number + x * 0.006 + off, text)
        assert grid(only(page)) == [["Fruit", "Yield", "Acres"], *ROWS, *ROWS]

    def test_a_table_beside_running_text_is_found_without_it(self):
        page = SetPage()
        page.write_prose(40, 100, 8, 7)
        page.write_prose(280, 100, 30, 7)
        page.write_rows([40, 120, 170], 200, [["Fruit", "tons", "acres"], *ROWS], 10)
        assert grid(only(page)) == [["Fruit", "tons", "acres"], *ROWS]


class TestWhatIsNoTable:
    def test_running_text(self):
        page = SetPage()
        page.write_prose(40, 100, 30, 18)
        assert found(page) == []

    def test_running_text_in_two_columns(self):
        page = SetPage()
        page.write_prose(40, 100, 30, 8)
        page.write_prose(280, 100, 30, 8)
        assert found(page) == []

    def test_a_numbered_list(self):
        page = SetPage()
        for number in range(8):
            page.write(40, 100 + 12 * number, f"{number + 1}.")
            page.write(60, 100 + 12 * number, "wash the pan and dry it well")
        assert found(page) == []

    def test_a_page_of_contents(self):
        page = SetPage()
        for number in range(8):
            page.write(40, 100 + 12 * number, "Chapter" + "." * 60)
            page.write(400, 100 + 12 * number, str(3 + number * 9))
        assert found(page) == []

    def test_cards_in_a_grid(self):
        page = SetPage()
        for row in range(3):
            for column in range(3):
                x, y = 40 + 160 * column, 100 + 200 * row
                page.write(
                    x + 9 * ((row * 5 + column * 3) % 4), y, ["Deep wok", "Pot", "Steamer insert"][(row + column) % 3]
                )
        assert found(page) == []

    def test_an_empty_page(self):
        assert found(SetPage()) == []
