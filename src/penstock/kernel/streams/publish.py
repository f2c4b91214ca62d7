"""Writing events: one capped Redis Stream per topic, then one nudge that names the topics written.

A relay delivers at least once. The script drops the second copy of an event where it is written, so every
reader of a topic, on any server, live or replaying, sees each event once. Each call touches the keys of one
topic only, so a cluster can run it.
"""

from collections.abc import Sequence
from typing import Any

from redis.exceptions import ResponseError

from penstock.kernel import json
from penstock.kernel.redis import Keys, Redis, RedisConnectionError
from penstock.kernel.streams.event import KEPT_FAMILIES, StreamEvent, family
from penstock.kernel.streams.settings import StreamSettings

# KEYS: stream, remembered ids. ARGV: cap, seconds to live (0: for ever), then id, name, data of each event.
_APPEND = """
local cap, ttl = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local stamp = time[1] * 1000000 + time[2]
for i = 3, #ARGV, 3 do
  if redis.call('ZADD', KEYS[2], 'NX', string.format('%.0f', stamp + i), ARGV[i]) == 1 then
    redis.call('XADD', KEYS[1], 'MAXLEN', '~', cap, '*', 'n', ARGV[i + 1], 'd', ARGV[i + 2])
  end
end
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -cap - 1)
if ttl > 0 then
  redis.call('EXPIRE', KEYS[1], ttl)
  redis.call('EXPIRE', KEYS[2], ttl)
end
return 1
"""


class StreamPublisher:
    """Any process may publish; RedisAway when Redis is away or takes nothing: the batch may then be sent again."""

    def __init__(self, redis: Redis, keys: Keys, settings: StreamSettings) -> None:
        self._redis = redis
        self._keys = keys
        self._settings = settings

    async def publish(self, events: Sequence[StreamEvent]) -> None:
        """Order within a topic is the order of `events`."""
        written: dict[str, list[Any]] = {}
        for event in events:
            data = _with_origin(event)
            for topic in event.topics:
                written.setdefault(topic, []).extend((str(event.event_id), event.name, data))
        if not written:
            return
        pipeline = self._redis.pipeline(transaction=False)
        for topic, arguments in written.items():
            stream, seen = self._keys.stream(topic), self._keys.stream_seen(topic)
            limits = str(self._settings.stream_maxlen), str(self._lifetime(topic))
            pipeline.eval(_APPEND, 2, stream, seen, *limits, *arguments)
        pipeline.publish(self._keys.stream_nudge(), json.dumps(list(written)))
        try:
            await pipeline.execute()
        except ResponseError as refusal:
            if "WRONGTYPE" in str(refusal):  # this topic's key is no stream: a fault of these events alone
                raise
            raise RedisConnectionError(f"Redis takes nothing: {refusal}") from refusal

    def _lifetime(self, topic: str) -> int:
        return 0 if family(topic) in KEPT_FAMILIES else self._settings.stream_ttl_sec


def _with_origin(event: StreamEvent) -> bytes:
    origin = {"event_id": event.event_id}
    if event.merchant_id is not None:
        return json.dump_bytes({"merchant_id": event.merchant_id, **event.data, **origin})
    return json.dump_bytes({**event.data, **origin})
