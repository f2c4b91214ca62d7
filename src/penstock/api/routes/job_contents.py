"""What is in a job: pages, their pictures, records, the result, and how it came about."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from starlette.requests import Request

from penstock import documents
from penstock.api.client_gone import while_client_waits
from penstock.api.errors import language_of
from penstock.api.guard import GuardedRoute, SignedIn
from penstock.api.openapi import FILE_FAULTS, may_fail_with
from penstock.api.parameters import Cursor, JobId, Limit, PageNumber
from penstock.api.routes.job_shapes import (
    Change,
    Evaluation,
    JobProgress,
    Page,
    Pages,
    Result,
    Sku,
    Skus,
    Timeline,
    detail,
)
from penstock.bootstrap import Parts
from penstock.documents import queries
from penstock.documents.states import PageStatus
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.pdf import PictureFormat

router = APIRouter(route_class=GuardedRoute, tags=["jobs"])

_RESOLUTIONS = (72, 100, 150, 200, 300, 400, 600)  # dpi of page images, up to GW_IMAGE_DPI_MAX
_NO_JOB = may_fail_with(error_codes.JOB_NOT_FOUND)
_NO_PART = may_fail_with(error_codes.JOB_NOT_FOUND, error_codes.CURSOR_INVALID)
_IMAGE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The page as a picture",
        "content": {
            f"image/{kind}": {"schema": {"type": "string", "format": "binary"}} for kind in ("webp", "png", "jpeg")
        },
    },
    304: {"description": "The picture that If-None-Match names is still the one"},
}


@router.get("/api/v1/jobs/{job_id}/pages", summary="The pages of a job", openapi_extra=_NO_PART)
async def list_pages(  # noqa: PLR0913  one parameter for each thing that can be asked
    request: Request,
    caller: SignedIn,
    job_id: JobId,
    *,
    status: Annotated[
        list[PageStatus] | None, Query(max_length=14, description="In one of these", examples=[["AI_COMPLETED"]])
    ] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Pages:
    """In the order of the file, each as its newest attempt left it."""
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        await queries.visible_job(tx, job_id, caller)
        part = await queries.find_pages(tx, job_id, status or (), cursor, limit)
    return Pages(pages=[Page.model_validate(row) for row in part.rows], next_cursor=part.next_cursor)


@router.get(
    "/api/v1/jobs/{job_id}/pages/{page_number}",
    summary="One page",
    openapi_extra=may_fail_with(error_codes.JOB_NOT_FOUND, error_codes.PAGE_NOT_FOUND),
)
async def get_page(request: Request, caller: SignedIn, job_id: JobId, page_number: PageNumber) -> Page:
    """As its newest attempt left it; earlier attempts are in the timeline."""
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        await queries.visible_job(tx, job_id, caller)
        return Page.model_validate(await queries.find_page(tx, job_id, page_number))


def _rounded_up(dpi: int, finest: int) -> int:
    """One of a few resolutions, as every one that is drawn is kept. Finer than allowed is REQUEST_INVALID."""
    if dpi > finest:
        raise PenstockError(error_codes.REQUEST_INVALID, fields={"query.dpi": f"at most {finest}"})
    return min((step for step in (*_RESOLUTIONS, finest) if dpi <= step <= finest), default=finest)


@router.get(
    "/api/v1/jobs/{job_id}/pages/{page_number}/image",
    summary="A page as a picture",
    response_class=Response,
    responses=_IMAGE,
    openapi_extra=may_fail_with(
        error_codes.JOB_NOT_FOUND,
        error_codes.PAGE_NOT_FOUND,
        error_codes.JOB_FILE_GONE,
        error_codes.SANDBOX_UNAVAILABLE,
        error_codes.STORE_UNAVAILABLE,
        *FILE_FAULTS,
    ),
)
async def get_page_image(  # noqa: PLR0913  one parameter for each thing that can be asked
    request: Request,
    caller: SignedIn,
    job_id: JobId,
    page_number: PageNumber,
    *,
    dpi: Annotated[
        int,
        Query(
            ge=36,
            le=600,
            description="How fine: rounded up to 72, 100, 150, 200 and so on; `GW_IMAGE_DPI_MAX` may allow less",
            examples=[150],
        ),
    ] = 100,
    format: Annotated[  # noqa: A002  the name callers use
        Literal["webp", "png", "jpeg"], Query(description="WebP is the smallest", examples=["png"])
    ] = "webp",
) -> Response:
    """Drawn when it is first asked for, then kept. Send the `ETag` back in `If-None-Match` to save the bytes."""
    parts: Parts = request.app.state.parts
    dpi = _rounded_up(dpi, parts.desk.settings.image_dpi_max)
    async with parts.database.transaction() as tx:
        job = await queries.visible_job(tx, job_id, caller)
        await queries.find_page(tx, job_id, page_number)
    headers = {
        "ETag": f'"{job["file_hash"][:32]}-{page_number}-{dpi}-{format}"',
        "Cache-Control": "private, max-age=86400",
    }
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    wanted = documents.Drawing(job_id, job["merchant_id"], page_number, dpi, PictureFormat(format.upper()))
    picture = await while_client_waits(request, documents.page_image(parts.desk, wanted))
    return Response(picture, headers=headers, media_type=f"image/{format}")


@router.get("/api/v1/jobs/{job_id}/skus", summary="The records found in a job", openapi_extra=_NO_PART)
async def list_skus(  # noqa: PLR0913  one parameter for each thing that can be asked
    request: Request,
    caller: SignedIn,
    job_id: JobId,
    *,
    page: Annotated[int | None, Query(ge=1, le=100_000, description="Only of this page", examples=[1])] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Skus:
    """Those in force; what was replaced is not shown."""
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        await queries.visible_job(tx, job_id, caller)
        part = await queries.find_skus(tx, job_id, page, cursor, limit)
    return Skus(skus=[Sku.model_validate(row) for row in part.rows], next_cursor=part.next_cursor)


@router.get(
    "/api/v1/jobs/{job_id}/result",
    summary="Everything that came of a job",
    openapi_extra=may_fail_with(error_codes.JOB_NOT_FOUND, error_codes.RESULT_NOT_READY),
)
async def get_result(request: Request, caller: SignedIn, job_id: JobId) -> Result:
    """There is one as soon as something is imported, also while people still work on other pages; earlier than that
    it is `RESULT_NOT_READY`.
    """
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        job = await queries.visible_job(tx, job_id, caller)
        pages, skus = await queries.result_of(tx, job)
        progress = await queries.progress_of(tx, job)
    return Result(
        schema_version="1",
        job=detail(job, progress.by_status, language_of(request), caller),
        pages=[Page.model_validate(row) for row in pages],
        skus=[Sku.model_validate(row) for row in skus],
    )


@router.get("/api/v1/jobs/{job_id}/progress", summary="How far a job has come", openapi_extra=_NO_JOB)
async def get_progress(request: Request, caller: SignedIn, job_id: JobId) -> JobProgress:
    """Counted from the pages at this moment. All pages up to `checkpoint_page` are done, whoever does the rest."""
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        job = await queries.visible_job(tx, job_id, caller)
        progress = await queries.progress_of(tx, job)
    told = {
        "progress_percent": progress.percent(job["status"]),
        "pages_done": progress.done,
        "pages_by_status": progress.by_status,
    }
    return JobProgress.model_validate({**job, **told})


@router.get(
    "/api/v1/jobs/{job_id}/evaluation",
    summary="How far the machine is trusted with a job",
    openapi_extra=may_fail_with(error_codes.JOB_NOT_FOUND, error_codes.EVALUATION_NOT_READY),
)
async def get_evaluation(request: Request, caller: SignedIn, job_id: JobId) -> Evaluation:
    """Belongs to the content and the version of the rules: jobs that share both share it."""
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        job = await queries.visible_job(tx, job_id, caller)
        return Evaluation.model_validate(await queries.evaluation_of(tx, job))


@router.get(
    "/api/v1/jobs/{job_id}/timeline",
    summary="Every change of state of a job and its pages",
    openapi_extra=may_fail_with(
        error_codes.JOB_NOT_FOUND,
        error_codes.CURSOR_INVALID,
        error_codes.STORE_UNAVAILABLE,
        error_codes.ARCHIVE_DAMAGED,
    ),
)
async def get_timeline(
    request: Request, caller: SignedIn, job_id: JobId, cursor: Cursor = None, limit: Limit = 200
) -> Timeline:
    """Also what has been moved to the archive."""
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        await queries.visible_job(tx, job_id, caller)
    part = await queries.timeline_of(parts.desk, job_id, cursor, limit)
    return Timeline(changes=[Change.model_validate(row) for row in part.rows], next_cursor=part.next_cursor)
