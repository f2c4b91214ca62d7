"""Settings of language models. Address, key and name are enough; the rest has defaults that hold back."""

from datetime import timedelta
from typing import Self

from pydantic import ByteSize, Field, NonNegativeInt, PositiveInt, SecretStr, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from penstock.kernel.breaker import BreakerPolicy
from penstock.kernel.rategate import RatePolicy
from penstock.kernel.settings import SettingsGroup
from penstock.llm.tokens import Price

_SUFFIX = "/chat/completions"


class LlmSettings(SettingsGroup):
    """Which language model to ask, what it may cost, and how patient to be with it."""

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_LLM_")

    base_url: str = Field("", description="Address of an OpenAI-compatible endpoint, http(s)://…/v1; empty: no model")
    api_key: SecretStr = Field(SecretStr(""), description="Its key; empty for endpoints that want none")
    model: str = Field("", description="Names of models in order of preference, separated by commas")
    prices: str = Field(
        "", description="What a million tokens cost in micro-dollars: MODEL=IN/OUT, separated by commas"
    )
    daily_budget_micro_usd: NonNegativeInt = Field(
        20_000_000, description="What all calls of a day (UTC) may cost; needs prices"
    )
    merchant_budget_micro_usd: NonNegativeInt = Field(
        5_000_000, description="What the calls of one merchant may cost in a day (UTC); needs prices"
    )
    qpm: PositiveInt = Field(300, description="Requests to one model in a minute")
    tpm: NonNegativeInt = Field(0, description="Tokens to and from one model in a minute; 0: not counted")
    max_output_tokens: PositiveInt = Field(
        4096, description="Longest answer in tokens, unless the caller says otherwise"
    )
    max_answer: ByteSize = Field(ByteSize(4 << 20), description="Longest answer in bytes; what is longer is dropped")
    temperature: float | None = Field(0.0, ge=0, le=2, description="How freely the model chooses its words")
    connect_timeout: timedelta = Field(
        timedelta(seconds=10), gt=timedelta(0), description="How long connecting may take"
    )
    timeout: timedelta = Field(
        timedelta(seconds=180), gt=timedelta(0), description="How long one whole answer may take"
    )
    attempts: PositiveInt = Field(3, description="How often one call is sent while it fails in a way that may pass")
    retry_pause: timedelta = Field(timedelta(seconds=0.5), description="Pause before the second attempt; then doubled")
    patience: timedelta = Field(
        timedelta(seconds=60),
        description="Longest wait for a rate limit or a Retry-After; beyond it the call is given up",
    )
    breaker_failures: PositiveInt = Field(5, description="Failures in a row after which calls to a model pause")
    breaker_ratio: float = Field(0.5, gt=0, le=1, description="Or this share of at least 20 calls within a minute")
    breaker_pause: timedelta = Field(timedelta(seconds=30), gt=timedelta(0), description="How long calls pause then")

    @field_validator("base_url")
    @classmethod
    def _is_web(cls, value: str) -> str:
        value = value.strip().rstrip("/").removesuffix(_SUFFIX)
        if value and not value.startswith(("http://", "https://")):
            raise ValueError("must start with http:// or https://")
        return value

    @field_validator("api_key")
    @classmethod
    def _fits_into_a_header(cls, value: SecretStr) -> SecretStr:
        plain = value.get_secret_value().strip()
        if not plain.isascii() or not plain.isprintable() or " " in plain:
            raise ValueError("a key has visible ASCII characters only")
        return SecretStr(plain)

    @model_validator(mode="after")
    def _prices_fit(self) -> Self:
        priced = self._priced()
        without = [name for name in self.models if priced and name not in priced]
        if without:
            raise ValueError(f"PENSTOCK_LLM_PRICES says nothing of {', '.join(without)}: its budget could not be held")
        budgets = {"daily_budget_micro_usd", "merchant_budget_micro_usd"} & self.model_fields_set
        if budgets and self.models and not priced:
            raise ValueError(f"{self.variable(min(budgets))} can only be held with PENSTOCK_LLM_PRICES")
        return self

    @property
    def is_configured(self) -> bool:
        return bool(self.base_url and self.models)

    @property
    def models(self) -> tuple[str, ...]:
        names = (name.strip() for name in self.model.split(","))
        return tuple(dict.fromkeys(name for name in names if name))

    def price_of(self, model: str) -> Price:
        return self._priced().get(model, Price())

    def budgets_of(self, merchant_id: str | None) -> dict[str, int]:
        """What each scope may spend today."""
        scopes = {"llm:daily": self.daily_budget_micro_usd}
        if merchant_id is not None:
            scopes[f"llm:merchant:{merchant_id}"] = self.merchant_budget_micro_usd
        return scopes

    def breaker_policy(self) -> BreakerPolicy:
        return BreakerPolicy(
            failures=self.breaker_failures,
            ratio=self.breaker_ratio,
            pause=self.breaker_pause.total_seconds(),
            probe_time=self.timeout.total_seconds() + self.connect_timeout.total_seconds(),
        )

    def request_policy(self) -> RatePolicy:
        return _per_minute(self.qpm, burst=max(1, self.qpm // 10))

    def token_policy(self) -> RatePolicy | None:
        return _per_minute(self.tpm, burst=max(1, self.tpm // 2)) if self.tpm else None

    def _priced(self) -> dict[str, Price]:
        found = {}
        for entry in filter(None, (part.strip() for part in self.prices.split(","))):
            model, _, price = entry.rpartition("=")
            into, _, out = price.partition("/")
            if not (model.strip() and into.strip().isdecimal() and out.strip().isdecimal()):
                raise ValueError(f"PENSTOCK_LLM_PRICES: {entry!r} should read MODEL=IN/OUT, as in small=150000/600000")
            found[model.strip()] = Price(int(into), int(out))
        return found


def _per_minute(permits: int, *, burst: int) -> RatePolicy:
    """A full bucket and what flows in during a minute are together no more than was promised for a minute."""
    rate = max(permits - burst, 1) / 60
    return RatePolicy(rate=rate, burst=burst, min_rate=rate / 16)
