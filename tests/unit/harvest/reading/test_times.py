"""updatedAt, in all the ways in which sources write it."""

import contextlib
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.harvest.reading.times import from_parts, moment_reader, read_moment

NOV_3 = datetime(2026, 11, 3, tzinfo=UTC)
MOMENT = datetime(2026, 11, 3, 4, 12, 55, tzinfo=UTC)


class TestReadingByShape:
    @pytest.mark.parametrize(
        ("value", "moment"),
        [
            ("2026-11-03T04:12:55Z", MOMENT),
            ("2026-11-03t04:12:55z", MOMENT),
            ("2026-11-03T04:12:55", MOMENT),
            ("2026-11-03 04:12:55", MOMENT),
            (" 2026-11-03T04:12:55Z\n", MOMENT),
            ("2026-11-02T23:12:55-05:00", MOMENT),
            ("2026-11-03T09:42:55+0530", MOMENT),
            ("20261103T041255Z", MOMENT),
            ("2026-11-03T04:12:55.18039Z", MOMENT.replace(microsecond=180390)),
            ("2026-11-03T04:12:55.123456789Z", MOMENT.replace(microsecond=123456)),
            ("2026-11-03T04:12Z", MOMENT.replace(second=0)),
            ("2026-11-02T24:00:00Z", NOV_3),
            ("2026-11-02T23:59:60Z", NOV_3),
            ("2026-11-03", NOV_3),
            ("2026/11/03", NOV_3),
            ("2026/11/3 04:12:55", MOMENT),
            ("20261103", NOV_3),
            ("20261103041255", MOMENT),
            ("202611030412", MOMENT.replace(second=0)),
            ("2026-11", NOV_3.replace(day=1)),
            ("2026", datetime(2026, 1, 1, tzinfo=UTC)),
            (1793679175, MOMENT),
            (1793679175000, MOMENT),
            ("1793679175", MOMENT),
            ("1793679175000", MOMENT),
            (1793679175.5, MOMENT.replace(microsecond=500_000)),
            (1793679175000000, MOMENT),
            (1793679175000000000, MOMENT),
            (-86400, datetime(1969, 12, 31, tzinfo=UTC)),
            ([[2026, 11, 3]], NOV_3),
            ([[2026, 11]], NOV_3.replace(day=1)),
            ([2026], datetime(2026, 1, 1, tzinfo=UTC)),
        ],
    )
    def test_a_usual_form_is_read_as_utc(self, value, moment):
        found = read_moment(value)
        assert found == moment
        assert found.tzinfo is UTC

    @pytest.mark.parametrize(
        "value",
        [
            *(None, "", "soon", "2026-13-01", "2026-02-30", "2026-11-03T25:00:00Z", True, [], [[None]], [[]], {}),
            *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "9999-12-31", "0000-00-00", "1666-01-01"),
            *(1e300, float("nan"), float("inf"), 10**30, "9" * 20, [[2026, 99]], [10**30], [[2026, True]], ["x"]),
            *("T24:00" * 2_000, "T2400" * 100_000 + "\n\n1", "2026-01-01 " * 100_000),
        ],
    )
    def test_what_is_no_likely_time_is_refused(self, value):
        with pytest.raises(ValueError, match=r".+"):
            read_moment(value)

    @given(
        st.datetimes(
            datetime(1900, 1, 1),  # noqa: DTZ001
            datetime(2100, 1, 1),  # noqa: DTZ001
            timezones=st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes))),
        )
    )
    def test_what_python_writes_is_read_back(self, moment):
        assert read_moment(moment.isoformat()) == moment
        assert read_moment(moment.isoformat(" ")) == moment

    @given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30), st.lists))
    def test_any_value_is_a_time_or_refused(self, value):
        with contextlib.suppress(ValueError):
            assert read_moment(value).tzinfo is UTC


class TestReadingByFormat:
    @pytest.mark.parametrize(
        ("format_", "value", "moment"),
        [
            ("%Y/%m/%d", "2026/11/03", NOV_3),
            ("%Y/%m/%d", "2026/11/3", NOV_3),
            ("%Y%m%d", 20261103, NOV_3),
            ("%Y%m%d%H%M%S", "20261103041255", MOMENT),
            ("%d.%m.%Y %H:%M:%S", "03.11.2026 04:12:55", MOMENT),
            ("%Y-%m-%dT%H:%M:%SZ", "2026-11-03T04:12:55Z", MOMENT),
            ("%Y %b %d", "2026 Nov 3", NOV_3),
            ("%a, %d %b %Y %H:%M:%S %z", "Tue, 03 Nov 2026 05:12:55 +0100", MOMENT),
        ],
    )
    def test_the_format_of_the_source_is_followed(self, format_, value, moment):
        found = moment_reader(format_)(value)
        assert found == moment
        assert found.tzinfo is UTC

    @pytest.mark.parametrize("value", ["2026-11-03", "2026/13/01", "2026/02/30", "9999/01/01", None, [2026], 1.5, True])
    def test_anything_else_is_refused(self, value):
        with pytest.raises(ValueError, match=r".+"):
            moment_reader("%Y/%m/%d")(value)


class TestPartsOfDates:
    def test_a_month_may_have_a_name(self):
        assert from_parts(["2026", "Nov", "3"]) == NOV_3

    def test_hours_and_minutes_are_parts_too(self):
        assert from_parts(["2026", "11", "3", "4", "12", "55"]) == MOMENT
