"""Three settings are enough; wrong ones are told apart before anything runs."""

import pytest
from pydantic import ValidationError

from penstock.kernel.settings import SettingsError, SettingsFile
from penstock.llm import LlmSettings

THREE = {"base_url": "https://models.example/v1", "api_key": "sk-1", "model": "small"}


class TestSettingUp:
    def test_three_settings_are_enough(self):
        given = LlmSettings(**THREE)
        assert given.is_configured
        assert given.models == ("small",)
        assert given.price_of("small").cost(10**6, 10**6) == 0

    @pytest.mark.parametrize("missing", ["base_url", "model"])
    def test_without_an_address_or_a_name_there_is_no_model(self, missing):
        assert not LlmSettings(**{**THREE, missing: ""}).is_configured

    def test_an_endpoint_may_want_no_key(self):
        assert LlmSettings(base_url="http://127.0.0.1:8000/v1", model="m").is_configured

    def test_the_whole_address_is_taken_too(self):
        given = LlmSettings(**{**THREE, "base_url": "https://models.example/v1/chat/completions/"})
        assert given.base_url == "https://models.example/v1"

    def test_models_are_in_order_and_once(self):
        assert LlmSettings(**{**THREE, "model": "b, a ,b,,c"}).models == ("b", "a", "c")


class TestRefusing:
    @pytest.mark.parametrize("key", ["two words", "schlüssel", "a\nb"])
    def test_a_key_that_fits_into_no_header_is_refused_and_not_shown(self, monkeypatch, key):
        monkeypatch.setenv("PENSTOCK_LLM_API_KEY", key)
        with pytest.raises(SettingsError, match="visible ASCII") as refusal:
            SettingsFile(None).load(LlmSettings)
        assert key not in str(refusal.value)

    def test_an_address_of_another_kind_is_refused(self):
        with pytest.raises(ValidationError, match="http://"):
            LlmSettings(**{**THREE, "base_url": "ftp://x"})

    @pytest.mark.parametrize("prices", ["small", "small=1", "small=1/x", "=1/2", "small=-1/2"])
    def test_prices_that_cannot_be_read_are_refused(self, prices):
        with pytest.raises(ValidationError, match="MODEL=IN/OUT"):
            LlmSettings(**THREE, prices=prices)

    def test_a_model_without_a_price_among_priced_ones_is_refused(self):
        with pytest.raises(ValidationError, match="nothing of small"):
            LlmSettings(**THREE, prices="large=1/2")

    @pytest.mark.parametrize("budget", ["daily_budget_micro_usd", "merchant_budget_micro_usd"])
    def test_a_budget_that_could_not_be_held_is_refused(self, budget):
        with pytest.raises(ValidationError, match=f"PENSTOCK_LLM_{budget.upper()} can only be held"):
            LlmSettings(**THREE, **{budget: 5})


class TestPrices:
    def test_names_with_strokes_and_equals_signs_have_prices_too(self):
        given = LlmSettings(**{**THREE, "model": "lab/m=1"}, prices=" lab/m=1 = 150000 / 600000 ")
        assert given.price_of("lab/m=1").cost(100, 20) == 27

    def test_a_part_of_a_micro_dollar_is_a_whole_one(self):
        assert LlmSettings(**THREE, prices="small=1/1").price_of("small").cost(1, 0) == 1


class TestPace:
    @pytest.mark.parametrize("qpm", [1, 2, 7, 60, 500, 10_000])
    def test_a_minute_never_has_more_than_promised(self, qpm):
        policy = LlmSettings(**THREE, qpm=qpm).request_policy()
        assert policy.burst + policy.rate * 60 <= max(qpm, 2) + 1e-6

    def test_tokens_are_counted_only_if_wanted(self):
        assert LlmSettings(**THREE).token_policy() is None
        policy = LlmSettings(**THREE, tpm=90_000).token_policy()
        assert policy.burst + policy.rate * 60 == pytest.approx(90_000)
