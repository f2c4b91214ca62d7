"""The description of the API: what FastAPI finds, plus who may call and every error a call can end in."""

import asyncio
import hashlib
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

import penstock
from penstock.api import examples
from penstock.api.access import ACCESS
from penstock.api.errors import ErrorBody, body_of
from penstock.api.http_status import status_of
from penstock.kernel import error_codes, json
from penstock.kernel.errors import ErrorCode, Language

_MARK = "x-error-codes"
# Whatever can be wrong with a PDF.
FILE_FAULTS = tuple(
    row
    for name, row in error_codes.REGISTRY.items()
    if name.startswith(("SECURITY_", "PDF_")) or name in ("INVALID_MIME", "EMPTY_PDF", "PAGE_COUNT_EXCEEDED")
)
_ABOUT = (
    "Every refusal has one shape (schema `Error`): a `code` that never changes, a `message` and a `remedy` in the"
    " language of `Accept-Language` (zh or en), and the `request_id` that names the request in the logs."
)


def may_fail_with(*found: ErrorCode) -> dict[str, Any]:
    """For a route's `openapi_extra`: codes of its own, besides those that follow from its shape."""
    return {_MARK: [code.code for code in found]}


@dataclass(frozen=True, slots=True)
class Description:
    """The description as it is sent, and the tag by which a client asks whether it has changed."""

    body: bytes
    tag: str


async def published(app: FastAPI) -> Description:
    """Made once, in a thread: half a megabyte takes a second to put together."""
    if not hasattr(app.state, "description"):
        app.state.description = asyncio.ensure_future(asyncio.to_thread(_publish, app))
    found: Description = await asyncio.shield(app.state.description)
    return found


def _publish(app: FastAPI) -> Description:
    body = json.dump_bytes(app.openapi())
    return Description(body, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def describe(app: FastAPI) -> dict[str, Any]:
    """Built once; kept on the application."""
    if app.openapi_schema is None:
        found = get_openapi(title="Penstock", version=penstock.__version__, description=_ABOUT, routes=app.routes)
        document = examples.with_nulls(found)
        components = document.setdefault("components", {})
        schemas = components.setdefault("schemas", {})
        schemas.pop("HTTPValidationError", None)
        schemas.pop("ValidationError", None)
        error_schema = ErrorBody.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(error_schema.pop("$defs", {}))
        schemas["Error"] = error_schema
        components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}}
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                _complete(operation, method.upper(), path)
        app.openapi_schema = document
    return app.openapi_schema


def _complete(operation: dict[str, Any], method: str, path: str) -> None:
    roles = ACCESS[method, path]
    if roles is not None:
        operation["security"] = [{"bearer": []}]
        operation["x-roles"] = sorted(roles)
    responses = operation["responses"]
    responses.pop("422", None)
    by_status: dict[str, list[ErrorCode]] = defaultdict(list)
    for code in _codes_of(operation, method, path):
        by_status[str(status_of(code))].append(code)
    for status, found in by_status.items():
        responses.setdefault(status, _bare_response(found) if method == "HEAD" else _response(found))


def _codes_of(operation: dict[str, Any], method: str, path: str) -> list[ErrorCode]:
    """Those that follow from the operation's shape, and those it names itself."""
    found = [error_codes.REGISTRY[name] for name in operation.pop(_MARK, [])]
    if operation.get("parameters") or "requestBody" in operation:
        found.append(error_codes.REQUEST_INVALID)
    if "requestBody" in operation:
        found += [error_codes.REQUEST_TOO_LARGE, error_codes.CONTENT_TYPE_INVALID]
    if ACCESS[method, path] is not None:
        found += [error_codes.TOKEN_MISSING, error_codes.TOKEN_INVALID, error_codes.ROLE_DENIED]
        found.append(error_codes.RATE_LIMITED)
        if method != "GET":
            found.append(error_codes.ORIGIN_DENIED)
    if "{" in path:
        found.append(error_codes.NOT_FOUND)
    if path.startswith("/api/"):
        found.append(error_codes.DB_UNAVAILABLE)
    return [*found, error_codes.INTERNAL_ERROR]


def _bare_response(found: list[ErrorCode]) -> dict[str, Any]:
    """An answer to HEAD has no body; a header names the code."""
    named = {"schema": {"type": "string", "enum": [code.code for code in found]}, "example": found[0].code}
    return {"description": ", ".join(f"`{code.code}`" for code in found), "headers": {"X-Error-Code": named}}


def _response(found: list[ErrorCode]) -> dict[str, Any]:
    shown = {
        code.code: {"summary": code.message.en, "value": body_of(code, {}, Language.EN, "4f1c0d9e8b7a4c55")}
        for code in found
    }
    content = {"schema": {"$ref": "#/components/schemas/Error"}, "examples": shown}
    return {"description": ", ".join(f"`{code.code}`" for code in found), "content": {"application/json": content}}
