"""Errors as people and programs see them: one shape for all, in the reader's language, never a stack trace."""

import math
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Match

from penstock.api import pages
from penstock.api.http_status import status_of
from penstock.api.problems import reason
from penstock.kernel import error_codes, json
from penstock.kernel.errors import ErrorCode, Language, PenstockError, Severity
from penstock.kernel.language import preferred


class ErrorBody(BaseModel):
    """What every refusal and failure looks like."""

    model_config = ConfigDict(title="Error")

    code: str = Field(description="Never changes, whatever the language")
    message: str = Field(description="One sentence for people, by Accept-Language")
    severity: Severity = Field(description="How loudly a screen should say it")
    details: dict[str, Any] = Field(description="What exactly, for programs")
    request_id: str = Field(description="Names this request in the logs")
    remedy: str = Field(description="What the reader can do about it")


def language_of(request: Request) -> Language:
    default: Language = request.app.state.parts.settings.runtime.language
    return preferred(request.headers.get("accept-language"), default)


def body_of(code: ErrorCode, details: Mapping[str, Any], language: Language, request_id: str) -> dict[str, Any]:
    return {
        "code": code.code,
        "message": code.message.in_language(language),
        "severity": code.severity.value,
        "details": dict(details),
        "request_id": request_id,
        "remedy": code.remedy.in_language(language),
    }


def response_of(request: Request, code: ErrorCode, details: Mapping[str, Any] | None = None) -> Response:
    """The answer that stands for an error."""
    language = language_of(request)
    body = body_of(code, details or {}, language, request.state.request_id)
    if _is_a_person(request):
        headers = {"Content-Security-Policy": pages.security_policy(), **_headers(code, body)}
        return HTMLResponse(pages.notice(language, body), status_of(code), headers)
    try:
        content = json.dump_bytes(body)
    except TypeError:  # a detail that JSON does not know: its text will do
        content = json.dump_bytes({**body, "details": {key: str(value) for key, value in body["details"].items()}})
    return Response(content, status_of(code), _headers(code, body), media_type="application/json")


def _is_a_person(request: Request) -> bool:
    """Someone who followed a link, and gets a page instead of JSON."""
    return request.method == "GET" and "text/html" in request.headers.get("accept", "")


def _headers(code: ErrorCode, body: Mapping[str, Any]) -> dict[str, str]:
    headers = {}
    wait = body["details"].get("retry_after")
    if isinstance(wait, int | float) and math.isfinite(wait):
        headers["Retry-After"] = str(max(0, math.ceil(wait)))
    if code in (error_codes.TOKEN_MISSING, error_codes.TOKEN_INVALID):
        headers["WWW-Authenticate"] = "Bearer"
    return headers


_MOST_PROBLEMS = 20  # told at once: a body of a thousand wrong fields is one mistake, and an answer costs time


async def _on_penstock_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, PenstockError)  # noqa: S101  registered for this class only
    return response_of(request, error.code, error.details)


async def _on_invalid_request(request: Request, error: Exception) -> Response:
    """Names and reasons only: what was sent may be secret and is not sent back."""
    assert isinstance(error, RequestValidationError)  # noqa: S101  as above
    fields: dict[str, str] = {}
    for problem in error.errors()[:_MOST_PROBLEMS]:
        location = [str(part) for part in problem["loc"] if not (problem["type"] == "json_invalid" and part != "body")]
        fields.setdefault(".".join(location), reason(problem, language_of(request)))
    return response_of(request, error_codes.REQUEST_INVALID, {"fields": fields})


async def _on_http_exception(request: Request, error: Exception) -> Response:
    """The router's own refusals; and ours, where FastAPI wrapped what was raised while it read the body."""
    assert isinstance(error, HTTPException)  # noqa: S101  as above
    if isinstance(error.__cause__, PenstockError):
        return await _on_penstock_error(request, error.__cause__)
    if error.status_code == 404:
        return response_of(request, error_codes.ROUTE_NOT_FOUND)
    if error.status_code == 405:
        response = response_of(request, error_codes.METHOD_NOT_ALLOWED)
        response.headers["Allow"] = ", ".join(_methods_here(request))
        return response
    return response_of(request, error_codes.REQUEST_INVALID, {"reason": error.detail})


def _methods_here(request: Request) -> list[str]:
    """Of all routes at this address: the router itself would name those of the first only."""
    found: set[str] = set()
    for route in request.app.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            found |= getattr(route, "methods", None) or set()
    return sorted(found)


def install(app: FastAPI) -> None:
    app.add_exception_handler(PenstockError, _on_penstock_error)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_exception_handler(HTTPException, _on_http_exception)
