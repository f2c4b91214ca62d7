"""Secrets and people's addresses in what is stored of a call."""

import base64
import json
from urllib.parse import quote, quote_plus

import pytest

from penstock.harvest.calling.masking import Mask

SECRET = 'k3y/+"with ünusual&letters=='


class TestSecrets:
    @pytest.mark.parametrize(
        "spelled",
        [
            SECRET,
            quote(SECRET, safe=""),
            quote(SECRET, safe="").lower(),
            quote_plus(SECRET),
            json.dumps({"key": SECRET}),
            json.dumps({"key": SECRET}, ensure_ascii=False),
            base64.b64encode(SECRET.encode()).decode(),
            base64.urlsafe_b64encode(SECRET.encode()).decode(),
            base64.b64encode(f"id:{SECRET}".encode()).decode(),
            base64.b64encode(f"i:{SECRET}!".encode()).decode(),
            base64.b64encode(f":{SECRET}".encode()).decode(),
        ],
    )
    def test_every_spelling_is_found(self, spelled):
        masked = Mask([SECRET]).text(f"before {spelled} after")
        assert "<masked>" in masked
        assert "ünusual" not in masked
        assert base64.b64encode(SECRET.encode()).decode()[4:12] not in masked
        assert masked.startswith("before")

    def test_values_inside_of_objects_are_found(self):
        assert Mask(["hushhush"]).value({"a": ["x hushhush", {"hushhush": b"hushhush", "n": 1}]}) == {
            "a": ["x <masked>", {"<masked>": "<masked>", "n": 1}]
        }

    def test_a_short_secret_is_only_found_as_a_word(self):
        assert Mask(["ab"]).secrets("ab cab ab") == "<masked> cab <masked>"

    def test_without_secrets_nothing_changes(self):
        assert Mask().secrets("as it is") == "as it is"
        assert Mask([""]).secrets("as it is") == "as it is"


class TestSamples:
    def test_a_sample_is_short_and_holds_no_half_of_a_secret(self):
        secret = "S" * 40
        for before in range(990, 1030):
            sample = Mask([secret]).sample(b"." * before + secret.encode() + b"tail")
            assert len(sample.encode()) <= 1024
            assert "SS" not in sample

    def test_nothing_at_the_edge_of_what_is_read_is_shown_when_masks_are_shorter_than_what_they_hide(self):
        password = "passphrase" * 40
        for before in range(0, 2_400, 97):
            body = b"token=" + b"x" * before + b" https://ada:" + password.encode() + b"@example.org " + b"." * 20_000
            assert "phrase" not in Mask().sample(body)
            assert "phrase" not in Mask(["x" * 50]).sample(body)

    def test_a_sample_of_masks_is_filled_from_further_on(self):
        body = b" ".join(b"token=" + b"x" * 400 for _ in range(40))
        assert len(Mask().sample(body)) > 500

    def test_addresses_of_people_are_masked(self):
        sample = Mask().sample(b'{"email": "ada@example.org", "phone": "+44 20 7946 0958"}')
        assert "ada@example.org" not in sample
        assert "7946" not in sample

    def test_bytes_that_are_no_text_do_no_harm(self):
        assert "\x00" not in Mask().sample(bytes(range(256)) * 100)


class TestLinks:
    def test_a_parameter_that_holds_a_secret_is_left_out_and_the_rest_stays_as_it_was(self):
        mask = Mask(["hush/hush"])
        assert mask.link("https://a.org/w?q=a%20b&key=hush%2Fhush&page=2#top") == "https://a.org/w?q=a%20b&page=2"
        assert mask.link("https://a.org/w?key=hush%2Fhush") == "https://a.org/w"
        assert mask.link("https://a.org/hush/hush/w?page=2") == "https://a.org/<masked>/w?page=2"

    def test_a_link_without_secrets_is_not_touched(self):
        assert Mask(["hushhush"]).link("https://a.org/w?q=a#b") == "https://a.org/w?q=a#b"
        assert Mask().link("https://a.org/w?q=a#b") == "https://a.org/w?q=a#b"
