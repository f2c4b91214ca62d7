"""The gate before every route: who is it, may they, and is the body of a size and type we read.

It runs before anything of the body is looked at, so a stranger's request costs a signature check at the
most. A token comes in the Authorization header or, for browsers, in the session cookie; a cookie is sent
by the browser whoever asked it to, so with a cookie a changing request must come from our own pages.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Annotated, Any

import structlog
from fastapi import Depends
from fastapi.routing import APIRoute
from pydantic import StringConstraints
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import Message, Receive

from penstock.api.access import ACCESS, LARGE_BODIES, OWN_TOKENS, UPLOADS, counts_as_upload, is_counted
from penstock.api.large_body import BodyCost
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import ACT_FOR_PARAMETER, ID_PATTERN, Caller, refuse_act_for
from penstock.kernel.identity.access import bearer_token, require
from penstock.kernel.rategate import RatePolicy
from penstock.kernel.shares import ON_BEHALF_OF

COOKIE = "penstock_session"
LARGEST_BODY = 1 << 20
SMALL_BODY = 16 << 10  # reading JSON takes the event loop: 5 ms for so much; the cost of a larger one is known before
LARGEST_ANONYMOUS_BODY = 32 << 10
_LARGE_BODIES = RatePolicy(rate=0.5, burst=10)  # of one merchant, where large ones are taken at all
SLOWEST_BODY_SECONDS = 60.0
_SAFE = ("GET", "HEAD", "OPTIONS")
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class GuardedRoute(APIRoute):
    """The only kind of route there is; `access.ACCESS` says whom it lets in."""

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            request.state.caller = await admitted(request, self.path)
            if self.body_field is not None and (self.body_field.field_info.is_required() or _has_body(request)):
                _check_content_type(request)
            largest = await _largest_body(request, self.path)
            return await handle(Request(request.scope, _bounded(request, largest)))

        return guarded


def every_route_declared(routes: Iterable[BaseRoute]) -> None:
    """Raises LookupError, which stops the start, for a route without a row or a row without a route."""
    found = set()
    for route in routes:
        if not isinstance(route, GuardedRoute):
            raise LookupError(  # noqa: TRY004  the start fails the same way for all three
                f"{route} is not a GuardedRoute: nobody would check who calls it"
            )
        found |= {(method, route.path) for method in route.methods or ()}
    for method, path in sorted(found - set(ACCESS)):
        raise LookupError(f"{method} {path} is a route but has no row in api/access.py")
    for method, path in sorted(set(ACCESS) - found):
        raise LookupError(f"{method} {path} has a row in api/access.py but is no route")


async def caller_of(request: Request) -> Caller | None:
    """Whoever the token names; None without one. A bad token raises."""
    token = _token(request)
    if token is None:
        return None
    caller = await _verify(request, token)
    structlog.contextvars.bind_contextvars(user_id=caller.user_id, merchant_id=caller.merchant_id)
    return caller


async def visitor(request: Request) -> Caller | None:
    """On pages a stale cookie makes a stranger of you, not an error."""
    try:
        return await caller_of(request)
    except PenstockError:
        return None


async def _signed_in(request: Request) -> Caller:
    caller: Caller | None = request.state.caller
    if caller is None:
        raise PenstockError(error_codes.TOKEN_MISSING)
    return caller


SignedIn = Annotated[Caller, Depends(_signed_in)]  # a route's parameter that wants to know who calls
MerchantId = Annotated[str, StringConstraints(pattern=f"^{ID_PATTERN}$")]  # a parameter or field that names one


async def admitted(request: Request, path: str) -> Caller | None:
    """Whoever calls, if the table lets them; None where anybody may."""
    roles = ACCESS[request.method, path]
    if roles is None:
        return None
    caller = await caller_of(request)
    if caller is None:
        raise PenstockError(error_codes.TOKEN_MISSING)
    require(caller, roles)
    if request.scope["query_string"] and ACT_FOR_PARAMETER in request.query_params:
        raise refuse_act_for(f"query.{ACT_FOR_PARAMETER}")
    _note_signed_in(request, caller)
    await _count(request, path, caller.merchant_id)
    if path.startswith(UPLOADS):
        request.state.turn.give()  # uploads take turns by themselves, as they go on after their client has gone
    return caller


async def _count(request: Request, path: str, merchant_id: str) -> None:
    limits = request.app.state.parts.limits
    if counts_as_upload(request.method, path):
        await limits.one_upload(merchant_id)
    elif is_counted(request.method, path):
        await limits.one_call(merchant_id)


def _note_signed_in(request: Request, caller: Caller) -> None:
    """Marks the request and its connection as signed in; both count against the merchant's shares now."""
    ON_BEHALF_OF.set(caller.merchant_id)
    merchant_id, client, edge = caller.merchant_id, request.client, request.app.state
    if client is not None:
        edge.trusted_peers.trust(client.host, client.port, merchant_id)
    request.state.give_back = edge.at_once.take(merchant_id)
    request.state.at_end.callback(request.state.give_back)
    if client is not None:
        request.state.at_end.enter_context(edge.trusted_peers.serving(client.host, client.port, merchant_id))


