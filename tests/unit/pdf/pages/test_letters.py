"""Single letters, and many: what they stand for and whether they make sense."""

import numpy as np
import pytest

from penstock.pdf.pages.letters import (
    LEFTWARDS,
    MEANINGLESS,
    SPACE,
    WIDE,
    is_rubbish,
    kinds_of,
    plain_text,
    with_longer_forms,
)


def codes(text: str):
    return np.array([ord(each) for each in text], np.uint32)


class TestKinds:
    @pytest.mark.parametrize(
        ("kind", "members", "others"),
        [
            (SPACE, " \t\r\n\xa0\u3000\u2003", "a中-\u200b"),
            (WIDE, "中文あア，𠀀", "aé한 \u3000א"),
            (LEFTWARDS, "שلﻻ", "a中"),
            (MEANINGLESS, "\x00\x01\x1f\x80\ue000\ufffd\U000f0000", "a中é•\x02\uf0b7\ufffe𠀀😀"),
        ],
    )
    def test_a_letter_is_of_its_kind_and_of_no_other(self, kind, members, others):
        assert (kinds_of(codes(members)) & kind).all()
        assert not (kinds_of(codes(others)) & kind).any()


class TestPlainText:
    def test_what_stands_for_a_letter_becomes_it_one_for_one(self):
        odd = "⼈\xa0\xad\x02\uf0b7𠀀"
        assert plain_text(codes(odd)) == "人 --•𠀀"

    def test_codes_that_are_no_characters_become_the_unknown_letter(self):
        assert plain_text(np.array([0, 0xD800, 0x110000, 0x41], np.uint32)) == "\ufffd\ufffd\ufffdA"

    def test_ligatures_and_marks_without_width_come_after(self):
        assert with_longer_forms("e\ufb03cient\u200b") == "efficient"


class TestRubbish:
    @pytest.mark.parametrize(
        "text",
        [
            "Wj ofx kl qrtzp " * 5 + "bcdf ghjk lmnp qrst vwxz " * 10,
            "ÎÒÃÇÊÇÖÐ¹úÈË" * 6,
        ],
    )
    def test_letters_in_an_order_that_no_language_has(self, text):
        assert is_rubbish(text, 0.0)

    @pytest.mark.parametrize(
        "text",
        [
            "The quick brown fox jumps over the lazy dog. " * 4,
            "Größe, Länge und Höhe des Möbels; Süßwarenhändler in Österreich. " * 3,
            "Цена товара без налога указана в рублях за штуку. " * 3,
            "产品介绍与价格表，型号与规格请见下页。" * 4,
            "1100/15 36 350.00 1100/25 30 380.00 " * 5,
            "Vlk zmrzl, zhltl hrst zrn. Škrt plch z mlh Brd pln skvrn. " * 2,
        ],
    )
    def test_real_writing_is_not(self, text):
        assert not is_rubbish(text, 0.0)

    def test_codes_without_meaning_are_only_believed_where_they_read_like_text(self):
        assert not is_rubbish("Plain words in a font that says nothing of itself. " * 3, 1.0)
        assert is_rubbish("+HOOR :RUOG $%&'()* 7KLV LV" * 4 + "!#$%&()*+,-./:;<=>" * 8, 1.0)
