"""Few-shot examples, remembered for a few minutes: whoever keeps them is not asked again for every page."""

from collections.abc import Awaitable, Callable, Sequence

import msgspec
import structlog

from penstock.kernel import json
from penstock.kernel.redis import Keys, Redis, RedisTrouble

log = structlog.get_logger(__name__)

Pairs = Sequence[tuple[str, str]]  # what was given, what was answered
Load = Callable[[str, str], Awaitable[Pairs]]  # by template and category

KEPT_SECONDS = 300
_decoder = msgspec.json.Decoder(list[tuple[str, str]])


class Examples:
    """One per process. Redis is only a memory: without it, or with rubbish in it, the loader is asked."""

    def __init__(self, redis: Redis, keys: Keys, load: Load) -> None:
        self._redis = redis
        self._keys = keys
        self._load = load

    async def of(self, template: str, category: str) -> Pairs:
        key = self._keys.fewshot(template, category)
        if (kept := await self._kept(key)) is not None:
            return kept
        pairs = [(given, answered) for given, answered in await self._load(template, category)]
        try:
            await self._redis.set(key, json.dump_bytes(pairs), ex=KEPT_SECONDS)
        except RedisTrouble:
            log.info("examples.not_kept", template=template)
        return pairs

    async def _kept(self, key: str) -> Pairs | None:
        try:
            found = await self._redis.get(key)
            return None if found is None else _decoder.decode(found)
        except (*RedisTrouble, msgspec.DecodeError):
            return None
