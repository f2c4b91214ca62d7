"""The circuit of each model, and what health says of them.

A circuit is of a model at an address with a key: who tries another of these is not held up by what went before, and
holds up nobody else.
"""

import hashlib
from contextlib import AbstractAsyncContextManager

import structlog

from penstock.kernel import error_codes
from penstock.kernel.breaker import Breaker, Circuit
from penstock.kernel.errors import PenstockError
from penstock.kernel.health import Check, ComponentStatus, Finding
from penstock.llm.faults import TransportFault
from penstock.llm.settings import LlmSettings

log = structlog.get_logger(__name__)


class Circuits:
    """One per process, over its breaker."""

    def __init__(self, breaker: Breaker, settings: LlmSettings) -> None:
        self._breaker = breaker
        self._policy = settings.breaker_policy()
        self._models = settings.models
        self._place = _place(settings)

    async def check(self, model: str) -> None:
        """LLM_CIRCUIT_OPEN before anybody waits for a turn; the probe after a pause is let through."""
        view = await self._breaker.look(self._key(model), self._policy)
        if view.state is Circuit.OPEN:
            wait = round(view.reopens_after, 3)
            raise PenstockError(error_codes.LLM_CIRCUIT_OPEN, key=self._key(model), retry_after=wait)

    def guard(self, model: str) -> AbstractAsyncContextManager[None]:
        """Only faults of the transport count; whatever else comes back proves that it works."""
        return self._breaker.guard(
            self._key(model), self._policy, faults=(TransportFault,), code=error_codes.LLM_CIRCUIT_OPEN
        )

    async def trip(self, model: str) -> None:
        """No call can succeed until somebody changes something."""
        log.error("llm.circuit_tripped", model=model)
        await self._breaker.trip(self._key(model), self._policy)

    async def find(self) -> Finding:
        """For health: one model that answers is enough to work, though it is worth a look."""
        views = [await self._breaker.look(self._key(model), self._policy) for model in self._models]
        closed = [view for view in views if view.state is not Circuit.OPEN]
        if len(closed) == len(views):
            return Finding()
        if closed:
            return Finding(ComponentStatus.DEGRADED, f"{len(closed)} of {len(views)} models answer")
        return Finding(ComponentStatus.CIRCUIT_OPEN, "calls to the model are paused")

    def _key(self, model: str) -> str:
        return f"llm:{model}:{self._place}"


def circuit_check(breaker: Breaker, settings: LlmSettings) -> Check:
    return Circuits(breaker, settings).find


def _place(settings: LlmSettings) -> str:
    """Stands for address and key in Redis and in errors, and tells neither."""
    said = f"{settings.base_url}\n{settings.api_key.get_secret_value()}"
    return hashlib.sha256(said.encode()).hexdigest()[:8]
