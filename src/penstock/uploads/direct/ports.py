"""What direct uploads ask of a bucket, whoever runs it.

Calls may take long and may fail with STORE_UNAVAILABLE: none is made inside a transaction. An object is named with
its generation wherever one was seen, so that what is moved or fetched is what was looked at.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """What a bucket says of a finished object."""

    bucket: str
    name: str
    generation: str
    size: int
    content_type: str | None
    md5_hex: str | None  # None: the bucket does not know it
    crc32c: str | None = None
    etag: str | None = None
    finished_at: datetime | None = None


def md5_hex(value: Any) -> str | None:
    """From base64. None for a composed object, which has none; malformed is as good: neither can be believed."""
    try:
        plain = base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        return None
    return plain.hex() if len(plain) == 16 else None


@dataclass(frozen=True, slots=True)
class SignedStart:
    """How a phone begins a session: a POST to `url` with exactly these headers, before `expires_at`."""

    url: str = field(repr=False)
    headers: Mapping[str, str]
    expires_at: datetime


class Bucket(Protocol):
    """One bucket: sessions begin with a signed POST, and the bucket tells us when an object is whole."""

    name: str

    def reference(self, found: ObjectFacts) -> str:
        """`gs://bucket/object`: where it lies, which may be a bucket that was in use before."""

    async def sign_start(self, object_name: str, content_type: str, most_bytes: int) -> SignedStart | None:
        """Only while no such object exists will the session end well, and only with so many bytes at the most.

        None: bytes come in parts, see `PartBucket`.
        """

    async def find(self, object_name: str) -> ObjectFacts | None:
        """The object that has this name now."""

    async def md5_of(self, found: ObjectFacts) -> str | None:
        """For who was told no MD5: computed from the bytes where the bucket cannot know it. None: there is none."""

    async def fetch(self, found: ObjectFacts, to: Path) -> None:
        """Its bytes, whole and synced; NOT_FOUND when that generation is gone."""

    async def move_aside(self, object_name: str, generation: str, to: str) -> None:
        """Keep that generation under another name and free its own; done already: nothing happens."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Part:
    """One part that the bucket has."""

    number: int
    size: int
    etag: str


@runtime_checkable
class PartBucket(Bucket, Protocol):
    """A bucket whose sessions are made of parts that we sign one by one, and that we ourselves complete."""

    part_bytes: int

    async def begin_parts(self, object_name: str, content_type: str) -> str:
        """The id of a multipart upload: of a new one, or of one that is there for this object."""

    async def sign_part(self, object_name: str, multipart_id: str, number: int, size: int | None) -> SignedStart:
        """A PUT this time, of exactly so many bytes; None where nobody knows how many they will be."""

    async def parts(self, object_name: str, multipart_id: str) -> Sequence[Part] | None:
        """What has arrived; None: there is no such upload any more."""

    async def complete_parts(self, object_name: str, multipart_id: str, parts: Sequence[Part]) -> None:
        """Only while no such object exists: DIRECT_OBJECT_EXISTS otherwise."""

    async def abort_parts(self, object_name: str, multipart_id: str) -> None:
        """Done already: nothing happens."""

    async def abort_all_parts(self, object_name: str) -> None:
        """Also of uploads that nobody has noted."""
