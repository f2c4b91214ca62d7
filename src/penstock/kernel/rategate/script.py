"""Running `gate.lua`: one round trip, by its digest; the text is sent only to a server that lacks it."""

from importlib import resources
from typing import Any

import msgspec

from penstock.kernel.redis import Redis, running_script


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
    """`gate.lua`, run over one key."""

    def __init__(self, redis: Redis) -> None:
        self._script = redis.register_script(resources.files(__package__).joinpath("gate.lua").read_text("utf-8"))
        self._decoder = msgspec.msgpack.Decoder(Reply)

    async def run(self, key: str, operation: str, policy: bytes, ask: dict[str, Any]) -> Reply:
        with running_script():
            answer = await self._script([key], [operation, policy, msgspec.msgpack.encode(ask)])
        return self._decoder.decode(answer)
