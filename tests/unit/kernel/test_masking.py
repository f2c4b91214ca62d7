"""No marked secret ever survives, whatever it stands in; what is harmless stays readable."""

import json
import time
from datetime import UTC, datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from penstock.kernel.telemetry.masking import LONGEST_TEXT, Masker

MASKER = Masker(b"test")

IDENTITY_NUMBERS = ["11010519491231002X", "440308199901101512", "110101199003074514"]
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
SECRETS = st.text(LETTERS + "-_.~+/", min_size=8, max_size=60).map(lambda text: f"Zq{text}7")  # no word of prose
PLAIN_SECRETS = st.text(LETTERS, min_size=10, max_size=60).map(lambda text: f"Zq{text}7")
PASSWORDS = st.text(LETTERS + "!$%^*()[]{},;:|~./?#", min_size=4, max_size=30).map(lambda text: f"Zq{text}q7")
WORDS = st.text("abc 中文\n\t,.;()[]{}<>=&/'\"\\", max_size=40)

NAMES = [
    "Authorization", "proxy-authorization", "token", "access_token", "accessToken", "refresh-token", "secret",
    "client_secret", "password", "passwd", "api_key", "X-API-Key", "apikey", "Cookie", "Set-Cookie", "session_id",
    "X-Goog-Signature", "X-Goog-Credential", "X-Amz-Signature", "X-Amz-Security-Token", "sig", "private_key",
    "PENSTOCK_JWT_SECRET", "AWS_SECRET_ACCESS_KEY", "AWSAccessKeyId", "pwd", "otp",
]  # fmt: skip
ASSIGNED = [
    "{name}={secret}", "{name}: {secret}", "?x=1&{name}={secret}&y=2", "'{name}': '{secret}'", '"{name}": "{secret}"',
    '{{\\"{name}\\": \\"{secret}\\"}}', "(b'{name}', b'{secret}')", "{name} = {secret}", "{name}=>{secret}",
    "<{name}>{secret}</{name}>", '{name}="{secret} {secret}"', "--{name} {secret}", "--{name}={secret}",
]  # fmt: skip
CARRIED = [
    "Bearer {secret}", "bearer   {secret}", "Authorization: Bearer {secret}", "https://user:{secret}@host/path",
    "redis://:{secret}@host:6379/0", "postgresql://{secret}@host/db", "eyJhbGciOi.{secret}.{secret}",
    "-----BEGIN RSA PRIVATE KEY-----\n{secret}\n-----END RSA PRIVATE KEY-----", "sk-abcdefghijklmnopqrst{secret}",
]  # fmt: skip


@st.composite
def emails(draw: st.DrawFn) -> str:
    person = draw(st.text(LETTERS + "._+-", min_size=1, max_size=30))
    return f"{person}@mail-{draw(st.integers(0, 99))}.example.com"


@st.composite
def phones(draw: st.DrawFn) -> str:
    digits = draw(st.sampled_from("3456789")) + draw(st.text("0123456789", min_size=9, max_size=9))
    number = f"1{digits}"
    separator = draw(st.sampled_from(["", " ", "-"]))
    prefix = draw(st.sampled_from(["", "+86", "86", "+86 ", "+86-", "0086"]))
    return prefix + separator.join([number[:3], number[3:7], number[7:]])


def survives(secret: str, masked: object) -> bool:
    return secret in json.dumps(masked, ensure_ascii=False)


def nested(value: object) -> list[object]:
    """The places a value may hide in."""
    return [
        value,
        {"a": [{"b": (value, 1)}]},
        [[value]],
        {f"{value}": 1},
        ValueError(f"failed: {value}"),
        {"error": RuntimeError("outer", ValueError(value))},
        {value},
    ]


