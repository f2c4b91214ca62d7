"""Tables in HTML, tidy and not."""

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.extraction.providers.mineru.tables import table_of
from penstock.pdf.pages.model import Box

CELLS = st.tuples(st.integers(0, 4), st.integers(0, 4), st.text("ab<>&", max_size=3))
BOX = Box(0.1, 0.2, 0.9, 0.6)


def grid(markup: str) -> list[tuple[int, int, str, int, int]]:
    table = table_of(markup, BOX, "t1")
    assert table is not None
    return [(cell.row, cell.column, cell.text, cell.row_span, cell.column_span) for cell in table.cells]


class TestShapes:
    def test_merged_cells_push_their_neighbours_aside(self):
        markup = (
            "<table><tr><td rowspan=3>a</td><td colspan='2'>b</td></tr><tr><td>c</td><td rowspan=\"2\">d</td></tr>"
            "<tr><td>e</td></tr></table>"
        )
        assert grid(markup) == [
            (0, 0, "a", 3, 1), (0, 1, "b", 1, 2), (1, 1, "c", 1, 1), (1, 2, "d", 2, 1), (2, 1, "e", 1, 1),
        ]  # fmt: skip

    def test_cells_lie_inside_the_table(self):
        table = table_of("<tr><td>a</td><td>b</td></tr><tr><td colspan=2>c</td></tr>", BOX, "t1")
        assert table.cells[2].box == Box(0.1, 0.4, 0.9, 0.6)
        assert table.cells[1].box.x0 == table.cells[0].box.x1

    def test_tags_inside_cells_are_dropped_and_entities_read(self):
        markup = "<tr><td>1 &lt; 2<br/><b>bold</b>&nbsp;&#x4e2d;</td><td><img src='x'>\n two   words </td></tr>"
        assert [text for _, _, text, _, _ in grid(markup)] == ["1 < 2\nbold 中", "two words"]

    def test_tags_that_are_never_closed_still_make_cells(self):
        assert [text for _, _, text, _, _ in grid("<table><tr><td>a<td>b<tr><td>c")] == ["a", "b", "c"]

    def test_heads_are_counted(self):
        table = table_of("<tr><th>a</th></tr><tr><th>b</th></tr><tr><td>c</td></tr><tr><th>d</th></tr>", BOX, "t1")
        assert table.header_rows == 2

    def test_no_cell_is_no_table(self):
        for markup in ("", "plain", "<table></table>", "<tr></tr>", "<td", "<<<>>>"):
            assert table_of(markup, BOX, "t1") is None


class TestNonsense:
    def test_spans_that_claim_the_world_are_cut(self):
        table = table_of("<tr><td rowspan=999999 colspan=999999>a</td></tr>" * 3, BOX, "t1")
        assert table.rows <= 5_000
        assert table.columns <= 500

    def test_a_spiteful_text_does_not_take_long(self):
        began = time.monotonic()
        for piece in ("<td ", "<td rowspan=", "<tr><td>", "&#", "<!--", "rowspan  =  "):
            table_of(piece * (300_000 // len(piece)), BOX, "t1")
        assert time.monotonic() - began < 60

    @settings(max_examples=80, deadline=None)
    @given(
        st.lists(
            st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.text("ab<>&", max_size=3)), max_size=5),
            max_size=6,
        )
    )
    def test_no_two_cells_share_a_place_and_none_is_outside(self, rows):
        markup = "".join(
            "<tr>" + "".join(f"<td rowspan={high} colspan={wide}>{text}</td>" for high, wide, text in row) + "</tr>"
            for row in rows
        )
        table = table_of(markup, BOX, "t1")
        if table is None:
            return
        places = [
            (row, column)
            for cell in table.cells
            for row in range(cell.row, cell.row + cell.row_span)
            for column in range(cell.column, cell.column + cell.column_span)
        ]
        assert len(places) == len(set(places))
        assert all(row < table.rows and column < table.columns for row, column in places)
        assert all(0.1 - 1e-9 <= cell.box.x0 < cell.box.x1 <= 0.9 + 1e-9 for cell in table.cells)
