"""Images where they are placed, their bytes, and the lines of a page."""

import io
from contextlib import closing

import pypdfium2
import pytest
from PIL import Image as Picture
from PIL import ImageOps
from tests.support.page_pdfs import grey_image, jpeg, line, photo, picture_page, written_page
from tests.support.pdfs import stream

from penstock.pdf.pages.images import ImageBytes
from penstock.pdf.pages.model import Ruling

SQUARE = grey_image(photo(100, 100), 100, 100)


def own_jpeg(more: str = "") -> bytes:
    about = "/Type/XObject/Subtype/Image/Width 64/Height 48/ColorSpace/DeviceRGB/BitsPerComponent 8/Filter/DCTDecode"
    return stream(jpeg(), about + more, packed=False)


def near(found, expected) -> bool:
    return all(abs(a - b) < 0.002 for a, b in zip(found, expected, strict=True))


def corners(box) -> tuple[float, float, float, float]:
    return box.x0, box.y0, box.x1, box.y1


class TestPlacements:
    async def test_an_image_is_where_it_is_drawn(self, read_page):
        (image,) = (await read_page(picture_page("q 119 0 0 84.2 59.5 673.6 cm /I Do Q", SQUARE))).page.images
        assert near(corners(image.box), (0.1, 0.1, 0.3, 0.2))
        assert (image.id, image.pixel_width, image.pixel_height, image.is_mask) == ("i1", 100, 100, False)

    async def test_the_matrices_of_forms_count(self, read_page):
        inner = "/Type/XObject/Subtype/Form/BBox[0 0 99 99]/Matrix[1 0 0 1 10 10]/Resources<</XObject<</I 5 0 R>>>>"
        form = stream(b"q 20 0 0 20 5 5 cm /I Do Q", inner)
        draft = await read_page(picture_page("q 2 0 0 2 100 300 cm /X Do Q", SQUARE, {6: form}))
        (image,) = draft.page.images
        assert near(corners(image.box), (130 / 595, 1 - 370 / 842, 170 / 595, 1 - 330 / 842))

    async def test_a_turned_page_turns_its_images(self, read_page):
        page = picture_page("q 119 0 0 84.2 59.5 673.6 cm /I Do Q", SQUARE, page="/Rotate 90")
        (image,) = (await read_page(page)).page.images
        assert near(corners(image.box), (0.8, 0.1, 0.9, 0.3))

    async def test_masks_are_told_from_pictures(self, read_page):
        mask = stream(b"\xaa\x55", "/Type/XObject/Subtype/Image/Width 8/Height 2/ImageMask true/BitsPerComponent 1")
        (image,) = (await read_page(picture_page("q 99 0 0 99 50 50 cm /I Do Q", mask))).page.images
        assert image.is_mask

    async def test_images_written_into_the_content_are_found(self, read_page):
        page = picture_page("q 50 0 0 50 50 50 cm BI /W 2 /H 2 /BPC 8 /CS /G ID abcd EI Q", SQUARE)
        (image,) = (await read_page(page)).page.images
        assert (image.pixel_width, image.pixel_height) == (2, 2)

    async def test_images_beside_the_page_are_not_on_it(self, read_page):
        assert (await read_page(picture_page("q 50 0 0 50 700 50 cm /I Do Q", SQUARE))).page.images == []

    async def test_of_very_many_images_some_are_left_out_and_it_is_said(self, read_page):
        many = "".join(f"q 5 0 0 5 {at % 100 * 5} {at // 100 * 5} cm /I Do Q " for at in range(700))
        draft = await read_page(picture_page(many, SQUARE))
        assert len(draft.page.images) == 500
        assert draft.page.warnings == ["images_cut"]

    async def test_a_picture_shown_as_a_pattern_is_said_to_be_there(self, read_page):
        about = "/Type/Pattern/PatternType 1/PaintType 1/TilingType 1/BBox[0 0 200 200]/XStep 200/YStep 200"
        pattern = stream(b"q 200 0 0 200 0 0 cm /I Do Q", about + "/Resources<</XObject<</I 5 0 R>>>>")
        text = line(50, 800, "some text beside it")
        shown = await read_page(picture_page(f"{text}/Pattern cs /P scn 50 50 200 200 re f", SQUARE, {7: pattern}))
        assert shown.page.images == []
        assert "images_in_patterns" in shown.page.warnings
        grey = await read_page(picture_page(f"{text}0.749 g 50 50 200 200 re f", SQUARE, {7: pattern}))
        assert grey.page.warnings == []


