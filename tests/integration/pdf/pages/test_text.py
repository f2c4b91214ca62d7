"""What a page says, in the order of its lines, and where."""

import pytest
from tests.support.page_pdfs import line, wide_line, written_page

from penstock.pdf.pages.model import Box


def texts(draft) -> list[str]:
    return [span.text for span in draft.page.spans]


def near(box: Box, *expected: float) -> bool:
    return all(abs(a - b) < 0.01 for a, b in zip((box.x0, box.y0, box.x1, box.y1), expected, strict=True))


class TestSpans:
    async def test_a_line_is_a_span_with_its_place_and_size(self, read_page):
        (span,) = (await read_page(written_page(line(59.5, 757.8, "Price list", 20)))).page.spans
        assert (span.id, span.text, span.size) == ("s1", "Price list", 20)
        assert near(span.box, 0.1, 0.0775, 0.227, 0.1054)

    async def test_text_parts_at_a_column_gap_and_not_at_a_word_gap(self, read_page):
        page = written_page(line(50, 700, "two words") + line(120, 700, "next column"))
        assert texts(await read_page(page)) == ["two words", "next column"]

    async def test_columns_made_by_spaces_part_too(self, read_page):
        assert texts(await read_page(written_page(line(50, 700, "left      right")))) == ["left", "right"]

    async def test_a_line_drawn_between_two_words_parts_them(self, read_page):
        close = line(50, 700, "12 13")
        assert texts(await read_page(written_page(close))) == ["12 13"]
        ruled = "62.5 690 m 62.5 720 l S " + close
        assert texts(await read_page(written_page(ruled))) == ["12", "13"]

    async def test_a_line_drawn_beside_the_row_parts_nothing(self, read_page):
        assert texts(await read_page(written_page("62.5 600 m 62.5 650 l S " + line(50, 700, "12 13")))) == ["12 13"]

    async def test_the_order_in_the_file_does_not_matter(self, read_page):
        page = written_page(
            line(50, 600, "third") + line(79, 700, "of it") + line(50, 650, "second") + line(50, 700, "a part")
        )
        assert texts(await read_page(page)) == ["a part of it", "second", "third"]

    async def test_another_style_is_another_span(self, read_page):
        draft = await read_page(written_page(line(50, 700, "Total", font="B") + line(77, 700, "12.50")))
        assert [(span.text, span.is_bold) for span in draft.page.spans] == [("Total", True), ("12.50", False)]

    async def test_ids_are_the_same_each_time(self, read_page):
        page = written_page("".join(line(50 + 200 * (at % 2), 700 - 15 * at, f"row {at}") for at in range(20)))
        first, second = await read_page(page), await read_page(page)
        assert [span.id for span in first.page.spans] == [f"s{number}" for number in range(1, 21)]
        assert first.page == second.page


class TestPlaces:
    @pytest.mark.parametrize(
        ("rotation", "size", "box"),
        [
            (0, (595, 842), (0.1, 0.09, 0.2, 0.104)),
            (90, (842, 595), (0.896, 0.1, 0.91, 0.2)),
            (180, (595, 842), (0.8, 0.896, 0.9, 0.91)),
            (270, (842, 595), (0.09, 0.8, 0.104, 0.9)),
        ],
    )
    async def test_places_are_those_of_the_page_as_it_is_shown(self, read_page, rotation, size, box):
        draft = await read_page(written_page(line(59.5, 757, "Turned text m"), page=f"/Rotate {rotation}"))
        assert (draft.page.width, draft.page.height, draft.page.rotation) == (*size, rotation)
        assert texts(draft) == ["Turned text m"]
        assert near(draft.page.spans[0].box, *box)

    async def test_text_that_runs_upwards_is_read_along_its_line(self, read_page):
        page = written_page("BT /F 10 Tf 0 1 -1 0 100 300 Tm (Going up) Tj ET BT 0 1 -1 0 112 300 Tm (again) Tj ET")
        draft = await read_page(page)
        assert texts(draft) == ["Going up", "again"]
        box = draft.page.spans[0].box
        assert box.height * draft.page.height > 3 * box.width * draft.page.width

    async def test_slanting_text_is_one_span(self, read_page):
        page = written_page("BT /F 40 Tf 0.7071 0.7071 -0.7071 0.7071 200 300 Tm (DRAFT) Tj ET")
        assert texts(await read_page(page)) == ["DRAFT"]

    async def test_text_outside_the_crop_box_is_not_on_the_page(self, read_page):
        page = written_page(line(50, 700, "cut away") + line(320, 420, "kept"), page="/CropBox[300 400 500 600]")
        draft = await read_page(page)
        assert texts(draft) == ["kept"]
        assert near(draft.page.spans[0].box, 0.1, 0.85, 0.2, 0.91)
        assert (draft.page.width, draft.page.height) == (200, 200)


