"""Jobs: create, list, look at, cancel."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from penstock import documents
from penstock.api import examples
from penstock.api.client_gone import while_client_waits
from penstock.api.errors import language_of
from penstock.api.guard import GuardedRoute, MerchantId, SignedIn
from penstock.api.openapi import FILE_FAULTS, may_fail_with
from penstock.api.parameters import Cursor, IdempotencyKey, JobId, Merchant
from penstock.api.routes.job_shapes import JobDetail, Jobs, detail, summary
from penstock.bootstrap import Parts
from penstock.documents import query_store
from penstock.documents.queries import SortBy, Wanted, find_jobs, progress_of, visible_job
from penstock.documents.states import JobStatus
from penstock.kernel import error_codes
from penstock.kernel.identity import acting_for

_GRACE_SECONDS = 30.0  # for a client that lost its connection to ask again
router = APIRouter(route_class=GuardedRoute, tags=["jobs"])

UserStatus = Literal["processing", "partial_success", "completed", "needs_manual", "failed"]
Text = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f]+$")]
_REFUSALS = (
    error_codes.UPLOAD_NOT_FOUND,
    error_codes.UPLOAD_GONE,
    error_codes.UPLOAD_UNFINISHED,
    *FILE_FAULTS,
    error_codes.FILE_HASH_DUPLICATE,
    error_codes.IDEMPOTENCY_KEY_REUSED,
    error_codes.ADMISSION_UNDER_WAY,
    error_codes.STATE_CHANGED,
    error_codes.SANDBOX_UNAVAILABLE,
    error_codes.STORE_UNAVAILABLE,
    error_codes.DISK_FULL,
    error_codes.PROFILE_MISSING,
    error_codes.MERCHANT_DENIED,
)
_ORDER: examples.Document = {"upload_id": examples.UPLOAD_ID, "category": "furniture", "industry": "retail"}
_FOR_ANOTHER: examples.Document = {"upload_id": examples.UPLOAD_ID, "impersonate_merchant_id": "m-2"}
_MADE = examples.answer(
    examples.NEW_JOB,
    headers={"Location": {"schema": {"type": "string"}, "example": f"/api/v1/jobs/{examples.JOB_ID}"}},
)


class NewJob(BaseModel):
    """Which upload, and what is known of it. The merchant is the token's, unless a caller who may names another."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_ORDER, _FOR_ANOTHER]})

    upload_id: str = Field(pattern=r"^upl_[A-Za-z0-9_-]{1,64}$")
    category: Text | None = Field(None, description="With the industry, it chooses the profile that the job keeps")
    industry: Text | None = None
    allow_duplicate: bool = Field(False, description="Make a job even if the merchant has one of the same content")
    impersonate_merchant_id: MerchantId | None = Field(
        None,
        description="For another merchant: operators, admins, tokens whose `act_for` lists it; goes to the audit log",
    )


@router.post(
    "/api/v1/jobs",
    summary="Make a job of a finished upload",
    status_code=201,
    responses={201: _MADE},
    openapi_extra=may_fail_with(*_REFUSALS),
)
async def create_job(
    request: Request,
    response: Response,
    caller: SignedIn,
    body: NewJob,
    idempotency_key: IdempotencyKey = None,
) -> JobDetail:
    """The file is validated, checked for what is unsafe and looked through before this answers: up to a minute or
    two for a large file, so wait for it; half a minute after the client has hung up it is given up. Sent again, it
    answers the same job; a refused file leaves a `REJECTED` job, whose id is in `details.job_id` with every reason
    in `details.issues`.
    """
    parts: Parts = request.app.state.parts
    await parts.limits.one_job(caller.merchant_id)
    owner = caller
    if body.impersonate_merchant_id is not None:
        async with parts.database.transaction() as tx:
            owner = await acting_for(tx, caller, body.impersonate_merchant_id, request.state.request_id)
    order = documents.Order(
        upload_id=body.upload_id,
        caller=caller,
        owner=owner,
        category=body.category,
        industry=body.industry,
        allow_duplicate=body.allow_duplicate,
        idempotency_key=idempotency_key,
    )
    admission = documents.admit(parts.desk, order)
    job = await while_client_waits(request, admission, grace_seconds=_GRACE_SECONDS)
    response.headers["Location"] = f"/api/v1/jobs/{job['job_id']}"
    async with parts.database.transaction() as tx:
        counts = await query_store.page_counts(tx, [job["job_id"]])
    return detail(job, counts.get(job["job_id"], {}), language_of(request), caller)


