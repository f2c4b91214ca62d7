"""ETL: submit a document, follow its task, read what came of it, try it again, take it back."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.requests import Request

from penstock.api import etl_examples as examples
from penstock.api.examples import Document, answer
from penstock.api.guard import GuardedRoute, SignedIn
from penstock.api.openapi import may_fail_with
from penstock.api.parameters import LARGEST_ID, IdempotencyKey, PageNumber
from penstock.api.routes.etl_shapes import Submitted, Task, Tasks, task_of
from penstock.bootstrap import Parts
from penstock.extraction import artefacts
from penstock.extraction import cancel as cancelling
from penstock.extraction import retry as retrying
from penstock.extraction.queries import TaskView, listed, look
from penstock.extraction.runstate import of_row
from penstock.extraction.states import Stage, TaskStatus
from penstock.extraction.submit import Submission, submit
from penstock.kernel import error_codes

router = APIRouter(route_class=GuardedRoute, tags=["etl"])

TaskId = Annotated[int, Path(ge=1, le=LARGEST_ID, description="The task", examples=[examples.TASK_ID])]
_REFUSALS = (
    error_codes.ETL_RULE_NOT_FOUND,
    error_codes.ETL_RULE_REQUIRED,
    error_codes.ETL_SOURCE_NOT_FOUND,
    error_codes.ETL_FILE_TYPE,
    error_codes.ETL_FILE_TOO_LARGE,
    error_codes.ETL_QUEUE_FULL,
    error_codes.ETL_QUEUE_SHARE_FULL,
    error_codes.ETL_STORED_QUOTA,
    error_codes.UPLOAD_NOT_FOUND,
    error_codes.UPLOAD_UNFINISHED,
    error_codes.UPLOAD_GONE,
    error_codes.IDEMPOTENCY_KEY_REUSED,
    error_codes.STORE_UNAVAILABLE,
    error_codes.DISK_FULL,
)
_ACCEPTED = answer(
    examples.SUBMITTED,
    headers={"Location": {"schema": {"type": "string"}, "example": f"/api/v1/etl/tasks/{examples.TASK_ID}"}},
)
_NO_TASK = may_fail_with(error_codes.ETL_TASK_NOT_FOUND)
_NO_PART = may_fail_with(error_codes.ETL_TASK_NOT_FOUND, error_codes.ETL_NOT_READY, error_codes.ETL_ARTEFACT_GONE)


def _stored(example: Document) -> dict[str, Any]:
    content = {"application/json": {"schema": {"type": "object"}, "example": example}}
    return {"description": "As stored", "content": content}


_MARKDOWN: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The document",
        "content": {"text/markdown": {"schema": {"type": "string"}, "example": examples.MARKDOWN}},
    }
}
_PAGE: dict[int | str, dict[str, Any]] = {200: _stored(examples.PAGE)}
_RESULT: dict[int | str, dict[str, Any]] = {200: _stored(examples.TASK["result"])}
_PICTURE: dict[int | str, dict[str, Any]] = {
    200: {"description": "The picture", "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}}
}


class NewTask(BaseModel):
    """What is to be read: exactly one of the three. Without a rule the default one is used."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.SUBMISSION, examples.OF_A_JOB]})

    upload_id: str | None = Field(
        None, pattern=r"^upl_[A-Za-z0-9_-]{1,64}$",
        description="A finished upload; one of a picture is made with `purpose etl` in its metadata",
    )  # fmt: skip
    object_key: str | None = Field(
        None, min_length=1, max_length=800, pattern=r"^[^\x00]+$",
        description="A key in the object store, below `inbox/{merchant_id}/`; operators and admins: any",
    )  # fmt: skip
    job_id: UUID | None = Field(None, description="A job, whose file is read")
    rule_id: int | None = Field(None, ge=1, le=LARGEST_ID)

    @model_validator(mode="after")
    def _has_one_source(self) -> "NewTask":
        if sum(each is not None for each in (self.upload_id, self.object_key, self.job_id)) != 1:
            raise ValueError("give exactly one of upload_id, object_key and job_id")
        return self


class Retry(BaseModel):
    """From where it is tried again."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.RETRY]})

    from_stage: Stage = Field(description="`postprocess` never reads the document again")
    newest_rule: bool = Field(False, description="With the rule as it is now, not as it was")


@router.post(
    "/api/v1/etl/submit",
    summary="Submit a document",
    status_code=202,
    responses={202: _ACCEPTED},
    openapi_extra=may_fail_with(*_REFUSALS),
)
async def submit_task(
    request: Request,
    response: Response,
    caller: SignedIn,
    body: NewTask,
    idempotency_key: IdempotencyKey = None,
) -> Submitted:
    """PDF, PNG, JPEG, TIFF or WebP, by its bytes. Answers as soon as the task is stored; follow it with the address in
    `Location`."""
    parts: Parts = request.app.state.parts
    await parts.limits.one_job(caller.merchant_id)
    given = Submission(caller, body.upload_id, body.object_key, body.job_id, body.rule_id, idempotency_key)
    row = await submit(parts.etl, given)
    response.headers["Location"] = f"/api/v1/etl/tasks/{row['task_id']}"
    return Submitted(task_id=row["task_id"], status=of_row(row).status)


@router.get("/api/v1/etl/tasks", summary="Tasks, newest first")
async def list_tasks(
    request: Request,
    caller: SignedIn,
    *,
    status: Annotated[
        list[TaskStatus] | None,
        Query(max_length=4, description="In one of these; one that runs is pending", examples=[["failed"]]),
    ] = None,
    before: Annotated[
        int | None, Query(ge=1, le=LARGEST_ID, description="`next_before` of the part before", examples=[42])
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200, description="How many at the most", examples=[50])] = 50,
) -> Tasks:
    """Of the caller's merchant; operators and admins see all."""
    parts: Parts = request.app.state.parts
    found = await listed(parts.etl, caller, statuses=status, before=before, limit=limit)
    following = found[-1].state.task_id if len(found) == limit else None
    return Tasks(tasks=[task_of(each) for each in found], next_before=following)


