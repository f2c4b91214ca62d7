"""What the text pass says, before it is believed."""

import pytest

from penstock.pdf.pages.images import ImageBytes
from penstock.pdf.steps import Step, with_told_before

NAME = "0" * 32 + ".png"


def step(number: int, data: bytes, name: str = NAME) -> Step:
    return Step(number, pictures={"i1": ImageBytes(data, "image/png", 20, 20, name)})


class TestPicturesThatCameBefore:
    def test_one_that_stands_on_two_pages_is_told_once(self):
        first, second = with_told_before([step(1, b"a logo"), step(2, b"")])
        assert first.pictures["i1"].data == second.pictures["i1"].data == b"a logo"

    @pytest.mark.parametrize("wrong", [step(1, b""), step(1, b"x", "../../x.png"), step(1, b"x", "")])
    def test_one_that_never_came_or_has_no_sound_name_is_as_if_not_taken(self, wrong):
        assert [each.pictures for each in with_told_before([wrong])] == [None]
