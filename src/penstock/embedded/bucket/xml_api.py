"""The XML API as far as phones need it: a signed POST begins a session; PUT and DELETE go on with it or end it."""

from urllib.parse import quote

from penstock.embedded.bucket.names import check_metadata, check_name, check_type, owner_of
from penstock.embedded.bucket.place import BucketPlace
from penstock.embedded.bucket.ranges import read_length_range
from penstock.embedded.bucket.records import Wish
from penstock.embedded.bucket.refusals import Refusal, malformed
from penstock.embedded.bucket.requests import Answer, Request, whole_number
from penstock.embedded.bucket.session_requests import cancel_session, continue_session
from penstock.embedded.bucket.signatures import is_signed

_META = "x-goog-meta-"


async def answer_xml(place: BucketPlace, request: Request) -> Answer:
    """For /BUCKET/OBJECT."""
    bucket, *parts = request.segments()
    place.check_bucket(bucket)
    name = check_name("/".join(parts))
    upload_id = request.query.get("upload_id")
    if upload_id is not None and request.method in ("PUT", "DELETE"):
        if place.sessions.find(upload_id).record.wish.name != name:
            raise malformed("The session belongs to another object.")
        if request.method == "PUT":
            return await continue_session(place, request, upload_id)
        return await cancel_session(place, request, upload_id)
    if request.method != "POST" or "uploads" in request.query:
        raise Refusal(405, "MethodNotAllowed", "Here a POST begins a resumable upload.")
    _check_right(place, request)
    await request.admit(owner_of(name))
    return await _begin(place, request, bucket, name)


def _check_right(place: BucketPlace, request: Request) -> None:
    if "authorization" in request.headers and not is_signed(request.query):
        place.tokens.check(request.headers["authorization"])
        return
    if not is_signed(request.query):
        raise Refusal(403, "AccessDenied", "Anonymous callers have no access to this bucket.")
    now = place.clock.now()
    place.signatures.check(request.method, request.raw_path, request.raw_query, request.headers, now)


async def _begin(place: BucketPlace, request: Request, bucket: str, name: str) -> Answer:
    if request.headers.get("x-goog-resumable") != "start":
        raise malformed("x-goog-resumable: start is missing.")
    if request.content_length or await request.body.next():
        raise malformed("The request that begins a session has no body.")
    match = request.headers.get("x-goog-if-generation-match")
    least, most = read_length_range(request.headers.get("x-goog-content-length-range"))
    metadata = {key.removeprefix(_META): value for key, value in request.headers.items() if key.startswith(_META)}
    wish = Wish(
        bucket=bucket,
        name=name,
        content_type=check_type(request.headers.get("content-type")),
        metadata=check_metadata(metadata),
        generation_match=None if match is None else whole_number(match, "x-goog-if-generation-match"),
        least=least,
        most=most,
    )
    address = place.address(request)
    upload_id = await place.sessions.begin("xml", wish)
    location = f"{address}/{bucket}/{quote(name, safe='/~')}?upload_id={upload_id}"
    return Answer(201, {"location": location, "x-guploader-uploadid": upload_id})
