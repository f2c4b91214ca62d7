"""Webhooks: a merchant's own servers are told of events, signed so that they can trust the caller.

Calls follow the Standard Webhooks layout (`webhook-id`, `webhook-timestamp`, `webhook-signature`: HMAC-SHA256 over
id, time and body), so receivers verify with any of its libraries. The id stays the same over retries: receivers
drop repeats by it. Addresses inside our own network are refused unless the operator allows them.
"""

import asyncio
import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import httpx
from pydantic import Field
from pydantic_settings import SettingsConfigDict

from penstock.kernel import endpoint_breaker, error_codes, json
from penstock.kernel.addresses import NameUnknown, is_public, look_up, share_of
from penstock.kernel.clock import Clock
from penstock.kernel.db import Database, Tx, fetch_all, fetch_one
from penstock.kernel.errors import PenstockError
from penstock.kernel.events import Event, StoredEvent, matches
from penstock.kernel.outbound import AddressRefused, PinnedTransport, anywhere, look_ups_within, public_only
from penstock.kernel.outbox import announce
from penstock.kernel.settings import SettingsGroup
from penstock.kernel.sinks import Send, SinkRefused
from penstock.kernel.telemetry import with_traceparent

MOST_ENDPOINTS = 50  # of one merchant: every event of its goes to each of them
_MOST_OF_AN_ANSWER = 16 << 10  # bytes; only the status counts
_SECRET_PREFIX = "whsec_"  # noqa: S105  the layout's prefix, not a secret


class WebhookSettings(SettingsGroup):
    """How webhooks are called."""

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_WEBHOOK_")

    timeout_seconds: timedelta = Field(
        timedelta(seconds=5), gt=timedelta(0), description="Longest time of one call, from the look-up to the answer"
    )
    most_waiting: int = Field(
        10_000, ge=1, le=100_000, description="Events that wait for a paused endpoint; later ones are left out"
    )
    allow_private: bool = Field(False, description="Allow plain http and addresses inside our own network")


@dataclass(frozen=True, slots=True)
class Registration:
    """What somebody asks for; its address has passed `safe_address`, and is checked again at every call."""

    merchant_id: str
    url: str
    event_types: tuple[str, ...]
    created_by: str


async def register(tx: Tx, wanted: Registration) -> dict[str, Any]:
    """Add an endpoint; the answer is the only time the secret is shown. Its first call tells of this registration."""
    if len(await endpoints(tx, wanted.merchant_id)) >= MOST_ENDPOINTS:
        raise _refused(wanted.url, f"there are {MOST_ENDPOINTS} endpoints already: remove one first")
    secret = _SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()
    row = await fetch_one(
        tx,
        "insert into webhook_endpoints (merchant_id, url, secret, event_types, created_by)"
        " values (%s, %s, %s, %s, %s) returning endpoint_id, url, event_types, created_at",
        (wanted.merchant_id, wanted.url, secret, list(wanted.event_types), wanted.created_by),
    )
    made = {**(row or {}), "secret": secret}
    await announce(tx, _told("registered", str(made["endpoint_id"]), wanted.merchant_id))
    return made


async def endpoints(tx: Tx, merchant_id: str) -> list[dict[str, Any]]:
    """The merchant's endpoints, without their secrets; with what is known of their last failures."""
    return await fetch_all(
        tx,
        "select e.endpoint_id, e.url, e.event_types, e.created_by, e.created_at, coalesce(b.failures, 0) as failures,"
        " case when b.paused_until is not null then 'paused' when b.failures > 0 then 'failing' else 'active' end"
        " as state, b.paused_until, case when b.failures > 0 then b.last_error end as last_error,"
        " coalesce(g.gap_events, 0) as left_out, g.gap_from as left_out_from, g.gap_to as left_out_to"
        " from webhook_endpoints e left join endpoint_breakers b on b.sink = 'webhook:' || e.endpoint_id"
        " left join outbox_deliveries g on g.delivery_id = b.gap_id and g.dead_at is not null"
        " where e.merchant_id = %s and e.active order by e.created_at",
        (merchant_id,),
    )


async def remove(tx: Tx, endpoint_id: UUID, merchant_id: str) -> None:
    """Stop calling an endpoint; what is still queued for it is dropped when its turn comes."""
    row = await fetch_one(
        tx,
        "update webhook_endpoints set active = false"
        " where endpoint_id = %s and merchant_id = %s and active returning 1",
        (endpoint_id, merchant_id),
    )
    if row is None:
        raise PenstockError(error_codes.NOT_FOUND, endpoint_id=str(endpoint_id))
    await endpoint_breaker.forget(tx, str(endpoint_id))
    await announce(tx, _told("removed", str(endpoint_id), merchant_id))


def _told(what: str, endpoint_id: str, merchant_id: str) -> Event:
    return Event(f"webhook.{what}", "webhook", endpoint_id, merchant_id=merchant_id)


