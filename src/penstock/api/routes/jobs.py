"""Jobs: create, list, look at, cancel."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Header, Query, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from penstock import documents
from penstock.api.errors import language_of
from penstock.api.guard import GuardedRoute, MerchantId, SignedIn
from penstock.api.openapi import FILE_FAULTS, may_fail_with
from penstock.api.routes.job_shapes import JobDetail, Jobs, detail, summary
from penstock.bootstrap import Parts
from penstock.documents import query_store
from penstock.documents.queries import SortBy, Wanted, find_jobs, progress_of, visible_job
from penstock.documents.states import JobStatus
from penstock.kernel import error_codes
from penstock.kernel.identity import acting_for

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
)


class NewJob(BaseModel):
    """Which upload, and what is known of it. The merchant is the token's."""

    model_config = ConfigDict(extra="forbid")

    upload_id: str = Field(pattern=r"^upl_[A-Za-z0-9_-]{1,64}$", examples=["upl_V1StGXR8Z5jdHi6BmyT0"])
    category: Text | None = Field(None, examples=["furniture"])
    industry: Text | None = Field(None, examples=["retail"])
    allow_duplicate: bool = Field(False, description="Make a job even if the merchant has one of the same content")
    impersonate_merchant_id: MerchantId | None = Field(None, description="For another merchant; goes to the audit log")


@router.post(
    "/api/v1/jobs",
    summary="Make a job of a finished upload",
    status_code=201,
    openapi_extra=may_fail_with(*_REFUSALS),
)
async def create_job(
    request: Request,
    response: Response,
    caller: SignedIn,
    body: NewJob,
    idempotency_key: Annotated[
        str | None,
        Header(
            min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$", description="Makes a repeat safe; 24 h and more"
        ),
    ] = None,
) -> JobDetail:
    """The file is validated, checked for what is unsafe and looked through before this answers: up to a minute or
    two for a large file, so wait for it. Sent again, it answers the same job; a refused file leaves a `REJECTED`
    job, whose id is in `details.job_id` with every reason in `details.issues`.
    """
    parts: Parts = request.app.state.parts
    await parts.limits.one_job(caller.merchant_id)
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
    job = await documents.admit(parts.desk, order)
    response.headers["Location"] = f"/api/v1/jobs/{job['job_id']}"
    async with parts.database.transaction() as tx:
        counts = await query_store.page_counts(tx, [job["job_id"]])
    return detail(job, counts.get(job["job_id"], {}), language_of(request))


class JobFilter(BaseModel):
    """Which jobs, in which order."""

    status: list[JobStatus] = Field([], max_length=12)
    user_status: list[UserStatus] = Field([], max_length=5)
    category: Text | None = None
    created_from: datetime | None = Field(None, description="Created at this time or later")
    created_before: datetime | None = Field(None, description="Created before this time")
    q: Text | None = Field(None, description="A part of the file's name, in any case")
    merchant: MerchantId | None = Field(None, description="For operators and admins: whose")
    sort: SortBy = SortBy.CREATED_AT
    order: Literal["asc", "desc"] = "desc"
    cursor: str | None = Field(None, max_length=1000, description="From the part before")
    limit: int = Field(50, ge=1, le=200)

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
    """Of the caller's merchant; operators and admins see everyone's, or one's."""
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
async def get_job(request: Request, caller: SignedIn, job_id: UUID) -> JobDetail:
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        job = await visible_job(tx, job_id, caller)
        progress = await progress_of(tx, job)
    return detail(job, progress.by_status, language_of(request))


@router.post(
    "/api/v1/jobs/{job_id}/cancel",
    summary="Cancel a job",
    openapi_extra=may_fail_with(error_codes.JOB_NOT_FOUND, error_codes.JOB_TERMINAL),
)
async def cancel_job(request: Request, caller: SignedIn, job_id: UUID) -> JobDetail:
    """Work that waits never begins, work in hand stops at its next page. Orphaned jobs: operators and admins only."""
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        job = await documents.cancel(tx, job_id, caller)
        progress = await progress_of(tx, job)
    documents.count_cancelled()
    return detail(job, progress.by_status, language_of(request))