class TestSecrets:
    @settings(max_examples=400)
    @given(name=st.sampled_from(NAMES), secret=SECRETS, value=st.sampled_from(ASSIGNED), before=WORDS, after=WORDS)
    def test_what_is_assigned_to_a_secret_name_never_survives_in_text(self, name, secret, value, before, after):
        text = f"{before} {value.format(name=name, secret=secret)} {after}"
        assert not survives(secret, MASKER.text(text))

    @settings(max_examples=200)
    @given(shape=st.sampled_from(CARRIED), secret=PLAIN_SECRETS, before=WORDS, after=WORDS)
    def test_what_looks_secret_never_survives_wherever_it_stands(self, shape, secret, before, after):
        text = f"{before} {shape.format(secret=secret)} {after}"
        for place in nested(text):
            assert not survives(secret, MASKER.value(place))

    @given(password=PASSWORDS)
    @example("Zqp@s/s:w7")
    def test_any_password_of_a_connection_address_is_hidden(self, password):
        assert not survives(password, MASKER.text(f"cannot reach redis://user:{password}@host:6379/0 now"))

    @settings(max_examples=200)
    @given(name=st.sampled_from(NAMES), secret=st.one_of(PASSWORDS, st.integers(10**5, 10**9)))
    def test_what_stands_under_a_secret_name_never_survives(self, name, secret):
        if isinstance(secret, int) and name.lower().endswith("token"):
            return  # a count or a fencing number
        for key in (name, name.upper(), name.encode()):
            assert not survives(str(secret), MASKER.value({"headers": {key: secret}}))
            assert not survives(str(secret), MASKER.value({"headers": {key: [secret]}}))
            assert not survives(str(secret), MASKER.value({"headers": [(key, secret)]}))

    @given(quoted=st.text(LETTERS + "\"'\\\n ", min_size=6, max_size=40).map(lambda text: f"Zq{text}q7"))
    def test_quotes_inside_a_quoted_secret_do_not_end_it(self, quoted):
        shown = json.dumps({"token": quoted, "x": 1})
        for text in (shown, json.dumps({"body": shown}), f"{ {'password': quoted} }"):
            masked = MASKER.text(text)
            assert "Zq" not in masked
            assert "q7" not in masked

    def test_a_secret_cut_by_the_length_limit_does_not_show_its_beginning(self):
        for secret in (
            "token=ZqSecretZqSecretZqSecret",
            "zq.person@example.com",
            "138 1234 5678",
            "redis://:ZqSecret@h",
        ):
            for short in range(0, len(secret) + 2, 3):
                text = "x " * 10 + "y" * (LONGEST_TEXT - 20 - short - 1) + " " + secret + " tail"
                masked = MASKER.text(text)
                for part in ("Zq", "zq.per", "138 1"):
                    assert part not in masked


class TestPeople:
    @given(
        email=emails(),
        before=st.sampled_from(["", "to ", "<", "mailto:", "邮箱：", "email="]),
        after=st.sampled_from(["", ".", ">", "，谢谢", " x"]),
    )
    def test_an_email_address_never_survives(self, email, before, after):
        for place in nested(f"{before}{email}{after}"):
            masked = MASKER.value(place)
            assert not survives(email, masked)
            assert not survives(email.split("@")[1], masked)

    @given(
        phone=phones(),
        before=st.sampled_from(["", "call ", "tel:", "手机", "phone"]),
        after=st.sampled_from(["", ".", "。", "号", " x"]),
    )
    def test_a_chinese_mobile_number_never_survives(self, phone, before, after):
        for place in nested(f"{before}{phone}{after}"):
            assert not survives(phone, MASKER.value(place))
            assert not survives(phone[-9:], MASKER.value(place))

    @pytest.mark.parametrize("number", [*IDENTITY_NUMBERS, "11010519491231002x"])
    def test_an_identity_number_never_survives(self, number):
        for text in (number, f"身份证{number}，", f"id={number}&x", f"[{number}]"):
            assert number[:17] not in MASKER.text(text)

    def test_a_number_with_the_wrong_check_digit_is_no_identity_number(self):
        assert MASKER.text("order 110105194912310021") == "order 110105194912310021"

    @pytest.mark.parametrize(
        "phone", ["+1 (415) 555-2671", "(415) 555-2671", "415-555-2671", "010-12345678", "+44 20 7946 0958"]
    )
    def test_other_telephone_numbers_are_masked(self, phone):
        assert MASKER.text(f"call {phone} now").startswith("call <phone#")
        assert phone not in MASKER.text(f"{phone} {phone}")

    def test_a_mobile_number_given_as_a_number_is_masked(self):
        assert MASKER.value({"mobile": 13812345678})["mobile"].startswith("<phone#")


