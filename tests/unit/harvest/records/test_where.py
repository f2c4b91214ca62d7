"""The filter for records: what is understood, and how the rest is refused."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.harvest.records import parse_where
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError


def values(text: str) -> list:
    return list(parse_where(text).values.values())


def condition(text: str) -> str:
    return parse_where(text).condition.as_string(None)


class TestReading:
    @pytest.mark.parametrize("text", [None, "", "   "])
    def test_nothing_means_all(self, text):
        assert condition(text) == "true"

    def test_a_date_is_midnight_in_utc(self):
        assert values("updated_at >= 2024-01-01") == [datetime(2024, 1, 1, tzinfo=UTC)]

    def test_a_time_with_a_zone_is_that_moment(self):
        assert values("checked_at < 2024-01-01T08:00:00+08:00") == [datetime(2024, 1, 1, tzinfo=UTC)]

    def test_signs_need_no_blanks_around_them(self):
        assert condition("revision>=2 and deleted=false") == condition("revision >= 2 AND deleted = false")

    def test_a_value_may_hold_anything_between_quotes(self):
        assert values(r'id = "10.1/a b = \"x\" \\ and"') == ['10.1/a b = "x" \\ and']

    def test_contains_takes_percent_signs_literally(self):
        assert values('provider_id ~ "50%_\\\\"') == ["%50\\%\\_\\\\%"]

    def test_a_field_is_found_by_its_path(self):
        assert values("fields.journal.title ~ cancer") == [["journal", "title"], "%cancer%"]

    def test_a_number_is_compared_with_numbers_as_one(self):
        assert Decimal(9) in values("fields.pages > 9")

    def test_a_value_is_never_part_of_the_statement(self):
        evil = "x'; drop table ing_record; --"
        assert "drop" not in condition(f'id = "{evil}" and fields.a ~ "{evil}"')

    @given(st.text(alphabet=st.characters(codec="utf-8")))
    def test_any_text_is_read_or_refused_in_words(self, text):
        try:
            made = parse_where(text)
        except PenstockError as failure:
            assert failure.code is error_codes.RECORD_FILTER_INVALID
            assert failure.details["expected"]
        else:
            assert made.condition.as_string(None)


class TestRefusing:
    @pytest.mark.parametrize(
        ("text", "position", "expected"),
        [
            ("colour = red", 0, "updated_at"),
            ("id = a\udcffb", 5, "a word"),
            ("updated_at = yesterday", 13, "2024-01-31"),
            ("updated_at ~ 2024", 11, "<="),
            ("deleted > true", 8, "="),
            ("deleted = maybe", 10, "true or false"),
            ("run = 12x", 6, "whole number"),
            ("run = 99999999999999999999", 6, "whole number"),
            ("run = 1 or run = 2", 8, "and"),
            ("run = 1 and", 11, "updated_at"),
            ("run =", 5, "whole number"),
            ("run", 3, "="),
            ('id = "open', 5, "quotes"),
            ("fields = 1", 0, "fields.NAME"),
            ("id = a\0b", 5, "word"),
            ("= 1", 0, "updated_at"),
        ],
    )
    def test_it_says_where_and_what_was_expected(self, text, position, expected):
        with pytest.raises(PenstockError) as refused:
            parse_where(text)
        assert refused.value.code is error_codes.RECORD_FILTER_INVALID
        assert refused.value.details["position"] == position
        assert expected in refused.value.details["expected"]

    def test_there_is_an_end_to_conditions(self):
        with pytest.raises(PenstockError):
            parse_where(" and ".join(["run = 1"] * 51))
