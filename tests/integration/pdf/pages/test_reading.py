"""Reading many pages: in order, bounded, and never hanging on a file that was made to hang."""

import time

import pytest
from tests.support.pdfs import document, material, text_pages

from penstock.pdf.pages.reading import PageDraft

DATA = material()
# Files that inspection lets pass although they were made to hurt; the others never get as far as this.
PASSED = ("chars_5M", "table_grid_842x595", "content_deep_array_500k", "deep_q_3M", "pagecount_lie_2147483647")


class TestSlices:
    async def test_pages_come_in_order_from_first_to_last(self, read):
        drafts = await read(text_pages(12, lines=5), 4, 9)
        assert [draft.page.number for draft in drafts] == [4, 5, 6, 7, 8, 9]
        assert drafts[0].page.spans[0].text.startswith("3.0 The quick brown fox")
        assert all(draft.elapsed > 0 for draft in drafts)

    async def test_a_call_that_is_out_of_time_returns_what_it_has(self, read):
        assert len(await read(text_pages(12, lines=5), 1, 12, seconds=0.0)) == 1

    async def test_a_call_that_has_said_enough_returns_what_it_has(self, read):
        assert len(await read(text_pages(12, lines=10), 1, 12, spans=25)) == 3

    async def test_a_page_that_is_not_there_is_unreadable_not_an_error(self, read):
        drafts = await read(document(), 1, 2)
        assert [draft.page.warnings for draft in drafts] == [[], ["unreadable"]]

    async def test_an_option_that_nobody_knows_is_refused(self, pool, page_limits, saved):
        path = saved(document())
        outcome = await pool.call(
            "penstock.pdf.pages.reading:read_pages", 1, 1, {"speed": 9}, files=[path], limits=page_limits
        )
        assert outcome.error == "ValidationError"


@pytest.mark.skipif(DATA is None, reason="the shared test material is not here")
class TestMaterial:
    @pytest.mark.parametrize("name", PASSED)
    async def test_a_hostile_file_neither_hangs_the_reader_nor_ends_the_pool(self, examiner, pool, page_limits, name):
        (path,) = DATA.glob(f"hostile/*/{name}.pdf")
        found = await examiner.inspect(path)
        begun = time.monotonic()
        if found.ok:
            await pool.call(
                "penstock.pdf.pages.reading:read_pages", 1, min(found.page_count, 20), {},
                files=[path], limits=page_limits, returns=list[PageDraft],
            )  # fmt: skip
        assert time.monotonic() - begun < page_limits.wall_seconds + 5
        assert (await pool.call("operator:add", 1, 2)).value == 3

    async def test_every_price_of_a_real_list_is_a_span_of_its_own(self, read):
        drafts = await read((DATA / "catalogues" / "sharanggupta__pricelist.pdf").read_bytes(), 1, 2)
        said = {span.text for draft in drafts for span in draft.page.spans}
        assert {"1100/15", "36", "₹ 350", "CAT. NO.", "PACKING"} <= said
        assert all(draft.needs_ocr == [] for draft in drafts)
