"""Few-shot examples, remembered for a few minutes: whoever keeps them is not asked again for every document."""

from collections.abc import Awaitable, Callable, Sequence

import msgspec
import structlog

from penstock.kernel import json
from penstock.kernel.redis import Keys, Redis, RedisTrouble
from penstock.llm.ports import Example

log = structlog.get_logger(__name__)

Load = Callable[[], Awaitable[Sequence[Example]]]

KEPT_SECONDS = 300
_decoder = msgspec.json.Decoder(list[Example])


class Examples:
    """One per process. Redis is only a memory: without it, or with rubbish in it, the loader is asked."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys

    async def of(self, template: str, category: str, load: Load) -> Sequence[Example]:
        """By a name for what never changes: what was remembered is not looked up again."""
        key = self._keys.fewshot(template, category)
        if (kept := await self._kept(key)) is not None:
            return kept
        loaded = await load()
        try:
            await self._redis.set(key, json.dump_bytes(list(loaded)), ex=KEPT_SECONDS)
        except RedisTrouble:
            log.info("examples.not_kept", template=template)
        return loaded

    async def _kept(self, key: str) -> Sequence[Example] | None:
        try:
            found = await self._redis.get(key)
            return None if found is None else _decoder.decode(found)
        except (*RedisTrouble, msgspec.DecodeError):
            return None
