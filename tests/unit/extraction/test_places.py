"""Where values stand: found in any spelling, beside their siblings, or not at all."""

import pytest
from tests.support.page_drafts import PageDraft, each

from penstock.extraction.places import Search, places_of
from penstock.pdf.pages.model import Block, BlockKind, Box, Page


def found(data, *drafts):
    """pointer → (page, text) of its only place."""
    places = places_of(data, each(*drafts))
    assert all(len(some) == 1 for some in places.values())
    return {at: (some[0].page, some[0].text) for at, some in places.items()}


def on(value, text):
    return bool(found({"v": value}, PageDraft().line(text)))


class TestSpellings:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (1234.5, "合计：￥1,234.50"), (1234.5, "Total 1.234,50 €"), (3, "共3件"), (-12.5, "(12.50)"),
            (1000, "1 000 kg"),
            (0.13, "税率 13%"), (13, "税率 13%"), ("2024-01-31", "开票日期：2024年1月31日"),
            ("2024-04-03", "Date 3/4/2024"),
            ("2024-01-31", "31 January 2024"), ("2024-01-31T00:00:00Z", "2024/01/31"),
            ("INV-001", "invoice no.: inv-001."),
            ("上海某某公司", "销售方：上海 某某 公司"), ("ＡＢＣ１", "abc 1"), ("1234.50", "1,234.50"), ("A B", "a  b"),
        ],
    )  # fmt: skip
    def test_a_value_is_found_however_it_is_written(self, value, text):
        assert on(value, text)

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (12, "A12"), (12, "1,234.12"), (12, "112"), ("12", "A12"), ("12", "123"), ("12", "3.12"),
            ("cat", "category"),
            (2024, "2024-01-31"), ("2024-01-31", "2024-01-3"), (True, "true"), (None, "null"), ("", "x"), ("x", "xy"),
            ("一", "一二"), (5, "five"), ([], "x"), ({}, "x"), (1e300, "1"), (float("inf"), "inf"),
        ],
    )  # fmt: skip
    def test_what_is_not_there_is_not_found(self, value, text):
        assert not on(value, text)

    def test_a_value_across_spans_has_all_of_them(self):
        draft = PageDraft().line("Acme", "Trading Ltd.", "Shanghai")
        place = places_of({"v": "acme trading ltd"}, each(draft))["/v"][0]
        assert place.spans == ("s1", "s2")
        assert place.box == draft.page.spans[0].box.union(draft.page.spans[1].box)

    def test_blocks_without_spans_have_the_box_of_the_block(self):
        page = Page(1, 100, 100, blocks=[Block(BlockKind.PARAGRAPH, Box(0.1, 0.2, 0.3, 0.4), "Total 12")])
        draft = PageDraft()
        draft.page = page
        assert places_of([12], each(draft))["/0"][0].box == Box(0.1, 0.2, 0.3, 0.4)

    def test_values_that_begin_alike_are_each_found_where_they_stand(self):
        draft = PageDraft().line("Blue pen with cap").line("Blue pen")
        data = ["Blue pen with case", "Blue pen with cap", "Blue pen"]
        assert found(data, draft) == {"/1": (1, "Blue pen with cap"), "/2": (1, "Blue pen")}


class TestSiblings:
    ROWS = (("Code", "Name", "Qty"), ("A1", "Pen", "3"), ("B2", "Ink", "3"), ("C3", "Pen", "7"))

    def test_values_of_a_row_are_found_in_that_row(self):
        lines = [{"code": code, "name": name, "qty": int(qty)} for code, name, qty in self.ROWS[1:]]
        draft = PageDraft().line("3 Pen 7 Ink").table(self.ROWS)
        places = places_of({"lines": lines}, each(draft))
        assert len(places) == 9
        tops = {at.split("/")[2]: round(place.box.y0, 4) for at, [place] in places.items()}
        for at, [place] in places.items():
            assert round(place.box.y0, 4) == tops[at.split("/")[2]], at
        assert len(set(tops.values())) == 3

    def test_rows_that_say_the_same_are_found_one_after_the_other(self):
        draft = PageDraft().table([("Name", "Qty"), ("Pen", "3"), ("Pen", "3"), ("Pen", "3")])
        places = places_of([{"n": "Pen", "q": 3}] * 3, each(draft))
        tops = [places[f"/{index}/q"][0].box.y0 for index in range(3)]
        assert tops == sorted(set(tops))
        assert [places[f"/{index}/n"][0].box.y0 for index in range(3)] == tops

    def test_of_two_pages_the_one_with_the_siblings_is_taken(self):
        first = PageDraft(1).line("Paid 500").line("2024-01-31")
        second = PageDraft(2).line("Invoice INV-9").line("2024-01-31").line("Total", "500")
        assert found({"number": "INV-9", "date": "2024-01-31", "total": 500}, first, second) == {
            "/number": (2, "Invoice INV-9"), "/date": (2, "2024-01-31"), "/total": (2, "500"),
        }  # fmt: skip

    def test_a_whole_cell_is_better_than_a_mention(self):
        draft = PageDraft().line("about Pen and paper").table([("Name",), ("Pen",)])
        assert found({"name": "Pen"}, draft) == {"/name": (1, "Pen")}

    def test_names_with_slashes_are_escaped(self):
        assert list(found({"a/b": {"~": "x1"}}, PageDraft().line("x1"))) == ["/a~1b/~0"]


class TestManyPages:
    def test_a_value_on_every_page_is_remembered_only_so_often(self):
        search = Search([{"unit": "PCS", "code": f"C{n}"} for n in range(300)])
        for number in range(1, 301):
            search.look_at(PageDraft(number).table([("Code", "Unit"), (f"C{number - 1}", "PCS")]).page)
        places = search.places()
        assert [places[f"/{n}/unit"][0].page for n in range(300)] == list(range(1, 301))
        assert len(places) == 600

    def test_no_more_pages_are_asked_for_when_there_is_nothing_to_find(self):
        def never():
            raise AssertionError
            yield

        assert places_of({"a": None}, never()) == {}
