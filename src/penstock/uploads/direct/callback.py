"""The bucket's notifications, as Pub/Sub pushes them: at least once, in any order, late, and not always sane.

What cannot be understood is kept for people and acknowledged, for it would be no better the next time. Only trouble
of our own raises, so that the message comes again.
"""

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import structlog

from penstock.kernel import failpoints, json
from penstock.kernel.errors import reason_of
from penstock.uploads.direct import metrics, store
from penstock.uploads.direct.desk import DirectDesk
from penstock.uploads.direct.finishing import News, Outcome, judge
from penstock.uploads.direct.ports import ObjectFacts, md5_hex
from penstock.uploads.direct.settings import ASIDE

log = structlog.get_logger(__name__)
IGNORED, DEAD = "ignored", "dead"
_KEPT_BYTES = 64 * 1024
_LONGEST = 1024
_LONGEST_OF = {"bucket": 222, "name": 1024, "generation": 20, "size": 20}  # bytes, as buckets count
_MOST_BYTES = 2**63 - 1


class _Malformed(Exception):
    """Says what is wrong with a message."""


async def receive(desk: DirectDesk, body: bytes) -> str:
    """What came of it: an `Outcome`, `ignored` or `dead`."""
    try:
        event, message_id, facts = _read(body)
    except _Malformed as wrong:
        await _bury(desk, body, str(wrong))
        return _counted(DEAD)
    if event != "OBJECT_FINALIZE":
        return _counted(IGNORED)
    if facts is None:
        await _bury(desk, body, "there is no description of the object")
        return _counted(DEAD)
    bucket = desk.open_bucket()
    news = News(facts, "callback", bucket.reference(facts), message_id)
    failpoints.reach("direct.received")
    async with desk.database.transaction() as tx:
        outcome, row = await judge(tx, desk.settings, news)
    failpoints.reach("direct.recorded")
    told(desk, news, outcome, row)
    if outcome in (Outcome.COMPLETED, Outcome.MISMATCH):
        await desk.wake()
    return _counted(outcome)


def told(desk: DirectDesk, news: News, outcome: Outcome, row: Mapping[str, Any] | None) -> None:
    """For operators, whoever brought the news: one line with all that an upload can be searched by."""
    facts = news.facts
    whose = {"upload": str(row["upload_id"]), "user": str(row["user_id"])} if row else {}
    log.info(
        "direct.object_heard_of", outcome=outcome, by=news.by, object=facts.name, generation=facts.generation,
        message=news.message_id, **whose,
    )  # fmt: skip
    if outcome is Outcome.COMPLETED and facts.finished_at is not None:
        metrics.CALLBACK_DELAY.observe(max(0.0, (desk.clock.now() - facts.finished_at).total_seconds()))
    if outcome is Outcome.MISMATCH:
        metrics.MD5_MISMATCHES.inc()
    if outcome is Outcome.SUPERSEDED:
        metrics.OVERWRITES.inc()
    if outcome in (Outcome.SUPERSEDED, Outcome.UNKNOWN) and not facts.name.startswith(f"{ASIDE}/"):
        log.warning("direct.object_left_alone", why=outcome, object=facts.name, generation=facts.generation)


def _counted(outcome: str) -> str:
    metrics.CALLED_BACK.labels(outcome).inc()
    return str(outcome)


async def _bury(desk: DirectDesk, body: bytes, reason: str) -> None:
    log.warning("direct.message_not_understood", reason=reason, size=len(body))
    async with desk.database.transaction() as tx:
        await store.bury(tx, "gcs", reason, body[:_KEPT_BYTES])


def _read(body: bytes) -> tuple[str, str | None, ObjectFacts | None]:
    envelope = _mapping(_json(body), "the body")
    if isinstance(attempt := envelope.get("deliveryAttempt"), int) and attempt > 1:
        metrics.CALLED_AGAIN.inc()
    message = _mapping(envelope.get("message"), "message")
    attributes = _mapping(message.get("attributes"), "message.attributes")
    event = attributes.get("eventType")
    if not isinstance(event, str):
        raise _Malformed("message.attributes.eventType is missing")
    message_id = message.get("messageId") or message.get("message_id")
    told_id = json.storable(str(message_id)[:_LONGEST]) if message_id else None
    data = message.get("data")
    if event != "OBJECT_FINALIZE" or not data:
        return event, told_id, None
    try:
        plain = base64.b64decode(data, validate=True)
    except (binascii.Error, TypeError, ValueError) as wrong:
        raise _Malformed("message.data is not base64") from wrong
    return event, told_id, facts_of(_mapping(_json(plain), "message.data"))


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise _Malformed(f"not JSON: {reason_of(wrong)}"[:200]) from wrong


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _Malformed(f"{what} is not an object")
    return value


def facts_of(resource: Mapping[str, Any]) -> ObjectFacts:
    """An object resource of the JSON API: numbers are text, hashes base64."""
    bucket, name, generation = (_text(resource, field) for field in ("bucket", "name", "generation"))
    size = _text(resource, "size")
    if not size.isascii() or not size.isdigit() or not generation.isascii() or not generation.isdigit():
        raise _Malformed("size and generation are not numbers")
    if int(size) > _MOST_BYTES:
        raise _Malformed("size is beyond any object")
    return ObjectFacts(
        bucket, name, generation, int(size), _optional(resource, "contentType"), md5_hex(resource.get("md5Hash")),
        _optional(resource, "crc32c"), _optional(resource, "etag"), _moment(resource.get("timeCreated")),
    )  # fmt: skip


def _text(resource: Mapping[str, Any], field: str) -> str:
    value = resource.get(field)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value or json.storable(value) != value:
        raise _Malformed(f"{field} is missing or malformed")
    if len(value.encode()) > _LONGEST_OF[field]:  # it could not even be remembered
        raise _Malformed(f"{field} is too long")
    return value


def _optional(resource: Mapping[str, Any], field: str) -> str | None:
    value = resource.get(field)
    return str(json.storable(value[:_LONGEST])) if isinstance(value, str) else None


def _moment(value: Any) -> datetime | None:
    try:
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo else None
