"""Signing in with a one-time code, and who is signed in."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from penstock.api.examples import MERCHANT, USER, shown
from penstock.api.guard import COOKIE, GuardedRoute, SignedIn, caller_of, require_own_origin, visitor
from penstock.api.openapi import may_fail_with
from penstock.bootstrap import Parts
from penstock.kernel import error_codes
from penstock.kernel.errors import Kind, PenstockError
from penstock.kernel.identity import Caller, Role, redeem

router = APIRouter(route_class=GuardedRoute, tags=["session"])

_CODE = "Zm9yIGV4YW1wbGUsIGEgY29kZSB0aGF0IHdvcmtzIG9uY2U"


class CodeToRedeem(BaseModel):
    """The code of a sign-in link."""

    model_config = ConfigDict(extra="forbid", **shown({"code": _CODE}))

    code: str = Field(min_length=1, max_length=200, description="From the link; works once")


class Session(BaseModel):
    """A token for the Authorization header."""

    model_config = shown({"access_token": "header.claims.signature", "token_type": "Bearer", "expires_in": 43200})

    access_token: str
    token_type: Literal["Bearer"] = "Bearer"  # noqa: S105  not a secret
    expires_in: int = Field(description="Seconds")


class Me(BaseModel):
    """Whom the token names."""

    model_config = shown({"user_id": USER, "merchant_id": MERCHANT, "role": "uploader", "sees_all_merchants": False})

    user_id: str
    merchant_id: str
    role: Role
    sees_all_merchants: bool


@router.get(
    "/sign-in",
    summary="Open a one-time sign-in link",
    response_class=RedirectResponse,
    status_code=303,
    response_description="Signed in; on to the start page",
    openapi_extra=may_fail_with(error_codes.SIGN_IN_CODE_INVALID),
)
async def open_sign_in_link(
    request: Request,
    code: Annotated[
        str, Query(min_length=1, max_length=200, description="From `penstock sign-in`; works once", examples=[_CODE])
    ],
) -> Response:
    """Keeps the session in a cookie that scripts cannot read, and goes on to the start page.

    Opened a second time by a browser that is signed in, it does no more than that.
    """
    response: Response = RedirectResponse("/", status_code=303)
    try:
        session = await _redeemed(request, code)
    except PenstockError:
        if await visitor(request) is None:
            raise
        return response
    response.set_cookie(
        COOKIE,
        session.access_token,
        max_age=session.expires_in,
        httponly=True,
        samesite="lax",
        secure=_is_https(request),
    )
    return response


@router.post(
    "/api/v1/session",
    summary="Exchange a sign-in code for a token",
    status_code=201,
    openapi_extra=may_fail_with(error_codes.SIGN_IN_CODE_INVALID),
)
async def create_session(request: Request, body: CodeToRedeem) -> Session:
    """For programs; browsers open the link itself. The code is used up by the first answer, so keep the token."""
    return await _redeemed(request, body.code)


@router.delete("/api/v1/session", summary="Sign out: end the session", status_code=204)
async def delete_session(request: Request) -> Response:
    """The session's token is refused from now on, by every instance within a second, and browsers forget the cookie.
    Tokens that `penstock token` or a provider made are no sessions, and go on. Answers the same without a session.
    """
    parts: Parts = request.app.state.parts
    if COOKIE in request.cookies:
        require_own_origin(request)
    try:
        caller = await caller_of(request)
    except PenstockError as refused:
        if refused.kind is not Kind.DENIED:  # our own trouble: the session has not ended
            raise
        caller = None
    if caller is not None:
        await parts.identity.sign_out(caller)
    response = Response(status_code=204)
    response.delete_cookie(COOKIE, httponly=True, samesite="lax", secure=_is_https(request))
    return response


@router.get("/api/v1/me", summary="Who am I")
async def read_me(caller: SignedIn) -> Me:
    """As the token says, in the header or in the session cookie; the quickest way to try one."""
    return Me(
        user_id=caller.user_id, merchant_id=caller.merchant_id, role=caller.role, sees_all_merchants=caller.sees_all
    )


async def _redeemed(request: Request, code: str) -> Session:
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        caller: Caller = await redeem(tx, code)
        token = parts.identity.issue_session(caller)  # inside: a code is not used up when no token can be made
    return Session(access_token=token, expires_in=int(parts.settings.identity.session_ttl.total_seconds()))


def _is_https(request: Request) -> bool:
    """At the browser: a proxy in front of us says so in its header."""
    return "https" in (request.url.scheme, request.headers.get("x-forwarded-proto", "").lower())
