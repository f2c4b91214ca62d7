"""Numbers, days and truths as people write them."""

from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.extraction.spelling import DATE_LIKE, NUMBER_LIKE, date_of, fold, moment_of, number_of, truth_of


class TestNumbers:
    @pytest.mark.parametrize(
        ("text", "number"),
        [
            ("1,234.50", "1234.50"), ("1.234,50", "1234.50"), ("1 234,50 €", "1234.50"), ("¥1,234", "1234"),
            ("１，２３４．５", "1234.5"), ("-12", "-12"), ("(1,234.00)", "-1234.00"), ("USD 300", "300"), ("13%", "13"),
            ("0.001", "0.001"), ("1,200.00 元", "1200.00"), ("−5", "-5"), ("-$3.20", "-3.20"), ("$-3.20", "-3.20"),
            ("1'000'000", "1000000"), ("1.000.000", "1000000"), ("12,5", "12.5"), ("1,000,000", "1000000"),
            ("007", "7"), ("₹ 350", "350"), ("Rs. 12", "12"),
        ],
    )  # fmt: skip
    def test_are_read_in_their_many_spellings(self, text, number):
        assert number_of(text) == Decimal(number)

    @pytest.mark.parametrize(
        "text", ["", "abc", "12 pcs", "1,23,4", "1.2.3", "12-13", "(12", "1,234.5.6", "1.234.56", "2024-01-31", "1 2"]
    )
    def test_what_is_no_number_is_none(self, text):
        assert number_of(text) is None

    @given(st.decimals(min_value=-(10**9), max_value=10**9, places=2))
    def test_whatever_the_separators_the_number_is_the_same(self, number):
        western = f"{number:,.2f}"
        swapped = western.translate(str.maketrans(",.", ".,"))
        assert number_of(western) == number_of(swapped) == number_of(f"¥{western}") == number
        assert number_of(western.replace(",", " ")) == number

    @given(st.text(max_size=30))
    def test_any_text_is_read_or_not_but_never_an_error(self, text):
        for read in (number_of, date_of, moment_of, truth_of):
            read(text)

    def test_they_are_found_within_a_text(self):
        found = [each.group().strip() for each in NUMBER_LIKE.finditer("合计 ¥1,234.50 (3 件), A12, 1 234,5 kg")]
        assert [number_of(each) for each in found] == [Decimal("1234.50"), None, Decimal("1234.5")]


class TestDays:
    @pytest.mark.parametrize(
        "text",
        ["2024-01-31", "2024/1/31", "2024.01.31", "2024年1月31日", "２０２４年０１月３１日", "31.01.2024", "31/1/2024",
         "1/31/2024", "Jan 31, 2024", "31 January 2024", "31-Jan-2024", "January 31st 2024", "20240131",
         "二〇二四年一月三十一日", "2024 年 1 月 31 日"],
    )  # fmt: skip
    def test_are_read_in_their_many_spellings(self, text):
        assert date_of(text) == date(2024, 1, 31)

    def test_which_comes_first_is_not_guessed(self):
        assert date_of("3/4/2024") is None
        assert date_of("3/4/2024", "dmy") == date(2024, 4, 3)
        assert date_of("3/4/2024", "mdy") == date(2024, 3, 4)
        assert date_of("5/5/2024") == date(2024, 5, 5)
        assert date_of("3.4.2024") == date(2024, 4, 3)

    @pytest.mark.parametrize("text", ["2024-02-30", "2024-13-01", "31 Foo 2024", "2024", "1234.56", "2024-1/31"])
    def test_what_is_no_day_is_none(self, text):
        assert date_of(text) is None

    def test_they_are_found_within_a_text(self):
        said = "开票日期：2024年1月31日 due 28 February 2024 or 20240301, 12.5.2024"
        assert [date_of(each.group()) for each in DATE_LIKE.finditer(said)] == [
            date(2024, 1, 31), date(2024, 2, 28), date(2024, 3, 1), date(2024, 5, 12),
        ]  # fmt: skip

    def test_with_a_time_they_are_moments(self):
        assert moment_of("2024年1月31日 9:05") == "2024-01-31T09:05:00Z"
        assert moment_of("2024-01-31T10:00:00+0800") == "2024-01-31T10:00:00+08:00"
        assert moment_of("31.01.2024") == "2024-01-31T00:00:00Z"
        assert moment_of("2024-01-31 25:00") is None


class TestTexts:
    def test_width_case_and_blanks_do_not_matter(self):
        assert fold(" Ｉnvoice\u3000No ：１２") == fold("invoice no:12")

    def test_truths_are_read(self):
        assert [truth_of(each) for each in ("是", "No", "✓", "TRUE", "maybe", "")] == [
            True,
            False,
            True,
            True,
            None,
            None,
        ]