class TestBytes:
    @pytest.fixture
    def image_bytes(self, pool, page_limits, saved):
        async def image_bytes(data: bytes, image_id: str = "i1", number: int = 1):
            function = "penstock.pdf.pages.images:image_bytes"
            return await pool.call(
                function, number, image_id, files=[saved(data)], limits=page_limits, returns=ImageBytes
            )

        return image_bytes

    async def test_a_jpeg_is_handed_out_as_it_is(self, image_bytes):
        found = (await image_bytes(picture_page("q 99 0 0 99 50 50 cm /I Do Q", own_jpeg()))).value
        assert (found.media_type, found.data) == ("image/jpeg", jpeg())

    async def test_another_picture_becomes_a_png_of_its_own_size(self, image_bytes):
        found = (await image_bytes(picture_page("q 9 0 0 9 50 50 cm /I Do Q", SQUARE))).value
        picture = Picture.open(io.BytesIO(found.data))
        assert (found.media_type, picture.format, picture.size) == ("image/png", "PNG", (100, 100))
        assert abs(picture.convert("L").getpixel((0, 0)) - 255) < 40  # the corner of a round gradient is light
        assert picture.convert("L").getpixel((50, 50)) < 40

    async def test_what_a_mask_cuts_away_is_transparent(self, image_bytes):
        image = grey_image(photo(100, 100), 100, 100, "/SMask 8 0 R")
        mask = grey_image(bytes(5000) + b"\xff" * 5000, 100, 100)
        found = (await image_bytes(picture_page("q 99 0 0 99 50 50 cm /I Do Q", image, {8: mask}))).value
        alpha = Picture.open(io.BytesIO(found.data)).getchannel("A")
        assert (alpha.getpixel((50, 10)), alpha.getpixel((50, 90))) == (0, 255)

    @pytest.mark.parametrize("mask", ["/SMask 8 0 R", "/SM#61sk 8 0 R"])
    async def test_a_jpeg_with_a_mask_is_not_handed_out_without_it(self, image_bytes, mask):
        half = grey_image(bytes(5000) + b"\xff" * 5000, 100, 100)
        found = (await image_bytes(picture_page("q 99 0 0 99 50 50 cm /I Do Q", own_jpeg(mask), {8: half}))).value
        alpha = Picture.open(io.BytesIO(found.data)).getchannel("A")
        assert (found.media_type, alpha.getpixel((30, 5)), alpha.getpixel((30, 42))) == ("image/png", 0, 255)

    @pytest.mark.parametrize(
        ("clip", "kind"),
        [
            ("50 50 99 99 re W n", "image/jpeg"),
            ("0 0 595 842 re W n", "image/jpeg"),
            ("50 50 60 99 re W n", "image/png"),
            ("50 50 m 149 50 l 100 149 l W n", "image/png"),
        ],
    )
    async def test_a_jpeg_of_which_the_page_shows_a_part_is_cut_as_there(self, image_bytes, clip, kind):
        found = (await image_bytes(picture_page(f"q {clip} 99 0 0 99 50 50 cm /I Do Q", own_jpeg()))).value
        assert found.media_type == kind

    @pytest.mark.parametrize("rotation", [0, 90])
    @pytest.mark.parametrize(
        "matrix", ["60 0 0 40 9 9", "-60 0 0 40 99 9", "60 0 0 -40 9 99", "0 60 -40 0 99 9", "0 -60 -40 0 99 99"]
    )
    async def test_a_picture_stands_as_the_page_shows_it(self, image_bytes, saved, matrix, rotation):
        rows = [bytes([0] * 30 + [200] * 30)] * 20 + [bytes([250] * 30 + [120] * 30)] * 20
        page = picture_page(f"q {matrix} cm /I Do Q", grey_image(b"".join(rows), 60, 40), page=f"/Rotate {rotation}")
        found = Picture.open(io.BytesIO((await image_bytes(page)).value.data)).convert("L")
        with closing(pypdfium2.PdfDocument(saved(page))) as document:
            seen = document[0].render().to_pil().convert("L")
        paper = ImageOps.invert(seen).point(lambda shade: 255 if shade else 0)
        x0, y0, x1, y1 = paper.getbbox()
        assert found.size == (x1 - x0, y1 - y0)
        for x, y in ((0.25, 0.25), (0.75, 0.25), (0.25, 0.75), (0.75, 0.75)):
            shown = seen.getpixel((x0 + int(x * (x1 - x0)), y0 + int(y * (y1 - y0))))
            assert abs(found.getpixel((int(x * found.width), int(y * found.height))) - shown) < 10

    @pytest.mark.parametrize(("image_id", "number"), [("i2", 1), ("x", 1), ("i1", 2), ("i1", 0)])
    async def test_an_image_that_is_not_there_is_named(self, image_bytes, image_id, number):
        outcome = await image_bytes(picture_page("q 9 0 0 9 50 50 cm /I Do Q", SQUARE), image_id, number)
        assert outcome.error == "NoSuchImage"


