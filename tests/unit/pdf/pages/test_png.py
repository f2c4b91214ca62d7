"""PNG files that are written by hand are read by others as what they were."""

import io
import random

import numpy as np
import pytest
from PIL import Image

from penstock.pdf.pages.png import png_of


class TestWriting:
    @pytest.mark.parametrize("mode", ["RGB", "RGBA"])
    @pytest.mark.parametrize("size", [(1, 1), (1, 7), (9, 1), (33, 20)])
    def test_a_reader_finds_every_pixel(self, mode, size):
        rows = random.Random(7).randbytes(size[0] * size[1] * len(mode))
        picture = Image.frombytes(mode, size, rows)
        read = Image.open(io.BytesIO(png_of(np.asarray(picture))))
        assert (read.format, read.mode, read.size, read.tobytes()) == ("PNG", mode, size, rows)