async def rows_for(tx: Tx, events: Sequence[StoredEvent]) -> list[tuple[int, str, str]]:
    """(event id, sink, order key) for every event that an endpoint of its merchant wants."""
    merchants = sorted({event.event.merchant_id for event in events if event.event.merchant_id})
    if not merchants:
        return []
    found = await fetch_all(
        tx,
        "select 'webhook:' || endpoint_id as sink, merchant_id, event_types from webhook_endpoints"
        " where merchant_id = any(%s) and active",
        (merchants,),
    )
    of_merchant = {each: [row for row in found if row["merchant_id"] == each] for each in merchants}
    return [
        (event.event_id, endpoint["sink"], event.event.order_key)
        for event in events
        for endpoint in of_merchant.get(event.event.merchant_id or "", ())
        if _wants(endpoint["event_types"], event)
    ]


def _wants(patterns: Sequence[str], event: StoredEvent) -> bool:
    return not patterns or any(matches(pattern, event.event.event_type) for pattern in patterns)


class WebhookCaller:
    """Sends events to endpoints."""

    def __init__(self, database: Database, settings: WebhookSettings, clock: Clock) -> None:
        self._database = database
        self._settings = settings
        self._clock = clock
        # Its own limit on connections would make one merchant wait for another; there are as many calls as places.
        self._client = httpx.AsyncClient(
            timeout=settings.timeout_seconds.total_seconds(),
            follow_redirects=False,
            transport=PinnedTransport(
                anywhere if settings.allow_private else public_only,
                most_bytes=_MOST_OF_AN_ANSWER,
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            ),
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def find(self, endpoint_id: str) -> Send | None:
        """How to send to this endpoint; None if it was removed."""
        async with self._database.transaction() as tx:
            row = await fetch_one(
                tx,
                "select url, secret, merchant_id from webhook_endpoints where endpoint_id = %s and active",
                (endpoint_id,),
            )
        if row is None:
            return None
        target = _Target(str(row["url"]), str(row["secret"]), share_of(row["merchant_id"]))
        return partial(self._post, target)

    async def _post(self, target: "_Target", event: StoredEvent) -> None:
        """One call within its time, however slowly the receiver sends its answer."""
        seconds = self._settings.timeout_seconds.total_seconds()
        try:
            async with asyncio.timeout(seconds):
                status = await self._call(target, event)
        except TimeoutError:
            raise SinkRefused(f"no answer within {seconds:g} s") from None
        if not 200 <= status < 300:
            raise SinkRefused(f"answered {status}")

    async def _call(self, to: "_Target", event: StoredEvent) -> int:
        """The status of the answer, whose body is not read."""
        try:
            _check_form(to.url, self._settings)
        except PenstockError as refusal:
            raise SinkRefused(str(refusal)) from None
        body = json.dump_bytes(body_of(event))
        headers = signed_headers(to.secret, f"evt_{event.event_id}", int(self._clock.now().timestamp()), body)
        with_traceparent(headers)
        try:
            with look_ups_within(to.names):
                async with self._client.stream("POST", to.url, content=body, headers=headers) as answer:
                    return answer.status_code
        except AddressRefused:
            raise SinkRefused(str(_refused(to.url, "leads into a private network"))) from None
        except httpx.TimeoutException:
            raise TimeoutError from None
        except (httpx.HTTPError, httpx.InvalidURL) as failure:
            raise SinkRefused(f"{type(failure).__name__}: {failure}") from None


@dataclass(frozen=True, slots=True)
class _Target:
    """Where a call goes. `names` are the merchant's places among those that look names up."""

    url: str
    secret: str
    names: asyncio.Semaphore


def body_of(event: StoredEvent) -> dict[str, Any]:
    """What a receiver gets."""
    facts = event.event
    return {
        "id": event.event_id,
        "type": facts.event_type,
        "timestamp": event.occurred_at.astimezone(UTC).isoformat(),
        "entity": {"type": facts.entity_type, "id": facts.entity_id},
        "merchant_id": facts.merchant_id,
        "data": facts.payload,
    }


def signed_headers(secret: str, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The Standard Webhooks headers for a body."""
    key = base64.b64decode(secret.removeprefix(_SECRET_PREFIX))
    signature = hmac.new(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return {
        "content-type": "application/json",
        "user-agent": "Penstock",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{base64.b64encode(signature).decode()}",
    }


async def safe_address(url: str, settings: WebhookSettings, merchant_id: str = "") -> str:
    """Where the address leads now. Refuses what is no address, not https, or leads into our own network.

    For registering; each call looks the name up again, and connects to the very address that it judged.
    """
    host, port = _check_form(url, settings)
    try:
        addresses = await look_up(host, port or 443, settings.timeout_seconds.total_seconds(), share_of(merchant_id))
    except (TimeoutError, NameUnknown):
        raise _refused(url, "the host name is not known") from None
    if not settings.allow_private and not all(map(is_public, addresses)):
        raise _refused(url, "leads into a private network")
    return addresses[0]


def _check_form(url: str, settings: WebhookSettings) -> tuple[str, int | None]:
    """Host and port of an address that may be called, as far as its letters tell."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _refused(url, "not a web address") from None
    if parts.scheme not in {"http", "https"} or not host or parts.username or parts.password:
        raise _refused(url, "needs https:// and a host, no credentials")
    if parts.scheme != "https" and not settings.allow_private:
        raise _refused(url, "must be https")
    return host, port


def _refused(url: str, reason: str) -> PenstockError:
    return PenstockError(error_codes.WEBHOOK_URL_REFUSED, url=url, reason=reason)