async def _verify(request: Request, token: str) -> Caller:
    caller: Caller = await request.app.state.parts.identity.verify(token)
    return caller


def _token(request: Request) -> str | None:
    header = request.headers.get("authorization")
    if header is not None:
        return bearer_token(header)
    token = request.cookies.get(COOKIE, "")
    if not token:
        return None
    if request.method not in _SAFE:
        require_own_origin(request)
    return token


def require_own_origin(request: Request) -> None:
    """Refuses a request that another site's page made the browser send."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        ours = site in ("same-origin", "none")
    else:  # browsers leave it out on plain http; then Origin tells
        host = request.headers.get("host")
        ours = bool(host) and request.headers.get("origin", "").partition("://")[2] == host
    if not ours:
        raise PenstockError(error_codes.ORIGIN_DENIED)


async def _largest_body(request: Request, path: str) -> int:
    """How many bytes this request's body may have. A large one takes a permit of its merchant's."""
    caller: Caller | None = request.state.caller
    if caller is None:
        return LARGEST_BODY if path in OWN_TOKENS else LARGEST_ANONYMOUS_BODY
    declared = request.headers.get("content-length", "")
    is_small = declared.isdecimal() and int(declared) <= SMALL_BODY
    if is_small or not path.startswith(LARGE_BODIES) or not _has_body(request):
        return SMALL_BODY
    await request.app.state.parts.limits.one_of("large-bodies", caller.merchant_id, _LARGE_BODIES)
    return LARGEST_BODY


def _has_body(request: Request) -> bool:
    return request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers


def _check_content_type(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise PenstockError(error_codes.CONTENT_TYPE_INVALID, accepted=["application/json"])


def _bounded(request: Request, largest: int) -> Receive:
    """Stops reading at the limits, whatever Content-Length said: a body that dribbles in would hold its place."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > largest:
        raise PenstockError(error_codes.REQUEST_TOO_LARGE, limit_bytes=largest)
    received, complete = 0, False
    cost = BodyCost() if largest > SMALL_BODY else None
    deadline = asyncio.get_running_loop().time() + SLOWEST_BODY_SECONDS

    async def receive() -> Message:
        nonlocal received, complete
        try:
            async with asyncio.timeout_at(None if complete else deadline):
                message = await request.receive()
        except TimeoutError:
            reason = f"the body did not arrive within {SLOWEST_BODY_SECONDS:g} s"
            raise PenstockError(error_codes.REQUEST_INVALID, reason=reason) from None
        received += len(message.get("body", b""))
        complete = not message.get("more_body", False)
        if received > largest:
            raise PenstockError(error_codes.REQUEST_TOO_LARGE, limit_bytes=largest)
        if cost is not None:
            cost.add(message.get("body", b""))
        return message

    return receive
