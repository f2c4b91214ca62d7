"""Cells of a CSV export: no text of a stranger begins a formula, however spelt, and other text stays as it is."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.harvest.records.csv_export import cell

_STARTS = "=+-@|" + "＝＋－＠｜" + "﹦﹢﹣﹫"
_UNSEEN = ["", " ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u200b", "\ufeff", "\u2060", "\u00ad", "\0", "\u202e"]


class TestFormulas:
    @pytest.mark.parametrize("unseen", _UNSEEN)
    @pytest.mark.parametrize("start", _STARTS)
    def test_a_formula_gets_an_apostrophe_whatever_stands_before_its_sign(self, unseen, start):
        text = f"{unseen}{start}HYPERLINK(0)"
        assert cell(text) == f"'{text}"

    @given(st.text(st.characters(categories=["Zs", "Zl", "Zp", "Cc", "Cf"])), st.sampled_from(_STARTS), st.text())
    def test_no_blank_or_format_character_hides_a_sign(self, unseen, start, rest):
        written = cell(f"{unseen}{start}{rest}x")
        assert written[0] == "'"

    @given(st.text())
    def test_what_a_spreadsheet_sees_first_is_never_a_sign(self, text):
        seen = next((each for each in cell(text) if unicodedata.category(each)[0] not in "ZC"), "a")
        number = cell(text) == text and text[:1] in "+-" and text[1:2].isdigit()
        assert number or unicodedata.normalize("NFKC", seen)[0] not in "=+-@|"


class TestPlainText:
    @pytest.mark.parametrize(
        "text", ["", "a", "-5", "+5", "-3.5", "1e-7", '{"a": "=1"}', "a=b", " leading", "100%", "%", "<a/>", "中文＝"]
    )
    def test_it_is_written_as_it_is(self, text):
        assert cell(text) == text