class TestComparing:
    def test_equal_values_have_equal_masks_however_they_are_written(self):
        assert MASKER.text("13812345678") == MASKER.text("138 1234 5678") == MASKER.text("+86 138-1234-5678")
        assert MASKER.text("Bob@Example.com") == MASKER.text("bob@example.com") != MASKER.text("rob@example.com")
        assert MASKER.text("token=abc").removeprefix("token=") == MASKER.value({"token": "abc"})["token"]

    def test_masks_differ_between_keys_and_between_processes_without_a_key(self):
        one, two = Masker(b"one"), Masker(b"two")
        assert one.text("bob@example.com") != two.text("bob@example.com")
        assert Masker().text("bob@example.com") != Masker().text("bob@example.com")
        assert Masker(b"one").text("bob@example.com") == one.text("bob@example.com")

    @given(text=st.text(max_size=200), secret=SECRETS, value=st.sampled_from(ASSIGNED))
    def test_masking_twice_hides_no_less(self, text, secret, value):
        once = MASKER.text(text + " " + value.format(name="token", secret=secret))
        assert not survives(secret, MASKER.text(once))


class TestReadability:
    HARMLESS = (
        "job 8f14e45f-ceea-467f-a1d0-138123456789 finished in 12.5 ms, 31 pages",
        "2026-11-15T03:48:55.123456+00:00 and 2026-11-15 03:48:55",
        "sha256/ab/cd/ab13812345678def13812345678def13812345678def13812345678defabcd1",
        "worker host-1:4242 on 127.0.0.1:8000, 10.0.0.12 -> 192.168.100.200",
        "memory_footprint=5 monkey: 5 token_count=7 signature_algorithm=HS256 order_key=j1",
        "GET /jobs/42?page=3&size=100 200 1024",
        "basic authentication is off",
        "https://example.com:8443/a/b?c=d",
    )

    @pytest.mark.parametrize("text", HARMLESS)
    def test_harmless_text_stays_as_it_is(self, text):
        assert MASKER.text(text) == text

    def test_harmless_structures_stay_as_they_are(self):
        value = {
            "lease_token": 7,
            "tokens": 512,
            "secret": None,
            "token": "",
            "password_required": True,
            "at": 1763178535000,
        }
        assert MASKER.value(value) == value

    def test_what_is_not_json_becomes_text(self):
        now = datetime(2026, 1, 1, tzinfo=UTC)
        masked = MASKER.value({"at": now, "raw": b"abc", "set": {1}, "secret": SecretStr("x"), "type": int, 5: 6})
        assert masked["at"] == "2026-01-01T00:00:00+00:00"
        assert masked["raw"] == "<3 bytes>"
        assert (masked["set"], masked["5"]) == ([1], 6)

    def test_control_characters_cannot_forge_a_terminal_or_a_line(self):
        assert "\x1b" not in MASKER.text("\x1b[31mred")
        for sly in ("\x9b", "\x85", "\u2028", "\u202e", "\u2066"):  # of eight bits, line ends, turned writing
            assert sly not in MASKER.text(f"a{sly}31mred")

    def test_what_cannot_be_shown_does_not_break_the_line(self):
        class Broken:
            def __repr__(self) -> str:
                raise RuntimeError("token=abc")

        assert MASKER.value(Broken()) == "<Broken, which cannot be shown: RuntimeError>"


class TestCost:
    HOSTILE = (
        "a", "1", " ", "token", "token=", 'token="', "://", "://a:", "a@", "a.", "+1 ", "138-", "bearer ", "0a",
        "eyJa.", "-----BEGIN ", "token=\\", "\\", "access-", "--a ", "token=a&", "1" * 17, "a%40", "(1", "'", "\x00",
    )  # fmt: skip

    @pytest.mark.parametrize("piece", HOSTILE)
    def test_a_hostile_text_of_any_length_costs_little(self, piece):
        text = piece * (1_000_000 // len(piece))
        started = time.process_time()
        masked = MASKER.text(text)
        assert time.process_time() - started < 0.5
        assert len(masked) < 8 * LONGEST_TEXT

    def test_a_hostile_structure_is_cut(self):
        deep: object = "end"
        for _ in range(5_000):
            deep = [deep]
        wide = {str(n): list(range(100)) for n in range(10_000)}
        started = time.process_time()
        assert len(json.dumps(MASKER.value({"deep": deep, "wide": wide, "huge": 10**4000}))) < 100_000
        assert time.process_time() - started < 0.5
