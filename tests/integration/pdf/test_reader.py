"""Documents are read page by page: what is written, what only a picture shows, and each of it once."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator

import psutil
import pytest
from PIL import Image, ImageDraw, ImageFont
from tests.support.page_pdfs import grey_image, line, photo, picture_page
from tests.support.pdfs import FONT, document, stream, text_pages
from tests.support.scans import saved_as, scan, scanned_pdf

from penstock.kernel.errors import PenstockError
from penstock.kernel.sandbox import Sandbox, SandboxSettings, Strength
from penstock.pdf import PdfSettings
from penstock.pdf.ocr.settings import OcrSettings
from penstock.pdf.pages.model import BlockKind, Origin, Page
from penstock.pdf.reader import PDF, PageReader

PNG, TIFF = "image/png", "image/tiff"
WRITTEN = b"BT /F 14 Tf 20 130 Td (Delivery note 88 of the northern store) Tj ET"

# Takes some seconds to read.
SLOW = "".join(
    f"BT /F 6 Tf 1 0 0 1 {at % 300 * 2} {780 - at // 300 * 1.2:.1f} Tm (a) Tj ET " for at in range(40_000)
).encode()


def contents(*pages: bytes) -> bytes:
    """A PDF whose pages draw these."""
    kids = {5 + 2 * at: f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents {6 + 2 * at} 0 R/Resources{FONT}>>"
            for at in range(len(pages))}  # fmt: skip
    tree = f"<</Type/Pages/Kids[{' '.join(f'{number} 0 R' for number in kids)}]/Count {len(pages)}>>"
    return document(objects={2: tree, **kids, **{6 + 2 * at: stream(page) for at, page in enumerate(pages)}})


@pytest.fixture(scope="module")
async def reader(pool: Sandbox, pdf_settings: PdfSettings) -> AsyncIterator[PageReader]:
    async with PageReader(pool, pdf_settings, OcrSettings(processes=1), SandboxSettings()) as made:
        yield made


async def read(reader: PageReader, path, media_type: str, skip: frozenset[int] = frozenset()) -> list[Page]:
    pages = [page async for page in reader.pages(path, media_type, skip)]
    return sorted(pages, key=lambda page: page.number)


def texts(page: Page) -> list[str]:
    return [span.text for span in page.spans]


class TestPictures:
    async def test_a_picture_is_read_with_the_place_and_sureness_of_each_line(self, reader, saved):
        (page,) = await read(reader, saved(saved_as(scan("Invoice 20417", "Total 1,234.50"), "PNG")), PNG)
        assert texts(page) == ["Invoice 20417", "Total 1,234.50"]
        first, second = page.spans
        assert (first.origin, page.ocr_share, page.warnings) == (Origin.OCR, 1.0, [])
        assert first.confidence > 0.9
        assert 0.03 < first.box.x0 < 0.06  # drawn 30 pixels from the left of 620
        assert first.box.y1 < second.box.y0
        assert [span for block in page.blocks for span in block.spans] == ["s1", "s2"]

    async def test_a_page_that_lies_on_its_side_and_leans_is_read_upright(self, reader, saved):
        lying = (
            scan("Invoice number 20417 of May", "Total to be paid 1,234.50")
            .rotate(-2, fillcolor=255)
            .rotate(90, expand=True)
        )
        (page,) = await read(reader, saved(saved_as(lying, "PNG")), PNG)
        assert texts(page) == ["Invoice number 20417 of May", "Total to be paid 1,234.50"]
        assert page.rotation == 90  # what is to be done to the picture, clockwise
        assert page.width > page.height

    async def test_every_frame_of_a_tiff_is_a_page(self, reader, saved):
        frames = [scan(f"Page {at} of 2", size=(300, 110)) for at in (1, 2)]
        path = saved(saved_as(frames[0], "TIFF", save_all=True, append_images=frames[1:]))
        assert await reader.page_count(path, TIFF) == 2
        assert [texts(page) for page in await read(reader, path, TIFF)] == [["Page 1 of 2"], ["Page 2 of 2"]]

    @pytest.mark.parametrize("kind", ["PNG", "WEBP"])
    async def test_of_a_moving_picture_the_first_frame_is_read_and_that_is_said(self, reader, saved, kind):
        first, second = (scan(f"Frame {number}", size=(300, 120)) for number in (1, 2))
        path = saved(saved_as(first, kind, save_all=True, append_images=[second], duration=100))
        (page,) = await read(reader, path, f"image/{kind.lower()}")
        assert (texts(page), page.warnings) == (["Frame 1"], ["first_frame_only"])

    async def test_a_table_drawn_with_lines_is_found(self, reader, saved):
        picture = Image.new("L", (500, 200), 255)
        draw, font = ImageDraw.Draw(picture), ImageFont.load_default(size=28)
        for at in range(3):
            draw.line((20, 20 + 80 * at, 480, 20 + 80 * at), 0, 2)
            draw.line((20 + 230 * at, 20, 20 + 230 * at, 180), 0, 2)
        for at, text in enumerate(("Item", "Price", "Chair", "88.50")):
            draw.text((50 + 230 * (at % 2), 40 + 80 * (at // 2)), text, fill=0, font=font)
        (page,) = await read(reader, saved(saved_as(picture, "PNG")), PNG)
        (table,) = page.tables
        cells = {(cell.row, cell.column): cell.text for cell in table.cells}
        assert cells == {(0, 0): "Item", (0, 1): "Price", (1, 0): "Chair", (1, 1): "88.50"}

    async def test_lines_of_one_size_have_no_heading_though_their_boxes_differ_by_half(self, reader, saved):
        lines = (
            "we own a cow or a crane",
            "some women saw a rare vase on a cross",
            "Happy people jig (by type) quickly",
        )
        (page,) = await read(reader, saved(saved_as(scan(*lines, size=(620, 230), letters=26), "PNG")), PNG)
        heights = [span.size for span in page.spans]
        assert max(heights) > 1.3 * min(heights)
        assert [block.kind for block in page.blocks] == [BlockKind.PARAGRAPH] * 3

    async def test_a_broken_picture_is_refused(self, reader, saved):
        whole = saved_as(scan("Invoice"), "PNG")
        with pytest.raises(PenstockError) as refused:
            await read(reader, saved(whole[:-40]), PNG)
        assert refused.value.code.code == "ETL_IMAGE_UNREADABLE"
        assert refused.value.details["reason"]

    async def test_a_file_of_another_kind_is_refused(self, reader, saved):
        with pytest.raises(PenstockError) as refused:
            await reader.page_count(saved(b"PK"), "application/zip")
        assert refused.value.code.code == "ETL_FILE_TYPE"


class TestDocuments:
    async def test_only_pages_without_text_are_recognised(self, reader, saved):
        path = saved(scanned_pdf([(WRITTEN, None), (b"", scan("Invoice 20417")), (WRITTEN, None)]))
        assert await reader.page_count(path, PDF) == 3
        pages = await read(reader, path, PDF)
        assert [page.ocr_share for page in pages] == [0, 1, 0]
        assert texts(pages[1]) == ["Invoice 20417"]
        assert all(page.blocks for page in pages)

    async def test_a_scanned_sheet_that_is_a_few_units_wide_is_read_as_finely_as_it_was_scanned(self, reader, saved):
        sheet = scan("Invoice 20417", "Total 1,234.50", size=(930, 420))
        tiny = scanned_pdf([(b"", sheet)], size=(31, 14)).replace(b"/MediaBox", b"/UserUnit 14.4/MediaBox")
        (page,) = await read(reader, saved(tiny), PDF)
        assert texts(page) == ["Invoice 20417", "Total 1,234.50"]
        assert (page.width, page.height) == (31, 14)

    async def test_pages_that_are_done_are_not_read_again(self, reader, saved):
        path = saved(scanned_pdf([(WRITTEN, None), (b"", scan("Invoice 20417")), (WRITTEN, None)]))
        assert [page.number for page in await read(reader, path, PDF, frozenset({2}))] == [1, 3]
        assert await read(reader, path, PDF, frozenset({1, 2, 3})) == []

    async def test_a_scan_below_written_text_is_read_and_the_text_is_not_said_twice(self, reader, saved):
        below = scan("Received in good order", "Signed by the keeper of goods", size=(1240, 400), letters=25)
        written = WRITTEN.replace(b"20 130", b"40 380")
        (page,) = await read(reader, saved(scanned_pdf([(written, below)], size=(595, 400))), PDF)
        said = [(span.text, span.origin) for span in sorted(page.spans, key=lambda span: span.box.y0)]
        assert [text for text, origin in said if origin is Origin.OCR] == [
            "Received in good order", "Signed by the keeper of goods",
        ]  # fmt: skip
        assert "".join(text for text, origin in said if origin is Origin.TEXT).replace(" ", "") == (
            "Deliverynote88ofthenorthernstore"
        )
        assert 0.4 < page.ocr_share < 0.8

    async def test_a_page_that_takes_too_long_costs_itself_alone(self, pool, saved):
        hasty = PdfSettings(security_parse_timeout_sec=2)
        async with PageReader(pool, hasty, OcrSettings(processes=1), SandboxSettings()) as reader:
            pages = await read(reader, saved(contents(WRITTEN, SLOW, WRITTEN)), PDF)
        assert [(len(page.spans), page.warnings) for page in pages] == [(1, []), (0, ["unreadable"]), (1, [])]

    async def test_a_document_of_which_nothing_can_be_read_is_refused(self, reader, saved):
        with pytest.raises(PenstockError) as refused:
            await read(reader, saved(b"%PDF-1.7 and nothing else"), PDF)
        assert refused.value.code.code == "PDF_UNREADABLE"


class TestTimeOfADocument:
    """Any call uses up a time as short as these."""

    async def test_pages_left_when_the_time_for_the_text_is_used_up_come_as_unreadable(self, pool, saved):
        slices = pool.settings.workers + 1  # of 24 pages; so many but one begin at once
        path = saved(text_pages(24 * slices, lines=2))
        hasty = PdfSettings(read_total_sec=1e-6, read_per_page_sec=1e-9)
        async with PageReader(pool, hasty, OcrSettings(processes=1), SandboxSettings()) as reader:
            pages = await read(reader, path, PDF)
        assert [page.number for page in pages] == list(range(1, 24 * slices + 1))
        assert (pages[0].warnings, len(pages[0].spans) > 0) == ([], True)
        assert all((page.warnings, page.spans) == (["unreadable"], []) for page in pages[-24:])

    async def test_each_page_adds_to_the_time_of_all(self, pool, saved):
        path = saved(text_pages(24 * (pool.settings.workers + 1), lines=2))
        patient = PdfSettings(read_total_sec=1e-6, read_per_page_sec=30)
        async with PageReader(pool, patient, OcrSettings(processes=1), SandboxSettings()) as reader:
            assert not any(page.warnings for page in await read(reader, path, PDF))

    async def test_pages_left_when_the_time_for_recognising_is_used_up_come_as_unreadable(self, pool, saved):
        frames = [scan(f"Page {at} of 3", size=(300, 110)) for at in (1, 2, 3)]
        path = saved(saved_as(frames[0], "TIFF", save_all=True, append_images=frames[1:]))
        hasty = OcrSettings(processes=1, document_seconds="0.001", document_seconds_per_page="0")
        async with PageReader(pool, PdfSettings(), hasty, SandboxSettings()) as reader:
            pages = await read(reader, path, TIFF)
        assert [(texts(page), page.warnings) for page in pages] == [
            (["Page 1 of 3"], []), ([], ["unreadable"]), ([], ["unreadable"]),
        ]  # fmt: skip

    async def test_a_document_whose_time_is_used_up_before_anything_was_read_is_refused_for_its_time(self, pool, saved):
        hasty = PdfSettings(security_parse_timeout_sec=1, read_total_sec=1e-6, read_per_page_sec=1e-9)
        path = saved(contents(SLOW, SLOW))
        async with PageReader(pool, hasty, OcrSettings(processes=1), SandboxSettings()) as reader:
            with pytest.raises(PenstockError) as refused:
                await read(reader, path, PDF)
        assert refused.value.code.code == "SECURITY_PARSE_TIMEOUT"
        assert refused.value.details["reason"] == "all the time for this document is used up"


class TestRecognisers:
    async def test_they_are_locked_in_and_reach_no_network(self, reader):
        recognisers = await reader._running()
        if sys.platform == "linux":
            assert recognisers.strength is not Strength.LIMITS_ONLY

    async def test_a_page_whose_recogniser_is_killed_is_read_by_another(self, reader, saved):
        path = saved(saved_as(scan("Invoice 20417", size=(400, 120)), "PNG"))
        recognisers = await reader._running()
        template = psutil.Process(recognisers._template.pid)
        seen: set[int] = set()
        reading = asyncio.ensure_future(read(reader, path, PNG))
        async with asyncio.timeout(30):
            while len(seen) < 2:  # the first counts the pages
                seen |= {each.pid for each in template.children()}
                await asyncio.sleep(0.002)
        os.kill(max(seen), signal.SIGKILL)
        (page,) = await reading
        assert texts(page) == ["Invoice 20417"]

    async def test_of_a_page_that_takes_too_long_only_what_is_written_is_kept(self, pool, pdf_settings, saved):
        below = scan("Received in good order", "Signed by the keeper of goods", size=(1240, 400), letters=25)
        path = saved(scanned_pdf([(WRITTEN.replace(b"20 130", b"40 380"), below)], size=(595, 400)))
        hasty = OcrSettings(processes=1, page_seconds="0.05")
        async with PageReader(pool, pdf_settings, hasty, SandboxSettings()) as reader:
            (page,) = await read(reader, path, PDF)
            with pytest.raises(PenstockError) as refused:
                await read(reader, saved(scanned_pdf([(b"", scan("Invoice 20417"))])), PDF)
        assert (" ".join(texts(page)), page.warnings) == ("Delivery note 88 of the northern store", ["unreadable"])
        assert refused.value.code.code == "SECURITY_PARSE_TIMEOUT"

    async def test_whoever_stops_reading_stops_the_work_and_the_next_reads_on(self, reader, saved):
        frames = [scan(f"Page {at} of 6", size=(300, 110)) for at in range(1, 7)]
        path = saved(saved_as(frames[0], "TIFF", save_all=True, append_images=frames[1:]))
        pages = reader.pages(path, TIFF)
        first = await anext(pages)
        await pages.aclose()
        assert not [task for task in asyncio.all_tasks() if "_recognise" in repr(task.get_coro())]
        (last,) = await read(reader, path, TIFF, frozenset({1, 2, 3, 4, 5}))
        assert (texts(first), texts(last)) == (["Page 1 of 6"], ["Page 6 of 6"])


class TestPicturesOnPages:
    @staticmethod
    def page(image: bytes) -> bytes:
        return picture_page(
            f"{line(50, 700, 'Delivery note 88 of the northern store')}q 30 0 0 30 50 50 cm /I Do Q", image
        )

    async def test_they_come_with_their_page(self, reader, saved):
        path = saved(self.page(grey_image(photo(100, 100), 100, 100)))
        ((page, pictures),) = [each async for each in reader.with_pictures(path, PDF, 1)]
        assert texts(page) == ["Delivery note 88 of the northern store"]
        (picture,) = pictures.values()
        assert (list(pictures), picture.media_type, picture.width, picture.height) == (["i1"], "image/png", 100, 100)

    async def test_one_that_takes_too_much_memory_costs_its_page_neither_text_nor_the_others(self, pool, saved):
        content = f"{line(50, 700, 'Delivery note 88 of the northern store')}q 30 0 0 30 50 50 cm /I Do /X Do Q"
        small_one = grey_image(photo(100, 100), 100, 100)
        path = saved(picture_page(content, grey_image(bytes(4000 * 4000), 4000, 4000), {6: small_one}))
        small = PdfSettings(security_memory_limit_mb=200)
        async with PageReader(pool, small, OcrSettings(processes=1), SandboxSettings()) as reader:
            ((page, pictures),) = [each async for each in reader.with_pictures(path, PDF, 1)]
        assert texts(page) == ["Delivery note 88 of the northern store"]
        assert (page.warnings, list(pictures)) == (["pictures_missing"], ["i2"])
