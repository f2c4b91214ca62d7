"""Videos: make one that waits for its file, look at them, and hear from the media pipeline."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query, Response
from starlette.requests import Request

from penstock.api import direct_examples as examples
from penstock.api.errors import language_of
from penstock.api.examples import answer
from penstock.api.guard import GuardedRoute, SignedIn
from penstock.api.openapi import may_fail_with
from penstock.api.routes.direct_shapes import ListedPart, NewVideo, Report, Video, Videos, video
from penstock.bootstrap import Parts
from penstock.kernel import error_codes
from penstock.uploads.direct.queries import find_videos
from penstock.uploads.direct.states import VideoStatus
from penstock.uploads.direct.videos import create_video, get_video, move_on

router = APIRouter(route_class=GuardedRoute, tags=["videos"])

VideoId = Annotated[UUID, Path(description="The video", examples=[examples.VIDEO_ID])]
_MADE = answer(
    examples.WAITING_VIDEO,
    headers={"Location": {"schema": {"type": "string"}, "example": f"/api/v1/videos/{examples.VIDEO_ID}"}},
)
_READY = answer(examples.VIDEO | {"status": "ready"})


@router.post("/api/v1/videos", summary="Make a video that waits for its file", status_code=201, responses={201: _MADE})
async def make_video(request: Request, response: Response, caller: SignedIn, body: NewVideo) -> Video:
    """Name it as `video_id` when its file is announced. A file that is announced without one gets a video by itself."""
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        row = await create_video(tx, caller, body.title)
    response.headers["Location"] = f"/api/v1/videos/{row['video_id']}"
    return video(row, language_of(request))


@router.get(
    "/api/v1/videos",
    summary="Videos, newest first",
    openapi_extra=may_fail_with(error_codes.MERCHANT_DENIED, error_codes.CURSOR_INVALID),
)
async def list_videos(request: Request, caller: SignedIn, asked: Annotated[ListedPart, Query()]) -> Videos:
    """Of the caller's merchant, part by part; operators and admins see everyone's."""
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        part = await find_videos(tx, caller, asked.wanted())
    language = language_of(request)
    return Videos(videos=[video(row, language) for row in part.rows], next_cursor=part.next_cursor)


@router.get("/api/v1/videos/{video_id}", summary="One video", openapi_extra=may_fail_with(error_codes.VIDEO_NOT_FOUND))
async def look_at_video(request: Request, caller: SignedIn, video_id: VideoId) -> Video:
    """Another merchant's is answered as if it did not exist."""
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        row = await get_video(tx, caller, str(video_id))
    return video(row, language_of(request))


@router.post(
    "/api/v1/videos/{video_id}/status",
    summary="Say how far the media pipeline is with a video",
    responses={200: _READY},
    openapi_extra=may_fail_with(error_codes.VIDEO_NOT_FOUND, error_codes.STATE_CHANGED),
)
async def report_on_video(request: Request, caller: SignedIn, video_id: VideoId, body: Report) -> Video:
    """processing, then ready, then published; failed from any of those before the end. What was said already is no
    news and answers the same; a step that does not follow is refused.
    """
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        row = await move_on(tx, caller, str(video_id), VideoStatus(body.status), reason=body.reason)
    return video(row, language_of(request))
