"""What headers say about limits and clocks, and what they say in vain."""

from datetime import UTC, datetime, timedelta

import pytest

from penstock.harvest.calling.answers import Answer, date_behind, hints_of, retry_after

NOW = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)


class TestRetryAfter:
    @pytest.mark.parametrize(
        ("value", "seconds"),
        [
            ("120", 120),
            ("0", 0),
            (" 5 ", 5),
            ("Wed, 04 Mar 2026 12:01:00 GMT", 60),
            ("Wed, 04 Mar 2026 11:00:00 GMT", 0),
            ("99999999999", 86_400),
            ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400),
            ("soon", None),
            ("-5", None),
            ("", None),
            ("1e9", None),
            ("nan", None),
        ],
    )
    def test_seconds_and_dates_are_read_and_nonsense_is_not(self, value, seconds):
        assert retry_after(value, NOW) == seconds


class TestLimits:
    def test_remaining_and_reset_in_seconds(self):
        found = hints_of({"x-ratelimit-remaining": "12", "x-ratelimit-limit": "100", "x-ratelimit-reset": "60"}, NOW)
        assert (found.remaining, found.limit, found.reset) == (12, 100, NOW + timedelta(seconds=60))

    @pytest.mark.parametrize("factor", [1, 1000])
    def test_reset_as_a_moment(self, factor):
        moment = NOW + timedelta(minutes=3)
        found = hints_of({"x-ratelimit-reset": str(int(moment.timestamp() * factor))}, NOW)
        assert found.reset == moment

    def test_the_headers_of_the_ietf(self):
        found = hints_of({"ratelimit-remaining": "3", "ratelimit-limit": "10", "ratelimit-reset": "7"}, NOW)
        assert (found.remaining, found.limit, found.reset) == (3, 10, NOW + timedelta(seconds=7))
        found = hints_of({"ratelimit": '"default";r=50;t=30', "ratelimit-policy": '"default";q=100;w=60'}, NOW)
        assert (found.remaining, found.limit, found.reset) == (50, 100, NOW + timedelta(seconds=30))
        assert found.rate == pytest.approx(100 / 60)

    @pytest.mark.parametrize(("limit", "interval", "rate"), [("50", "1s", 50), ("3", "1m", 0.05), ("5", "500ms", 10)])
    def test_a_limit_with_its_interval_is_a_rate(self, limit, interval, rate):
        assert hints_of({"x-rate-limit-limit": limit, "x-rate-limit-interval": interval}, NOW).rate == rate

    @pytest.mark.parametrize(
        "headers",
        [
            {"x-rate-limit-limit": "1", "x-rate-limit-interval": "999999999d"},
            {"ratelimit-policy": '"x";q=1;w=999999999999999'},
        ],
    )
    def test_no_rate_is_so_low_that_we_would_be_silent_for_longer_than_a_day(self, headers):
        assert hints_of(headers, NOW).rate == pytest.approx(1 / 86_400)

    @pytest.mark.parametrize("value", ["", "many", "-1", "0x10", "\u0664", "9" * 30])
    def test_nonsense_counts_as_silence_and_nothing_lasts_longer_than_a_day(self, value):
        headers = {f"x-ratelimit-{name}": value for name in ("remaining", "limit", "reset", "interval")}
        found = hints_of(headers, NOW)
        assert found.reset is None or found.reset <= NOW + timedelta(days=1)


class TestClocks:
    def test_the_date_header_tells_how_far_a_clock_is_behind(self):
        assert date_behind({"date": "Wed, 04 Mar 2026 11:58:00 GMT"}, NOW) == timedelta(minutes=2)
        assert date_behind({"date": "Wed, 04 Mar 2026 11:58:00 GMT", "age": "100"}, NOW) == timedelta(seconds=20)
        assert date_behind({"date": "never"}, NOW) is None
        assert date_behind({}, NOW) is None

    @pytest.mark.parametrize("age", ["999999999999999", "315360000000"])
    def test_a_copy_of_an_absurd_age_tells_no_time(self, age):
        assert date_behind({"date": "Wed, 04 Mar 2026 11:58:00 GMT", "age": age}, NOW) is None

    @pytest.mark.parametrize("date", ["Mon, 01 Jan 0100 00:00:00 +2359", "Fri, 31 Dec 9999 23:59:59 -2359"])
    def test_a_date_at_the_edge_of_all_time_is_read_or_not_but_never_an_error(self, date):
        assert date_behind({"date": date}, NOW) is None or abs(date_behind({"date": date}, NOW)) > timedelta(days=365)
        assert retry_after(date, NOW) in {None, 0, 86_400}


class TestWords:
    @pytest.mark.parametrize(
        ("status", "body", "is_refusal"),
        [
            (429, b"", True),
            (200, b"Rate exceeded.", True),
            (503, b"Rate exceeded.", True),
            (200, b'{"error":"API rate limit exceeded","count":"4"}', True),
            (200, b'{"items":[{"title":"Rate exceeded."}]}', False),
            (200, b"<feed>Rate exceeded</feed>", False),
            (403, b"Rate exceeded.", False),
        ],
    )
    def test_some_say_too_fast_in_words(self, status, body, is_refusal):
        assert Answer(status, {}, body, 0.1).says_too_fast is is_refusal
