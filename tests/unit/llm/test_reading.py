"""Headers, envelopes and guesses: what is read from outside, and what is read in vain."""

from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.standins.openai_like import completion

from penstock.kernel import json
from penstock.llm.answers import Limits, NotReadable, completion_of, duration, json_in, limits_of, retry_after
from penstock.llm.faults import Spent, TransportFault, failure_of
from penstock.llm.tokens import estimate_tokens

CALM = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
NOW = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


class TestRetryAfter:
    @pytest.mark.parametrize(
        ("headers", "seconds"),
        [
            ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
            ({"retry-after": "9"}, 9),
            ({"retry-after": "0.25"}, 0.25),
            ({"retry-after": "Wed, 04 Mar 2026 12:01:00 GMT"}, 60),
            ({"retry-after": "Wed, 04 Mar 2026 11:00:00 GMT"}, 0),
            ({"retry-after": "999999999999"}, 86_400),
            ({"retry-after": "soon"}, None),
            ({"retry-after": "-1"}, None),
            ({"retry-after-ms": "nan"}, None),
            ({}, None),
        ],
    )
    def test_milliseconds_seconds_and_dates_are_read_and_nonsense_is_not(self, headers, seconds):
        assert retry_after(headers, NOW) == seconds


class TestLimits:
    @pytest.mark.parametrize(
        ("text", "seconds"),
        [("1s", 1), ("6m0s", 360), ("20ms", 0.02), ("1h2m3.5s", 3723.5), ("7", 7), ("", None), ("6x", None)],
    )
    def test_durations(self, text, seconds):
        assert duration(text) == seconds

    def test_they_are_read_from_their_headers(self):
        headers = {
            "x-ratelimit-remaining-requests": "59",
            "x-ratelimit-reset-requests": "1s",
            "x-ratelimit-remaining-tokens": "none",
            "x-ratelimit-reset-tokens": "6m0s",
        }
        assert limits_of(headers, NOW) == Limits(None, 59, 1, None, 360)


class TestEnvelopes:
    @CALM
    @given(JSON)
    def test_whatever_comes_is_a_completion_or_none(self, said):
        try:
            found = completion_of(said, None, Limits())
        except NotReadable:
            return
        assert isinstance(found.content, str)

    def test_content_in_parts_is_joined(self):
        said = completion("x")
        said["choices"][0]["message"]["content"] = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, 3]
        assert completion_of(said, None, Limits()).content == "ab"

    def test_ids_are_words(self):
        said = completion("x") | {"id": "r\n1" + "x" * 500}
        assert completion_of(said, None, Limits()).request_id == "r1" + "x" * 125


class TestJsonInText:
    @CALM
    @given(JSON)
    def test_json_is_found_as_it_is_and_in_a_fence(self, value):
        text = json.dumps(value)
        assert json_in(text) == value
        if isinstance(value, dict | list):
            assert json_in(f"Sure!\n```json\n{text}\n```") == value

    @pytest.mark.parametrize("text", ["", "no", "{", '{"a": 1} trailing', "NaN", "[" * 5000])
    def test_anything_else_is_not(self, text):
        with pytest.raises(NotReadable):
            json_in(text)


class TestRefusals:
    @CALM
    @given(st.integers(300, 599), JSON)
    def test_every_status_and_body_has_a_meaning(self, status, said):
        failed = failure_of(status, said, "")
        assert failed.code.code.startswith("LLM_")
        assert failed.spent is Spent.NOTHING
        if isinstance(failed, TransportFault):
            assert status == 408 or status >= 500


class TestGuessing:
    @pytest.mark.parametrize(
        ("text", "real"),
        [
            ("The quick brown fox jumps over the lazy dog.", 10),
            ("2024-03-05 12:45:10 1,234,567.89", 30),  # a token for nearly each sign, at the worst
            ("发票号码：一二三四五六七八", 13),
            ('{"name": "value", "list": [1, 2, 3]}', 20),
        ],
    )
    def test_guesses_are_high_but_not_absurd(self, text, real):
        assert real <= estimate_tokens(text) <= 3 * real

    @CALM
    @given(st.text(), st.text())
    def test_more_text_is_never_fewer_tokens(self, one, other):
        assert estimate_tokens(one + other) >= estimate_tokens(one)
