"""The JSON API as far as the official clients call it here: objects are looked at, fetched, copied, deleted.

Every call but those on a session needs a token.
"""

import base64
import binascii
from typing import Any

from penstock.embedded.bucket.descriptions import (
    listed,
    read_description,
    refuse_other_preconditions,
)
from penstock.embedded.bucket.json_uploads import answer_upload
from penstock.embedded.bucket.names import check_metadata, check_name, check_type
from penstock.embedded.bucket.place import BucketPlace
from penstock.embedded.bucket.ranges import read_range
from penstock.embedded.bucket.records import StoredObject, Wish, described
from penstock.embedded.bucket.refusals import Refusal, malformed, no_such_object, precondition_failed
from penstock.embedded.bucket.requests import Answer, Request
from penstock.embedded.bucket.session_requests import as_json, object_headers, resource
from penstock.embedded.bucket.threads import in_thread

_LONGEST_DESCRIPTION = 64 * 1024
_LONGEST_PAGE = 1000
_NOT_FOUND = Refusal(404, "NotFound", "There is nothing at this address.")


async def answer_json(place: BucketPlace, request: Request) -> Answer:
    match request.segments():
        case ["upload", "storage", "v1", "b", bucket, "o"] | ["resumable", "upload", "storage", "v1", "b", bucket, "o"]:
            return await answer_upload(place, request, place.check_bucket(bucket))
        case ["storage", "v1", "b", bucket, *rest]:
            await place.check_token(request, rest[1] if len(rest) > 1 else None)
            return await _in_bucket(place, request, place.check_bucket(bucket), rest)
        case ["download", "storage", "v1", "b", bucket, "o", name]:
            await place.check_token(request, name)
            return _download(place, request, _found(place, request, place.check_bucket(bucket), name))
    raise _NOT_FOUND


async def _in_bucket(place: BucketPlace, request: Request, bucket: str, rest: list[str]) -> Answer:
    match request.method, rest:
        case "GET", []:
            return _bucket(place, request, bucket)
        case "GET", ["o"]:
            return _list(place, request, bucket)
        case "GET" | "HEAD", ["o", name]:
            found = _found(place, request, bucket, name)
            if request.query.get("alt") == "media":
                return _download(place, request, found)
            return resource(found, place.address(request))
        case "DELETE", ["o", name]:
            return await _delete(place, request, bucket, name)
        case "POST", ["o", name, ("rewriteTo" | "copyTo") as verb, "b", other, "o", target]:
            copied = await _copy(place, request, _found_source(place, request, bucket, name),
                                 (place.check_bucket(other), check_name(target)))  # fmt: skip
            return _rewritten(copied, place.address(request)) if verb == "rewriteTo" else resource(
                copied, place.address(request)
            )  # fmt: skip
    raise Refusal(405, "MethodNotAllowed", "This cannot be done with it here.")


def _found(place: BucketPlace, request: Request, bucket: str, name: str) -> StoredObject:
    refuse_other_preconditions(request)
    found = place.ledger.find(bucket, name)
    if found is None or request.number("generation") not in (None, found.generation):
        raise no_such_object()
    if request.number("ifGenerationMatch") not in (None, found.generation):
        raise precondition_failed()
    return found


def _found_source(place: BucketPlace, request: Request, bucket: str, name: str) -> StoredObject:
    found = place.ledger.find(bucket, name)
    if found is None or request.number("sourceGeneration") not in (None, found.generation):
        raise no_such_object()
    if request.number("ifSourceGenerationMatch") not in (None, found.generation):
        raise precondition_failed()
    return found


def _bucket(place: BucketPlace, request: Request, bucket: str) -> Answer:
    return as_json({
        "kind": "storage#bucket", "id": bucket, "name": bucket, "projectNumber": "1", "location": "LOCAL",
        "locationType": "region", "storageClass": "STANDARD", "metageneration": "1",
        "selfLink": f"{place.address(request)}/storage/v1/b/{bucket}",
    })  # fmt: skip


def _list(place: BucketPlace, request: Request, bucket: str) -> Answer:
    prefix, delimiter = request.query.get("prefix", ""), request.query.get("delimiter", "")
    most = min(request.number("maxResults") or _LONGEST_PAGE, _LONGEST_PAGE)
    after = _page_start(request.query.get("pageToken"))
    items: list[dict[str, Any]] = []
    folders, last, more = set[str](), "", False
    for each in place.ledger.objects(bucket):
        folder = _folder(each.name, prefix, delimiter)
        if not each.name.startswith(prefix) or (folder or each.name).encode() <= after or folder in folders:
            continue
        if len(items) + len(folders) == most:
            more = True
            break
        last = folder or each.name
        if folder:
            folders.add(folder)
        else:
            items.append(described(each, place.address(request)))
    token = base64.urlsafe_b64encode(last.encode()).decode() if more else None
    return as_json(listed("storage#objects", nextPageToken=token, items=items, prefixes=sorted(folders)))


def _folder(name: str, prefix: str, delimiter: str) -> str:
    """What stands for all objects behind the next delimiter; empty when the object stands for itself."""
    if not delimiter:
        return ""
    at = name.find(delimiter, len(prefix))
    return name[: at + len(delimiter)] if at >= 0 else ""


def _page_start(token: str | None) -> bytes:
    try:
        return base64.b64decode(token, altchars=b"-_", validate=True) if token else b""
    except (binascii.Error, ValueError):
        raise malformed("pageToken cannot be read.") from None


def _download(place: BucketPlace, request: Request, found: StoredObject) -> Answer:
    wanted = read_range(request.headers.get("range"), found.size)
    headers = {"content-type": found.content_type, "accept-ranges": "bytes", **object_headers(found)}
    first, length = wanted or (0, found.size)
    if wanted:
        headers["content-range"] = f"bytes {first}-{first + length - 1}/{found.size}"
    return Answer(206 if wanted else 200, headers, file=place.shelf.data(found.data), first=first, length=length)


async def _delete(place: BucketPlace, request: Request, bucket: str, name: str) -> Answer:
    refuse_other_preconditions(request)
    generation, match = request.number("generation"), request.number("ifGenerationMatch")
    await in_thread(lambda: place.ledger.delete(bucket, name, generation=generation, generation_match=match))
    return Answer(204)


async def _copy(place: BucketPlace, request: Request, source: StoredObject, to: tuple[str, str]) -> StoredObject:
    refuse_other_preconditions(request)
    told = read_description(await request.body.whole(_LONGEST_DESCRIPTION))
    wish = Wish(
        bucket=to[0],
        name=to[1],
        content_type=check_type(told.content_type or source.content_type),
        metadata=source.metadata if told.metadata is None else check_metadata(told.metadata),
        generation_match=request.number("ifGenerationMatch"),
    )
    return await in_thread(place.ledger.copy, source, wish)


def _rewritten(copied: StoredObject, address: str) -> Answer:
    return as_json({
        "kind": "storage#rewriteResponse", "done": True, "objectSize": str(copied.size),
        "totalBytesRewritten": str(copied.size), "resource": described(copied, address),
    })  # fmt: skip
