"""What is written down of objects, sessions and notifications: one small JSON file per object and per session."""

import base64
import hashlib
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import quote

import msgspec

Kind = Literal["xml", "json"]


class StoredObject(msgspec.Struct, frozen=True, kw_only=True):
    """One generation of an object, whole."""

    bucket: str
    name: str
    generation: int
    size: int
    md5: str  # base64, as clients see it
    crc32c: str
    content_type: str
    metadata: dict[str, str]
    data: str  # the file with its bytes
    created: datetime
    session: str | None = None  # that it came by

    @property
    def etag(self) -> str:
        return base64.b64encode(f"{self.generation}/1".encode()).decode()


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody must be told that an object was made. It describes the object, which may be gone by then."""

    id: str
    object: StoredObject
    overwrote: int | None = None


class ObjectRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What stands under a name, and what must still be told of it: one file, so that neither is without the other."""

    object: StoredObject | None  # None: deleted, but something must still be told
    notices: tuple[Notice, ...] = ()


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What an object is to be, before its bytes are there."""

    bucket: str
    name: str
    content_type: str
    metadata: dict[str, str]
    generation_match: int | None = None
    md5: str | None = None  # what it must turn out to have
    crc32c: str | None = None
    least: int = 0  # bytes, as whoever signed the address has said
    most: int | None = None


class SessionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A session. What it holds is told by the length of its data file; how it ended stands here."""

    key: str
    kind: Kind
    wish: Wish
    started: datetime
    total: int | None = None
    object: StoredObject | None = None  # ended well
    refused: tuple[int, str, str] | None = None  # ended otherwise: status, code, message


def encode(record: ObjectRecord | SessionRecord | Notice) -> bytes:
    return msgspec.json.encode(record)


def object_key(bucket: str, name: str) -> str:
    return hashlib.sha256(f"{bucket}/{name}".encode()).hexdigest()


def session_key(upload_id: str) -> str:
    """Files are named by this: who reads the directory cannot use the sessions."""
    return hashlib.sha256(upload_id.encode()).hexdigest()


def moment(when: datetime) -> str:
    """As the API writes times."""
    return when.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def described(stored: StoredObject, address: str = "") -> dict[str, Any]:
    """The object resource of the JSON API: numbers are text."""
    path = f"b/{stored.bucket}/o/{quote(stored.name, safe='')}"
    resource: dict[str, Any] = {
        "kind": "storage#object",
        "id": f"{stored.bucket}/{stored.name}/{stored.generation}",
        "selfLink": f"{address}/storage/v1/{path}",
        "mediaLink": f"{address}/download/storage/v1/{path}?generation={stored.generation}&alt=media",
        "name": stored.name,
        "bucket": stored.bucket,
        "generation": str(stored.generation),
        "metageneration": "1",
        "contentType": stored.content_type,
        "storageClass": "STANDARD",
        "size": str(stored.size),
        "md5Hash": stored.md5,
        "crc32c": stored.crc32c,
        "etag": stored.etag,
        **{name: moment(stored.created) for name in ("timeCreated", "updated", "timeStorageClassUpdated")},
    }
    if stored.metadata:
        resource["metadata"] = dict(stored.metadata)
    return resource
