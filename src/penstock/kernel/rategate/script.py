"""Running `gate.lua`: one round trip, by its digest; the text is sent only to a server that lacks it."""

import hashlib
from importlib import resources
from typing import Any

import msgspec
from redis.exceptions import NoScriptError, OutOfMemoryError, ReadOnlyError

from penstock.kernel.redis import Redis, RedisAway

# A server that cannot write is as far away as one that does not answer.
CannotServe = (*RedisAway, OutOfMemoryError, ReadOnlyError)


class Window(msgspec.Struct):
    """A quota window: what is left, and when it ends (microseconds)."""

    left: float
    ends: float


class Reply(msgspec.Struct):
    """The script's answer; times in microseconds."""

    kind: str
    wait: float = 0
    at: float = 0
    rate: float = 0
    level: float = 0
    cool: float = 0
    reason: str | None = None
    place: int | None = None
    epoch: int | None = None
    leased: int = 0
    permits: int = 0
    windows: dict[str, Window] = {}


class Script:
    """A Lua file of a package, run over one key."""

    def __init__(self, redis: Redis, name: str) -> None:
        self._redis = redis
        self._text = resources.files(__package__).joinpath(name).read_text("utf-8")
        self._digest = hashlib.sha1(self._text.encode(), usedforsecurity=False).hexdigest()
        self._decoder = msgspec.msgpack.Decoder(Reply)

    async def run(self, key: str, operation: str, policy: bytes, ask: dict[str, Any]) -> Reply:
        arguments: tuple[Any, ...] = (1, key, operation, policy, msgspec.msgpack.encode(ask))
        try:
            answer = await self._redis.evalsha(self._digest, *arguments)  # type: ignore[misc]
        except NoScriptError:
            answer = await self._redis.eval(self._text, *arguments)  # type: ignore[misc]
        return self._decoder.decode(answer)