@router.get("/api/v1/etl/tasks/{task_id}", summary="One task", openapi_extra=_NO_TASK)
async def get_task(request: Request, caller: SignedIn, task_id: TaskId) -> Task:
    """While it runs, where it stands; once it has ended, with its result or its error."""
    parts: Parts = request.app.state.parts
    return task_of(await look(parts.etl, task_id, caller))


@router.post(
    "/api/v1/etl/tasks/{task_id}/retry",
    summary="Try a task again",
    openapi_extra=may_fail_with(
        error_codes.ETL_TASK_NOT_FOUND, error_codes.ETL_NOT_ENDED, error_codes.ETL_ARTEFACT_GONE,
        error_codes.ETL_RULE_NOT_FOUND, error_codes.STATE_CHANGED, error_codes.ETL_QUEUE_FULL,
        error_codes.ETL_QUEUE_SHARE_FULL,
    ),
)  # fmt: skip
async def retry_task(request: Request, caller: SignedIn, task_id: TaskId, body: Retry) -> Task:
    """Of a task that has ended, however it ended. From `postprocess` it goes on from what was read before."""
    parts: Parts = request.app.state.parts
    row = await retrying.retry(parts.etl, task_id, body.from_stage, caller, newest_rule=body.newest_rule)
    return task_of(TaskView(of_row(row), row))


@router.post(
    "/api/v1/etl/tasks/{task_id}/cancel",
    summary="Take a task back",
    openapi_extra=may_fail_with(error_codes.ETL_TASK_NOT_FOUND, error_codes.ETL_ALREADY_STARTED),
)
async def cancel_task(request: Request, caller: SignedIn, task_id: TaskId) -> Task:
    """Only while it waits and no worker has begun with it."""
    parts: Parts = request.app.state.parts
    row = await cancelling.cancel(parts.etl, task_id, caller)
    return task_of(TaskView(of_row(row), row))


@router.get(
    "/api/v1/etl/tasks/{task_id}/markdown",
    summary="The document as markdown",
    response_class=Response,
    responses=_MARKDOWN,
    openapi_extra=_NO_PART,
)
async def get_markdown(request: Request, caller: SignedIn, task_id: TaskId) -> Response:
    """As soon as it is read."""
    parts: Parts = request.app.state.parts
    text = await artefacts.markdown(parts.etl, task_id, caller)
    return Response(text, media_type="text/markdown; charset=utf-8")


@router.get(
    "/api/v1/etl/tasks/{task_id}/pages/{page_number}",
    summary="One page, with the place of every piece of text",
    response_class=Response,
    responses=_PAGE,
    openapi_extra=may_fail_with(
        error_codes.ETL_TASK_NOT_FOUND,
        error_codes.ETL_NOT_READY,
        error_codes.ETL_ARTEFACT_GONE,
        error_codes.PAGE_NOT_FOUND,
    ),
)
async def get_page(request: Request, caller: SignedIn, task_id: TaskId, page_number: PageNumber) -> Response:
    """Spans, tables with cells, pictures and blocks in reading order. Boxes are shares of the page, from its top left
    corner."""
    parts: Parts = request.app.state.parts
    page = await artefacts.page(parts.etl, task_id, page_number, caller)
    return Response(page, media_type="application/json")


@router.get(
    "/api/v1/etl/tasks/{task_id}/result",
    summary="The whole result",
    response_class=Response,
    responses=_RESULT,
    openapi_extra=_NO_PART,
)
async def get_result(request: Request, caller: SignedIn, task_id: TaskId) -> Response:
    """The same as in the task, also where it is too large to be shown there."""
    parts: Parts = request.app.state.parts
    return Response(await artefacts.result(parts.etl, task_id, caller), media_type="application/json")


@router.get(
    "/api/v1/etl/tasks/{task_id}/images/{name}",
    summary="A picture of the document",
    response_class=Response,
    responses=_PICTURE,
    openapi_extra=may_fail_with(
        error_codes.ETL_TASK_NOT_FOUND, error_codes.ETL_NOT_READY, error_codes.ETL_ARTEFACT_GONE, error_codes.NOT_FOUND
    ),
)
async def get_image(
    request: Request,
    caller: SignedIn,
    task_id: TaskId,
    name: Annotated[
        str, Path(pattern=r"^[A-Za-z0-9_.-]{1,200}$", description="As the markdown names it", examples=[examples.IMAGE])
    ],
) -> Response:
    """A picture that the reading has stored."""
    parts: Parts = request.app.state.parts
    data, media_type = await artefacts.image(parts.etl, task_id, name, caller)
    return Response(data, media_type=media_type)
