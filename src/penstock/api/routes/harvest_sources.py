"""Sources of the harvest: what is in force, where each value comes from, and putting a new version in force."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request

from penstock.api import harvest_examples as examples
from penstock.api.guard import GuardedRoute, SignedIn
from penstock.api.openapi import may_fail_with
from penstock.api.parameters import AnyEndpoint, SourcePath
from penstock.api.routes.harvest_shapes import (
    EndpointOfSource,
    ExplainedKey,
    Explanation,
    Setter,
    SourceApplied,
    SourceDetail,
    Sources,
    SourceSummary,
)
from penstock.bootstrap import Parts
from penstock.harvest import applying, looking
from penstock.harvest.compiling.explain import Row, explain
from penstock.harvest.desk import compile_registered
from penstock.harvest.planning import Trigger
from penstock.harvest.registry import store as registry
from penstock.harvest.registry.source import RegisteredSource
from penstock.harvest.spec import Operation
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

router = APIRouter(route_class=GuardedRoute, tags=["harvest"])

_JSON, _YAML = "application/json", ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")
_CURSORS_SHOWN = 100
_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        "application/yaml": {"schema": {"type": "string"}, "example": examples.SOURCE_YAML},
        _JSON: {"schema": {"type": "object"}, "example": examples.SOURCE},
    },
}


@router.get("/api/v1/harvest/sources", summary="All sources")
async def list_sources(request: Request) -> Sources:
    """Those that were applied, paused ones too. There are as many as there are files: they come in one part."""
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        found = await registry.load_all(tx)
    return Sources(sources=[SourceSummary.model_validate({**_facts(each), "endpoints": sorted(each.endpoints)})
                            for each in found])  # fmt: skip


@router.get(
    "/api/v1/harvest/sources/{code}",
    summary="One source",
    openapi_extra=may_fail_with(error_codes.SOURCE_UNKNOWN),
)
async def get_source(request: Request, code: SourcePath) -> SourceDetail:
    """With its schedules and how far each endpoint has been read. The document is rebuilt from the tables: the same
    meaning as the file that was applied, without its comments. Credentials show where a secret is kept, never the
    secret."""
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        source = await registry.load(tx, code)
        schedules = await looking.schedules(tx, code)
        cursors = await looking.cursors(tx, looking.Part(_CURSORS_SHOWN, equal={"provenance_code": code}))
    endpoints = [
        EndpointOfSource(name=name, role=each.role, is_default=each.is_default, linked_endpoint=each.linked_endpoint)
        for name, each in sorted(source.endpoints.items())
    ]
    more = {"description": source.document["description"], "document": dict(source.document), "endpoints": endpoints}
    return SourceDetail.model_validate({**_facts(source), **more, "schedules": schedules, "cursors": cursors})


@router.put(
    "/api/v1/harvest/sources/{code}",
    summary="Apply a source",
    openapi_extra={
        "requestBody": _BODY,
        **may_fail_with(
            error_codes.SOURCE_FILE_INVALID, error_codes.SPEC_INVALID, error_codes.HARVEST_UPDATE_IMPOSSIBLE
        ),
    },
)
async def put_source(
    request: Request,
    caller: SignedIn,
    code: SourcePath,
    dry_run: Annotated[bool, Query(description="Check and compare, write nothing", examples=[True])] = False,
) -> SourceApplied:
    """The whole document, as YAML or JSON; a refusal names all of its problems in `details.problems`. The same document
    again changes nothing, plans under way keep what they were made with. For admins only, as a source's address is
    where our credentials go. Addresses inside our own network are refused unless PENSTOCK_HARVEST_ALLOW_PRIVATE is
    set; and a new credential must be one of the store (`store:`), so that no variable or file of the server can be
    sent away: those are applied with the command line."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _JSON and kind not in _YAML:
        raise PenstockError(error_codes.CONTENT_TYPE_INVALID, accepted=[_JSON, *_YAML])
    content = await request.body()
    if kind == _JSON:
        content = content.replace(b"\t", b" ")  # between values only, in JSON; YAML has no tabs there
    parts: Parts = request.app.state.parts
    document = await applying.read(content, code)
    done = await applying.apply_from_afar(parts.harvest, document, caller.user_id, is_dry_run=dry_run)
    changes = [change.as_dict() for change in done.changes]
    return SourceApplied.model_validate(
        {"source": code, "version": done.version, "is_dry_run": dry_run, "changes": changes}
    )


@router.get(
    "/api/v1/harvest/sources/{code}/explain",
    summary="Where each value comes from",
    openapi_extra=may_fail_with(
        error_codes.SOURCE_UNKNOWN, error_codes.ENDPOINT_UNKNOWN, error_codes.SPEC_INVALID,
        error_codes.HARVEST_UPDATE_IMPOSSIBLE,
    ),
)  # fmt: skip
async def explain_source(
    request: Request,
    code: SourcePath,
    endpoint: AnyEndpoint = None,
    operation: Annotated[
        Operation, Query(description="Compiled for this operation", examples=["HARVEST"])
    ] = Operation.HARVEST,
    prefix: Annotated[
        str, Query(max_length=200, description="A key, or the beginning of one", examples=["http."])
    ] = "",
) -> Explanation:
    """An endpoint as it would be planned now: what the platform, the source, the endpoint and its sections say, laid
    over each other, and for every key who said it and whom that overrode. Without `endpoint`: the default one."""
    parts: Parts = request.app.state.parts
    source = await parts.harvest.source(code)
    compiled = await asyncio.to_thread(compile_registered, source, Trigger(code, endpoint, operation))
    return Explanation(
        source=code,
        endpoint=compiled.spec.endpoint_name,
        operation=operation,
        source_version=source.version,
        expr_proto_hash=compiled.expr_proto_hash,
        spec_fingerprint=compiled.spec_fingerprint,
        warnings=compiled.warnings,
        rows=[_explained(row) for row in explain(compiled, prefix)],
    )


def _facts(source: RegisteredSource) -> dict[str, Any]:
    names = ("name", "version", "is_active", "default_endpoint", "updated_at", "updated_by")
    return {"source": source.provenance_code, **{name: getattr(source, name) for name in names}}


def _explained(row: Row) -> ExplainedKey:
    overridden = [Setter(level=each.level, origin=each.origin, value=each.value) for each in row.overridden]
    return ExplainedKey(
        key=row.key,
        value=row.value,
        level=row.level,
        origin=row.origin,
        overridden=overridden,
        is_removed=row.is_removed,
    )
