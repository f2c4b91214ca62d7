"""A page becomes a picture, never a larger one than allowed."""

import io

import pytest
from PIL import Image
from tests.support.pdfs import document

from penstock.kernel.errors import PenstockError
from penstock.kernel.sandbox import SandboxSettings
from penstock.pdf import Examiner, PdfSettings, PictureFormat, pdf_sandbox

HALF_RED = document(content=b"1 0 0 rg 0 0 297.5 842 re f")


def picture(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


class TestPictures:
    @pytest.mark.parametrize("kind", PictureFormat)
    async def test_a_page_is_drawn_in_the_format_asked_for(self, examiner, saved, kind):
        shown = picture(await examiner.render(saved(HALF_RED), 1, 72, kind))
        assert (shown.format, shown.size) == (kind.value, (595, 842))
        left, right = shown.convert("RGB").getpixel((100, 400)), shown.convert("RGB").getpixel((500, 400))
        assert left[0] > 240
        assert max(left[1:]) < 30  # red, not blue: the channels are in order
        assert min(right) > 240

    async def test_the_resolution_is_dots_per_inch(self, examiner, saved):
        assert picture(await examiner.render(saved(HALF_RED), 1, 144)).size == (1190, 1684)

    async def test_a_turned_page_is_drawn_as_it_is_shown(self, examiner, saved):
        shown = picture(await examiner.render(saved(document(page="/Rotate 90")), 1, 72))
        assert shown.size == (842, 595)

    @pytest.mark.parametrize("kind", PictureFormat)
    async def test_a_strip_is_drawn_no_longer_than_pictures_can_be(self, examiner, saved, kind):
        shown = picture(await examiner.render(saved(document(page="/MediaBox[0 0 90000 4]")), 1, 150, kind))
        assert shown.size == (16_000, 1)

    async def test_a_crop_box_that_leaves_nothing_is_taken_no_notice_of(self, examiner, saved):
        shown = picture(await examiner.render(saved(document(page="/CropBox[900 900 950 950]")), 1, 72))
        assert shown.size == (595, 842)

    @pytest.mark.parametrize("dpi", [600, 100_000, 1e300])
    async def test_a_picture_too_large_is_drawn_smaller(self, examiner, saved, dpi):
        shown = picture(await examiner.render(saved(HALF_RED), 1, dpi))
        assert 15_000_000 < shown.width * shown.height <= 16_000_000

    async def test_a_page_of_a_thousand_by_a_hair_has_a_picture(self, examiner, saved):
        shown = picture(await examiner.render(saved(document(page="/MediaBox[0 0 99999 1]")), 1, 150))
        assert shown.width * shown.height <= 16_000_000


class TestRefusals:
    @pytest.mark.parametrize("number", [0, 2, -1, 10**9])
    async def test_a_page_that_is_not_there_is_not_found(self, examiner, saved, number):
        with pytest.raises(PenstockError) as refused:
            await examiner.render(saved(HALF_RED), number)
        assert refused.value.code.code == "NOT_FOUND"

    async def test_a_page_that_cannot_be_drawn_in_time_is_refused(self, saved):
        settings = PdfSettings(render_timeout_sec=1)
        async with pdf_sandbox(settings, SandboxSettings(workers=1)) as pool:
            examiner = Examiner(pool, settings)
            with pytest.raises(PenstockError) as refused:
                await examiner.render(saved(document(content=b"q Q " * 30_000_000)), 1)
            assert refused.value.code.code == "SECURITY_PARSE_TIMEOUT"
            assert picture(await examiner.render(saved(HALF_RED), 1, 72)).size == (595, 842)

    async def test_without_a_pool_the_trouble_is_ours(self, saved):
        settings = PdfSettings()
        examiner = Examiner(pdf_sandbox(settings, SandboxSettings()), settings)
        with pytest.raises(PenstockError) as refused:
            await examiner.inspect(saved(HALF_RED))
        assert refused.value.code.code == "SANDBOX_UNAVAILABLE"
