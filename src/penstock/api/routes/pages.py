"""The start page and the description of the API, both without anything from the network."""

from functools import cache
from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, Response
from starlette.requests import Request

from penstock.api import openapi, pages
from penstock.api.errors import language_of
from penstock.api.guard import GuardedRoute, visitor
from penstock.api.large_answer import LargeAnswer
from penstock.bootstrap import Parts
from penstock.kernel import error_codes
from penstock.kernel.errors import Language, PenstockError

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)

# Swagger UI writes style attributes; scripts are only ours, and it talks only to us.
_DOCS_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SWAGGER = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript"}
_OURS = {"docs.css": "text/css", "docs.js": "text/javascript"}


@router.get("/")
async def show_start_page(request: Request, lang: Annotated[Language | None, Query()] = None) -> Response:
    parts: Parts = request.app.state.parts
    runtime = parts.settings.runtime
    scene = pages.Scene(
        language=lang or language_of(request),
        report=await parts.health.report(),
        caller=await visitor(request),
        address=str(request.base_url).rstrip("/"),
        grpc_address=f"{runtime.host}:{runtime.grpc_port}",
    )
    headers = {"Content-Security-Policy": pages.security_policy(), "Vary": "Accept-Language, Cookie"}
    return HTMLResponse(pages.landing(scene), headers=headers)


@router.get("/docs")
async def show_docs() -> Response:
    return HTMLResponse(pages.read("docs.html"), headers={"Content-Security-Policy": _DOCS_POLICY})


@router.get("/docs/{asset}")
async def show_docs_asset(asset: str) -> Response:
    if asset in _OURS:
        return Response(pages.read(asset), media_type=_OURS[asset])
    if asset in _SWAGGER:
        headers = {"Cache-Control": "public, max-age=86400"}
        return LargeAnswer(_swagger_file(asset), media_type=_SWAGGER[asset], headers=headers)
    raise PenstockError(error_codes.ROUTE_NOT_FOUND)


@router.get("/openapi.json")
async def show_description(request: Request) -> Response:
    description = await openapi.published(request.app)
    headers = {"ETag": description.tag, "Cache-Control": "no-cache"}
    if description.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return LargeAnswer(description.body, media_type="application/json", headers=headers)


@cache
def _swagger_file(name: str) -> bytes:
    return files("fastapi_offline").joinpath("static", name).read_bytes()