class TestRulings:
    @pytest.mark.parametrize(
        "drawn",
        [
            "59.5 421 m 297.5 421 l S",
            "59.5 420.5 238 1 re f",
            "59.5 420.5 m 297.5 420.5 l 297.5 421.5 l 59.5 421.5 l f",
            "q 2 0 0 2 0 0 cm 29.75 210.5 m 148.75 210.5 l S Q",
            "59.5 421 m 297.5 421 l 400 800 l S",
        ],
    )
    async def test_a_level_line_is_found_however_it_is_drawn(self, read_page, drawn):
        rulings = (await read_page(written_page(drawn))).rulings
        assert len(rulings) == 1
        assert near(rulings[0], (0.1, 0.5, 0.5, 0.5))
        assert not Ruling(*rulings[0]).is_upright

    async def test_a_frame_is_four_lines_and_a_filled_area_none(self, read_page):
        frame = (await read_page(written_page("100 100 200 300 re S"))).rulings
        assert sorted(ruling.is_upright for ruling in frame) == [False, False, True, True]
        assert (await read_page(written_page("100 100 200 300 re f"))).rulings == []

    async def test_many_thin_areas_of_one_path_are_as_many_lines(self, read_page):
        table = " ".join(f"50 {100 + 20 * at} 300 0.5 re" for at in range(30)) + " f"
        assert len((await read_page(written_page(table))).rulings) == 30

    async def test_curves_slants_and_what_is_not_drawn_are_no_lines(self, read_page):
        other = "50 50 m 100 200 200 100 300 300 c S 50 50 m 300 400 l S 50 500 m 300 500 l n 700 50 m 700 500 l S"
        assert (await read_page(written_page(other))).rulings == []

    async def test_lines_turn_with_the_page(self, read_page):
        (ruling,) = (await read_page(written_page("59.5 421 m 297.5 421 l S", page="/Rotate 90"))).rulings
        assert near(ruling, (0.5, 0.1, 0.5, 0.5))

    async def test_more_lines_than_allowed_are_left_out_and_said_so(self, read_page):
        draft = await read_page(
            written_page("".join(f"50 {at} m 500 {at} l S " for at in range(1, 800, 4))), rulings=50
        )
        assert len(draft.rulings) == 50
        assert "rulings_cut" in draft.page.warnings
