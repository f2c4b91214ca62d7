"""What was harvested: records, what could not become one, and asking for records to be looked at again."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, FailFast, Field, StringConstraints
from starlette.requests import Request

from penstock.api import harvest_examples as examples
from penstock.api.guard import GuardedRoute, SignedIn
from penstock.api.large_body import StrictBody
from penstock.api.openapi import may_fail_with
from penstock.api.parameters import AnyEndpoint, Code, Cursor, EndpointPath, Limit, OneSource, RecordId, SourcePath
from penstock.api.routes.harvest_progress import beyond, following
from penstock.api.routes.harvest_shapes import Quarantine, QuarantinedItem, Raised, Record, RecordFacts, Records
from penstock.bootstrap import Parts
from penstock.harvest import records
from penstock.harvest.planning import Reason, raise_signals
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

router = APIRouter(route_class=GuardedRoute, tags=["harvest"])

_KNOWN = (error_codes.SOURCE_UNKNOWN, error_codes.ENDPOINT_UNKNOWN)
Note = Annotated[str, StringConstraints(max_length=1000, pattern=r"^[^\x00]*$")]


class SignalList(StrictBody):
    """Records, by the source's ids, and why they should be looked at again."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.SIGNALS]})

    source: Code
    endpoint: Code | None = Field(None, description="Without it, the source's default one")
    ids: Annotated[list[str], FailFast()] = Field(description="1 to 10,000; the same twice counts once")
    reason: Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]{0,39}$")] = Field(
        "RETRACTION", description="RETRACTION, CORRECTION, MISSING_FIELD or a word of your own"
    )
    note: Note | None = None


class RecordFilter(BaseModel):
    """All of it holds at once."""

    endpoint: AnyEndpoint = None
    where: str | None = Field(
        None,
        max_length=2000,
        pattern=r"^[^\x00]*$",
        description="Conditions joined by `and`, on columns and on `fields.NAME`; `~` is: contains",
        examples=[examples.FILTER],
    )
    after: RecordId | None = Field(None, description="`next_after` of the part before", examples=[examples.RECORD_ID])
    limit: int = Field(100, ge=1, le=1000, description="How many at the most", examples=[100])


@router.get(
    "/api/v1/harvest/records/{source}",
    summary="Records of a source, part by part",
    openapi_extra=may_fail_with(*_KNOWN, error_codes.RECORD_FILTER_INVALID),
)
async def list_records(request: Request, source: SourcePath, asked: Annotated[RecordFilter, Query()]) -> Records:
    """Without their bodies, in the order of their ids: records that come while somebody reads on make none of the
    others appear twice or not at all. A filter is held against one record after the other, so a rare one takes long."""
    parts: Parts = request.app.state.parts
    chosen = records.parse_where(asked.where)
    async with parts.database.transaction() as tx:
        name = await records.endpoint_of(tx, source, asked.endpoint)
        rows = await records.select_records(
            tx, records.Selection(source, name, chosen), limit=asked.limit, after=asked.after
        )
    more = rows[-1]["provider_id"] if len(rows) == asked.limit else None
    found = [RecordFacts.model_validate(_facts(row)) for row in rows]
    return Records(source=source, endpoint=name, records=found, next_after=more)


@router.get(
    "/api/v1/harvest/records/{source}/{endpoint}/item",
    summary="One record",
    openapi_extra=may_fail_with(*_KNOWN),
)
async def get_record(
    request: Request,
    source: SourcePath,
    endpoint: EndpointPath,
    record_id: Annotated[
        RecordId,
        Query(alias="id", description="As the source names it, slashes and all", examples=[examples.RECORD_ID]),
    ],
) -> Record:
    """With its body as it came from the source. The id is a parameter because ids hold slashes."""
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        name = await records.endpoint_of(tx, source, endpoint)
        row = await records.read_record(tx, records.Selection(source, name), record_id)
    if row is None:
        raise PenstockError(error_codes.NOT_FOUND, source=source, endpoint=name, id=record_id)
    return Record.model_validate({**_facts(row), "source": source, "endpoint": name})


@router.post(
    "/api/v1/harvest/signals",
    summary="Ask for records to be looked at again",
    openapi_extra=may_fail_with(*_KNOWN, error_codes.SIGNALS_INVALID),
)
async def create_signals(request: Request, caller: SignedIn, body: SignalList) -> Raised:
    """For lists of retractions and corrections. The next UPDATE plan with candidates SIGNALS fetches them; one that is
    open already stays as it is, one that was taken up is open again. An id that we have no record of may be named: it
    is fetched too. The body may be 1 MB long: send longer lists in parts."""
    parts: Parts = request.app.state.parts
    reason = Reason(body.reason, caller.user_id, body.note)
    async with parts.database.transaction() as tx:
        endpoint = await records.endpoint_of(tx, body.source, body.endpoint)
        raised = await raise_signals(tx, body.source, endpoint, body.ids, reason)
    return Raised(given=len(body.ids), raised=raised)


@router.get(
    "/api/v1/harvest/quarantine",
    summary="Items that are no records",
    openapi_extra=may_fail_with(error_codes.CURSOR_INVALID),
)
async def list_quarantine(
    request: Request,
    source: OneSource,
    state: Annotated[
        Literal["open", "all"], Query(description="`all`: also those that became records later", examples=["open"])
    ] = "open",
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Quarantine:
    """What came from the source without an id, a readable time of update or a field it must have, the newest first.
    The rest of its page is stored. A later version that is a record releases it."""
    parts: Parts = request.app.state.parts
    before = beyond(cursor, "quarantine")
    async with parts.database.transaction() as tx:
        rows = await records.list_quarantine(tx, source, is_open=state == "open", limit=limit, before=before)
    more = following(rows, limit, "quarantine", "id")
    return Quarantine(items=[QuarantinedItem.model_validate(_item(row)) for row in rows], next_cursor=more)


def _facts(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "id": row["provider_id"], "run_id": row["batch_run_id"]}


def _item(row: dict[str, Any]) -> dict[str, Any]:
    renamed = {"item_id": "id", "source": "provenance_code", "endpoint": "endpoint_name", "record_id": "provider_id"}
    named = {name: row[column] for name, column in renamed.items()}
    return {**row, **named, "operation": row["operation_code"]}
