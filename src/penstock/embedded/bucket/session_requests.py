"""PUT and DELETE on a session, which need no other right than its address; both APIs have the same."""

import msgspec

from penstock.embedded.bucket.place import BucketPlace
from penstock.embedded.bucket.ranges import read_content_range
from penstock.embedded.bucket.records import StoredObject, described
from penstock.embedded.bucket.refusals import Refusal
from penstock.embedded.bucket.requests import Answer, Request


async def continue_session(place: BucketPlace, request: Request, upload_id: str) -> Answer:
    """308 with how far we are, or 200 with the object."""
    session = place.sessions.find(upload_id)
    await request.admit(session.owner)
    was_open = session.is_open
    arriving = read_content_range(request.headers.get("content-range"), request.content_length)
    got = await place.sessions.put(session, arriving, request.body)
    if isinstance(got, int):
        return Answer(308, {"range": f"bytes=0-{got - 1}"} if got else {})
    if was_open and place.faults.loses_this_answer():
        raise Refusal(500, "InternalError", "A fault that was ordered.")
    if session.record.kind == "xml":
        return Answer(200, object_headers(got))
    return resource(got, place.address(request))


async def cancel_session(place: BucketPlace, request: Request, upload_id: str) -> Answer:
    """499, as Google answers: the client closed it."""
    session = place.sessions.find(upload_id)
    await request.admit(session.owner)
    await place.sessions.cancel(session)
    return Answer(499)


def resource(stored: StoredObject, address: str) -> Answer:
    return as_json(described(stored, address), etag=stored.etag)


def as_json(document: object, status: int = 200, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, {"content-type": "application/json; charset=UTF-8", **named}, msgspec.json.encode(document))


def object_headers(stored: StoredObject) -> dict[str, str]:
    """How the XML API, and downloads, describe an object."""
    return {
        "etag": f'"{stored.etag}"',
        "x-goog-generation": str(stored.generation),
        "x-goog-metageneration": "1",
        "x-goog-hash": f"crc32c={stored.crc32c},md5={stored.md5}",
        "x-goog-stored-content-length": str(stored.size),
        "x-goog-stored-content-encoding": "identity",
        "x-goog-storage-class": "STANDARD",
    }
