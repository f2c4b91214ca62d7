"""Uploads by the JSON API: in one request (media, multipart) or as a session (resumable)."""

from collections.abc import Awaitable, Callable
from functools import partial

from penstock.embedded.bucket.datafile import DataFile
from penstock.embedded.bucket.descriptions import Description, read_description, wish_for
from penstock.embedded.bucket.multipart import TwoParts
from penstock.embedded.bucket.place import BucketPlace
from penstock.embedded.bucket.records import StoredObject, Wish
from penstock.embedded.bucket.refusals import malformed, too_large
from penstock.embedded.bucket.requests import Answer, Request, whole_number
from penstock.embedded.bucket.session_requests import cancel_session, continue_session, resource
from penstock.embedded.bucket.threads import in_thread

_LONGEST_DESCRIPTION = 64 * 1024


async def answer_upload(place: BucketPlace, request: Request, bucket: str) -> Answer:
    """For /upload/storage/v1/b/BUCKET/o."""
    upload_id = request.query.get("upload_id")
    if upload_id is not None and request.method in ("PUT", "POST"):
        return await continue_session(place, request, upload_id)
    if upload_id is not None and request.method == "DELETE":
        return await cancel_session(place, request, upload_id)
    await place.check_token(request, request.query.get("name"))
    ways = {"resumable": _begin, "multipart": _multipart, "media": _media}
    way = ways.get(request.query.get("uploadType", ""))
    if way is None or request.method != "POST":
        raise malformed("uploadType is resumable, multipart or media.")
    return await way(place, request, bucket)


async def _begin(place: BucketPlace, request: Request, bucket: str) -> Answer:
    told = read_description(await request.body.whole(_LONGEST_DESCRIPTION))
    wish = wish_for(request, bucket, told, request.headers.get("x-upload-content-type"))
    length = request.headers.get("x-upload-content-length")
    total = None if length is None else whole_number(length, "X-Upload-Content-Length")
    address = place.address(request)
    upload_id = await place.sessions.begin("json", wish, total)
    location = f"{address}/upload/storage/v1/b/{bucket}/o?uploadType=resumable&upload_id={upload_id}"
    return Answer(200, {"location": location, "x-guploader-uploadid": upload_id})


async def _multipart(place: BucketPlace, request: Request, bucket: str) -> Answer:
    parts = TwoParts(request.body, request.headers.get("content-type", ""))
    async with request.body.within():
        told = read_description(await parts.description())
    wish = wish_for(request, bucket, told, parts.media_type)
    return resource(await _at_once(place, wish, parts.next_piece), place.address(request))


async def _media(place: BucketPlace, request: Request, bucket: str) -> Answer:
    wish = wish_for(request, bucket, Description(), request.headers.get("content-type"))
    return resource(await _at_once(place, wish, request.body.next), place.address(request))


async def _at_once(place: BucketPlace, wish: Wish, next_piece: Callable[[], Awaitable[bytes]]) -> StoredObject:
    """No session: what does not come whole leaves nothing."""
    name = place.shelf.new_data()
    file = await in_thread(partial(DataFile, place.shelf.data(name), keep_free=place.settings.keep_free_bytes))
    try:
        while piece := await next_piece():
            _refuse_too_large(place, file.size + len(piece))
            await in_thread(file.append, piece)
        await in_thread(file.sync)
        return await in_thread(place.ledger.put, wish, file.contents())
    except BaseException:
        await in_thread(place.shelf.remove_data, name)
        raise
    finally:
        file.close()


def _refuse_too_large(place: BucketPlace, size: int) -> None:
    if size > place.settings.largest_object:
        raise too_large(place.settings.largest_object)
