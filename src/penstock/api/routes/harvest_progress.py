"""How far the harvest has come: tasks, cursors, and what moved them."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.requests import Request

from penstock.api import harvest_examples as examples
from penstock.api.guard import GuardedRoute
from penstock.api.openapi import may_fail_with
from penstock.api.parameters import LARGEST_ID, AnyEndpoint, AnySource, Cursor
from penstock.api.routes.harvest_shapes import CursorEvent, CursorEvents, Cursors, CursorState, Tasks, TaskState
from penstock.bootstrap import Parts
from penstock.harvest import looking
from penstock.harvest.spec import Operation
from penstock.harvest.states import TaskStatus
from penstock.kernel import cursors, error_codes
from penstock.kernel.errors import PenstockError

router = APIRouter(route_class=GuardedRoute, tags=["harvest"])


def beyond(cursor: str | None, question: str) -> int | None:
    """The id that a cursor of ours names."""
    if cursor is None:
        return None
    [found] = cursors.unpack(cursor, question, int)
    if not 0 < found <= LARGEST_ID:
        raise PenstockError(error_codes.CURSOR_INVALID)
    return int(found)


def following(rows: list[dict[str, Any]], limit: int, question: str, key: str) -> str | None:
    return cursors.pack(question, rows[-1][key]) if len(rows) == limit else None


class WorkFilter(BaseModel):
    """All of them hold at once."""

    source: AnySource = None
    endpoint: AnyEndpoint = None
    operation: Operation | None = Field(None, description="HARVEST, BACKFILL or UPDATE", examples=["HARVEST"])
    plan_id: int | None = Field(None, ge=1, le=LARGEST_ID, description="Of this plan", examples=[examples.PLAN_ID])
    cursor: Cursor = None
    limit: int = Field(100, ge=1, le=1000, description="How many at the most", examples=[100])

    def part(self, question: str) -> looking.Part:
        equal = {
            "provenance_code": self.source, "endpoint_name": self.endpoint,
            "operation_code": self.operation and str(self.operation), "plan_id": self.plan_id,
        }  # fmt: skip
        return looking.Part(self.limit, beyond(self.cursor, question), equal)


class TaskFilter(WorkFilter):
    """As above, and by status."""

    status: list[TaskStatus] = Field(
        default_factory=list, max_length=10, description="One of these; repeat it for several", examples=[["FAILED"]]
    )

    def part(self, question: str) -> looking.Part:
        part = super().part(question)
        return looking.Part(part.limit, part.beyond, part.equal, self.status)


@router.get(
    "/api/v1/harvest/tasks",
    summary="Tasks, part by part",
    openapi_extra=may_fail_with(error_codes.CURSOR_INVALID),
)
async def list_tasks(request: Request, asked: Annotated[TaskFilter, Query()]) -> Tasks:
    """The newest first. Each slice of a plan has one; those that an executor holds say which. A failed one is not
    tried again by itself: the next plan takes up its window."""
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        rows = await looking.tasks(tx, asked.part("harvest tasks"))
    more = following(rows, asked.limit, "harvest tasks", "task_id")
    return Tasks(tasks=[TaskState.model_validate(row) for row in rows], next_cursor=more)


@router.get(
    "/api/v1/harvest/cursors",
    summary="Cursors, part by part",
    openapi_extra=may_fail_with(error_codes.CURSOR_INVALID),
)
async def list_cursors(request: Request, asked: Annotated[WorkFilter, Query()]) -> Cursors:
    """How far each endpoint has been read. `value` is the end of the stretch that has no gap; what lies behind a gap is
    among `covered`, and is not asked for again once the gap is filled."""
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        rows = await looking.cursors(tx, asked.part("harvest cursors"))
    more = following(rows, asked.limit, "harvest cursors", "cursor_id")
    return Cursors(cursors=[CursorState.model_validate(row) for row in rows], next_cursor=more)


@router.get(
    "/api/v1/harvest/cursors/events",
    summary="What moved the cursors",
    openapi_extra=may_fail_with(error_codes.CURSOR_INVALID),
)
async def list_cursor_events(request: Request, asked: Annotated[WorkFilter, Query()]) -> CursorEvents:
    """Each window that was closed, the newest first, with the plan, slice, task, run and batch that closed it. These
    are only ever added."""
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        rows = await looking.cursor_events(tx, asked.part("harvest events"))
    more = following(rows, asked.limit, "harvest events", "event_id")
    return CursorEvents(events=[CursorEvent.model_validate(row) for row in rows], next_cursor=more)
