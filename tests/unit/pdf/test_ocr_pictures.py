"""A picture is decoded to what a person would see, or refused with a reason."""

import io

import numpy as np
import pytest
from PIL import Image
from tests.support.scans import saved_as

from penstock.pdf.ocr.pictures import PictureUnreadable, decode, examine

LIMITS = (1_000_000, 500_000)


def seen(data: bytes, frame: int = 1, limits: tuple[int, int] = LIMITS):
    return decode(io.BytesIO(data), frame, 150, limits)


def half_black(mode: str, black, white, size: tuple[int, int] = (800, 780)) -> Image.Image:
    """The upper half is black."""
    picture = Image.new(mode, size, white)
    picture.paste(black, (0, 0, size[0], size[1] // 2))
    return picture


def shade(bitmap, row: float, column: float = 0.5) -> float:
    height, width = bitmap.shape[:2]
    return float(bitmap[int(height * row), int(width * column)].mean())


class TestModes:
    @pytest.mark.parametrize(
        ("mode", "black", "white", "kind"),
        [
            ("1", 0, 1, "PNG"), ("1", 0, 1, "TIFF"), ("L", 0, 255, "JPEG"), ("RGB", (0, 0, 0), (255, 255, 255), "WEBP"),
            ("P", 0, 1, "PNG"), ("I;16", 0, 65535, "PNG"), ("I;16", 300, 4000, "TIFF"), ("F", 0.0, 1.0, "TIFF"),
            ("CMYK", (0, 0, 0, 255), (0, 0, 0, 0), "JPEG"), ("CMYK", (0, 0, 0, 255), (0, 0, 0, 0), "TIFF"),
        ],
    )  # fmt: skip
    def test_black_is_black_and_white_is_white_in_every_mode(self, mode, black, white, kind):
        if mode == "I;16":
            values = np.full((780, 800), white, np.uint16)
            values[:390] = black
            picture = Image.fromarray(values)
        else:
            picture = half_black(mode, black, white)
        if mode == "P":
            picture.putpalette([0, 0, 0, 255, 255, 255])
        bitmap, _ = seen(saved_as(picture, kind))
        assert bitmap.dtype == np.uint8
        assert bitmap.shape[2] == 3
        assert shade(bitmap, 0.2) < 10
        assert shade(bitmap, 0.8) > 245

    def test_what_is_transparent_shows_white_paper(self):
        bitmap, _ = seen(saved_as(half_black("RGBA", (0, 0, 0, 255), (0, 0, 0, 0)), "PNG"))
        assert (shade(bitmap, 0.2), shade(bitmap, 0.8)) == (0, 255)

    def test_colours_are_in_the_order_of_the_recogniser(self):
        bitmap, _ = seen(saved_as(Image.new("RGB", (10, 10), (255, 0, 0)), "PNG"))
        assert bitmap[0, 0].tolist() == [0, 0, 255]

    @pytest.mark.parametrize("kind", ["JPEG", "TIFF", "PNG", "WEBP"])
    def test_a_picture_from_a_turned_camera_stands_as_it_was_taken(self, kind):
        exif = Image.Exif()
        exif[0x0112] = 6  # to be turned clockwise for display: what is stored at the left is seen at the top
        picture = Image.new("RGB", (820, 760), "white")
        picture.paste("black", (0, 0, 410, 760))
        bitmap, _ = seen(saved_as(picture, kind, exif=exif))
        assert bitmap.shape[0] > bitmap.shape[1]
        assert shade(bitmap, 0.2) < 10
        assert shade(bitmap, 0.8) > 245


class TestResolution:
    def test_a_fine_scan_is_looked_at_less_finely(self):
        bitmap, dpi = seen(saved_as(Image.new("L", (2000, 2200), 255), "PNG", dpi=(300, 300)), limits=(10**7, 10**7))
        assert bitmap.shape[:2] == (1100, 1000)
        assert dpi == pytest.approx(150, rel=0.01)

    def test_a_fax_with_lines_twice_as_far_apart_as_dots_has_its_true_shape(self):
        bitmap, _ = seen(saved_as(Image.new("1", (1728, 1143), 1), "TIFF", dpi=(204, 98)), limits=(10**7, 10**7))
        assert bitmap.shape[0] / bitmap.shape[1] == pytest.approx(1143 / 98 / (1728 / 204), rel=0.02)

    def test_never_more_is_looked_at_than_allowed(self):
        bitmap, _ = seen(saved_as(Image.new("L", (990, 990), 255), "JPEG"), limits=(1_000_000, 20_000))
        assert bitmap.shape[0] * bitmap.shape[1] <= 20_500

    def test_a_strip_is_not_made_longer_than_can_be_looked_at(self):
        bitmap, _ = seen(saved_as(Image.new("L", (60_000, 1), 255), "PNG"))
        assert bitmap.shape[:2] == (1, 16_000)

    def test_a_small_picture_is_enlarged(self):
        bitmap, dpi = seen(saved_as(Image.new("L", (300, 100), 255), "PNG"))
        assert bitmap.shape[:2] == (300, 900)
        assert dpi == pytest.approx(3 * 96)


class TestRefusals:
    @pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "WEBP"])
    @pytest.mark.parametrize("share", [0.02, 0.5, 0.95])
    def test_a_file_that_ends_early_is_refused(self, kind, share):
        noise = Image.fromarray(np.random.default_rng(1).integers(0, 256, (60, 60), np.uint8))
        data = saved_as(noise.convert("RGB"), kind)
        with pytest.raises(PictureUnreadable):
            examine(io.BytesIO(data[: int(len(data) * share)]), *LIMITS)

    @pytest.mark.parametrize(
        "data", [b"", b"\x89PNG\r\n\x1a\n", b"%PDF-1.7", b"GIF89a" + bytes(50), b"\xff\xd8\xff" * 20]
    )
    def test_what_is_no_picture_is_refused(self, data):
        with pytest.raises(PictureUnreadable):
            examine(io.BytesIO(data), *LIMITS)

    def test_a_bomb_is_refused_before_it_is_decoded(self):
        bomb = saved_as(Image.new("1", (4000, 5000)), "PNG")
        with pytest.raises(PictureUnreadable, match="4000 × 5000 pixels, 1000000 allowed"):
            examine(io.BytesIO(bomb), *LIMITS)

    def test_bytes_flipped_anywhere_end_in_a_picture_or_in_a_refusal(self):
        chance = np.random.default_rng(7)
        for kind in ("PNG", "JPEG", "TIFF", "WEBP"):
            data = bytearray(saved_as(half_black("RGB", "black", "white", (40, 40)), kind))
            for _ in range(60):
                broken = bytearray(data)
                for at in chance.integers(0, len(data), 3):
                    broken[at] = int(chance.integers(0, 256))
                try:
                    seen(bytes(broken))
                except PictureUnreadable as refused:
                    assert str(refused)


class TestFrames:
    def test_the_pages_of_a_tiff_are_its_frames(self):
        frames = [Image.new("L", (780 + at, 740), 255) for at in range(3)]
        data = saved_as(frames[0], "TIFF", save_all=True, append_images=frames[1:])
        assert examine(io.BytesIO(data), *LIMITS).frames == 3
        assert [seen(data, frame, (10**6, 10**6))[0].shape[1] for frame in (1, 2, 3)] == [780, 781, 782]
        with pytest.raises(PictureUnreadable, match="no page 4"):
            seen(data, 4)
        with pytest.raises(PictureUnreadable, match="3 pages, 2 allowed"):
            examine(io.BytesIO(data), 1_000_000, 2)

    def test_an_animation_is_one_page(self):
        frames = [Image.new("L", (40, 40), at) for at in (0, 255)]
        assert (
            examine(io.BytesIO(saved_as(frames[0], "WEBP", save_all=True, append_images=frames[1:])), *LIMITS).frames
            == 1
        )