class JobFilter(BaseModel):
    """Which jobs, in which order."""

    status: list[JobStatus] = Field([], max_length=12, description="In one of these", examples=[["PROCESSING"]])
    user_status: list[UserStatus] = Field(
        [], max_length=5, description="In one of these, as users see it", examples=[["processing", "needs_manual"]]
    )
    category: Text | None = Field(None, description="Of exactly this category", examples=["furniture"])
    created_from: datetime | None = Field(
        None, description="Created at this time or later", examples=["2026-03-01T00:00:00Z"]
    )
    created_before: datetime | None = Field(
        None, description="Created before this time", examples=["2026-04-01T00:00:00Z"]
    )
    q: Text | None = Field(None, description="A part of the file's name, in any case", examples=["catalogue"])
    merchant: Merchant = None
    sort: SortBy = Field(
        SortBy.CREATED_AT, description="By what; jobs that tie stay in one order", examples=["file_size"]
    )
    order: Literal["asc", "desc"] = Field("desc", description="Smallest first, or largest", examples=["asc"])
    cursor: Cursor = None
    limit: int = Field(50, ge=1, le=200, description="How many at the most", examples=[50])

    def wanted(self) -> Wanted:
        return Wanted(
            merchant_id=self.merchant,
            statuses=self.status,
            user_statuses=self.user_status,
            category=self.category,
            created_from=self.created_from,
            created_before=self.created_before,
            named=self.q,
            sort=self.sort,
            descending=self.order == "desc",
            cursor=self.cursor,
            limit=self.limit,
        )


@router.get(
    "/api/v1/jobs",
    summary="Jobs, part by part",
    openapi_extra=may_fail_with(error_codes.MERCHANT_DENIED, error_codes.CURSOR_INVALID),
)
async def list_jobs(request: Request, caller: SignedIn, asked: Annotated[JobFilter, Query()]) -> Jobs:
    """Of the caller's merchant; operators and admins see everyone's, or one's. Jobs that come or go
    while somebody reads on make none of the others appear twice or not at all.
    """
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        part = await find_jobs(tx, caller, asked.wanted())
    language = language_of(request)
    found = [summary(job, part.counts.get(job["job_id"], {}), language) for job in part.rows]
    return Jobs(jobs=found, next_cursor=part.next_cursor)


@router.get(
    "/api/v1/jobs/{job_id}",
    summary="One job",
    openapi_extra=may_fail_with(error_codes.JOB_NOT_FOUND),
)
async def get_job(request: Request, caller: SignedIn, job_id: JobId) -> JobDetail:
    """Another merchant's job is answered as if it did not exist. To wait for a change, follow its events instead."""
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        job = await visible_job(tx, job_id, caller)
        progress = await progress_of(tx, job)
    return detail(job, progress.by_status, language_of(request), caller)


@router.post(
    "/api/v1/jobs/{job_id}/cancel",
    summary="Cancel a job",
    responses={200: examples.answer(examples.CANCELLED_JOB)},
    openapi_extra=may_fail_with(error_codes.JOB_NOT_FOUND, error_codes.JOB_TERMINAL),
)
async def cancel_job(request: Request, caller: SignedIn, job_id: JobId) -> JobDetail:
    """Work that waits never begins, work in hand stops at its next page. Orphaned jobs: operators and admins only."""
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        job = await documents.cancel(tx, job_id, caller)
        progress = await progress_of(tx, job)
    documents.count_cancelled()
    return detail(job, progress.by_status, language_of(request), caller)
