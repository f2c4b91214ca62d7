"""What holds for every table, however the page is set."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.set_pages import HEIGHT, WIDTH, SetPage

from penstock.pdf.pages.model import Box, Span, Table
from penstock.pdf.pages.tables import find_tables

EXAMPLES = 40
TEXTS = st.sampled_from(
    ["", "", "Total", "12", "1,234.5", "-", "Long name of it", "and more", "(HCH)", "产品", "n.a.", "2004", "%"]
)


@st.composite
def pages(draw: st.DrawFn) -> SetPage:
    page = SetPage()
    y = 64.0
    for _ in range(draw(st.integers(1, 2))):
        columns = draw(st.integers(2, 5))
        xs = [32.0 + 88 * column for column in range(columns)]
        rows = draw(st.lists(st.lists(TEXTS, min_size=columns, max_size=columns), min_size=2, max_size=7))
        pitch = draw(st.sampled_from([6.0, 11.0, 16.0]))
        ruled = draw(st.sets(st.integers(0, columns + len(rows) + 1)))
        for edge in ruled:
            if edge <= columns:
                page.rule(28.0 + 88 * edge, y - 2, 28.0 + 88 * edge, y + pitch * len(rows))
            else:
                at = y - 2 + pitch * (edge - columns)
                page.rule(28.0, at, 28.0 + 88 * columns, at)
        y = page.write_rows(xs, y, rows, pitch) + draw(st.sampled_from([4.0, 60.0]))
    return page


def tables(page: SetPage) -> list[Table]:
    return find_tables(page.spans, page.rulings, page.size)


def shape(found: list[Table]) -> list[object]:
    return [
        (
            table.rows,
            table.columns,
            table.header_rows,
            [(c.row, c.column, c.row_span, c.column_span, c.text) for c in table.cells],
        )
        for table in found
    ]


def moved(page: SetPage, scale: float, x: float, y: float) -> SetPage:
    """The same page on a larger sheet."""
    size = (WIDTH * 4, HEIGHT * 4)

    def at(box: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
        x0, y0, x1, y1 = box
        w, h = page.size
        return (
            (x0 * w * scale + x) / size[0],
            (y0 * h * scale + y) / size[1],
            (x1 * w * scale + x) / size[0],
            (y1 * h * scale + y) / size[1],
        )

    spans = [Span(s.id, s.text, Box(*at((s.box.x0, s.box.y0, s.box.x1, s.box.y1)))) for s in page.spans]
    return SetPage(size, spans, [at(ruling) for ruling in page.rulings])


class TestEveryTable:
    @settings(max_examples=EXAMPLES, deadline=None)
    @given(pages())
    def test_its_cells_cover_the_grid_once(self, page):
        for table in tables(page):
            taken = [
                (row, column)
                for cell in table.cells
                for row in range(cell.row, cell.row + cell.row_span)
                for column in range(cell.column, cell.column + cell.column_span)
            ]
            assert sorted(taken) == [(row, column) for row in range(table.rows) for column in range(table.columns)]

    @settings(max_examples=EXAMPLES, deadline=None)
    @given(pages())
    def test_a_span_is_in_one_cell_at_most_and_a_cell_says_its_spans(self, page):
        texts = {span.id: span.text for span in page.spans}
        ids = [each for table in tables(page) for cell in table.cells for each in cell.spans]
        assert len(ids) == len(set(ids))
        for table in tables(page):
            for cell in table.cells:
                assert cell.text.replace(" ", "") == "".join(texts[each] for each in cell.spans)

    @settings(max_examples=EXAMPLES, deadline=None)
    @given(pages())
    def test_boxes_of_cells_and_of_tables_do_not_overlap(self, page):
        found = tables(page)
        for boxes in ([table.box for table in found], *([cell.box for cell in table.cells] for table in found)):
            for number, one in enumerate(boxes):
                for other in boxes[number + 1 :]:
                    across = min(one.x1, other.x1) - max(one.x0, other.x0)
                    down = min(one.y1, other.y1) - max(one.y0, other.y0)
                    assert min(across, down) <= 1e-9


class TestTheSamePage:
    @settings(max_examples=EXAMPLES, deadline=None)
    @given(pages(), st.randoms(use_true_random=False))
    def test_spans_and_rulings_in_any_order_give_the_same_tables(self, page, random):
        expected = tables(page)
        random.shuffle(page.spans)
        random.shuffle(page.rulings)
        assert tables(page) == expected

    @settings(max_examples=EXAMPLES, deadline=None)
    @given(
        pages(), st.sampled_from([0.5, 1.0, 2.0]), st.sampled_from([0.0, 64.0, 512.0]), st.sampled_from([0.0, 128.0])
    )
    def test_moved_or_scaled_it_has_the_same_tables(self, page, scale, x, y):
        assert shape(tables(moved(page, scale, x, y))) == shape(tables(page))