class TestLetters:
    async def test_chinese_has_no_spaces_between_its_letters(self, read_page):
        letters = " -300 ".join(f"<{each.encode('utf-16-be').hex()}>" for each in "产品价格")
        spaced = f"BT /W 10 Tf 50 700 Td [{letters}] TJ ET"
        assert texts(await read_page(written_page(spaced))) == ["产品价格"]

    async def test_chinese_and_numbers_in_a_line_stay_together(self, read_page):
        assert texts(await read_page(written_page(wide_line(50, 700, "型号A12价格")))) == ["型号A12价格"]

    async def test_ligatures_radicals_and_odd_spaces_are_what_they_stand_for(self, read_page):
        page = written_page(wide_line(50, 700, "e\ufb03cient") + wide_line(50, 600, "⼈⼝"))
        assert texts(await read_page(page)) == ["efficient", "人口"]

    async def test_a_hyphen_at_the_end_of_a_line_stays(self, read_page):
        page = written_page(line(50, 700, "a hyphen-") + line(50, 688, "ated word") + wide_line(50, 600, "soft\xad"))
        assert texts(await read_page(page)) == ["a hyphen-", "ated word", "soft-"]

    async def test_text_drawn_twice_to_look_bold_is_read_once(self, read_page):
        whole = line(50, 700, "Offer") + line(50.4, 700, "Offer")
        steps = zip((50, 56.7, 63.4, 69), "SALE", strict=True)
        letters = "".join(line(at + shift, 600, each) for at, each in steps for shift in (0, 0.4))
        draft = await read_page(written_page(whole + letters))
        assert texts(draft) == ["Offer", "SALE"]

    async def test_double_letters_are_not_taken_for_one(self, read_page):
        assert texts(await read_page(written_page(line(50, 700, "all illness 11 00")))) == ["all illness 11 00"]

    async def test_a_letter_told_in_two_halves_is_one(self, read_page):
        assert texts(await read_page(written_page(wide_line(50, 700, "see📞5")))) == ["see📞5"]

    async def test_words_written_leftwards_are_in_reading_order(self, read_page):
        (span,) = (await read_page(written_page(wide_line(50, 700, "םולש")))).page.spans
        assert span.text == "שלום"


class TestBounds:
    async def test_more_characters_than_allowed_are_left_out_and_said_so(self, read_page):
        page = written_page("".join(line(50, 800 - 12 * at, "0123456789" * 5) for at in range(20)))
        draft = await read_page(page, characters=300)
        assert draft.page.warnings == ["text_cut"]
        assert 250 <= sum(map(len, texts(draft))) <= 300

    async def test_a_font_with_a_matrix_that_says_nothing_does_no_harm(self, read_page):
        page = written_page(
            "BT /F 10 Tf 0 0 0 0 50 50 Tm (gone) Tj ET BT /F 0 Tf 9 9 Td (none) Tj ET" + line(9, 9, "x")
        )
        assert "x" in texts(await read_page(page))
