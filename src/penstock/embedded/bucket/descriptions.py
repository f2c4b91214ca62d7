"""What a client of the JSON API says of an object before its bytes: checked, and made into a wish."""

from typing import Any

import msgspec

from penstock.embedded.bucket.names import check_metadata, check_name, check_type
from penstock.embedded.bucket.records import Wish
from penstock.embedded.bucket.refusals import malformed
from penstock.embedded.bucket.requests import Request

_PRECONDITIONS = ("ifGenerationNotMatch", "ifMetagenerationMatch", "ifMetagenerationNotMatch")


class Description(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of an object resource that count here; others are for the server to say, and are passed over."""

    name: str | None = None
    content_type: str | None = None
    metadata: dict[str, str] | None = None
    md5_hash: str | None = None
    crc32c: str | None = None


def read_description(body: bytes) -> Description:
    try:
        return msgspec.json.decode(body, type=Description) if body.strip() else Description()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise malformed("The description of the object cannot be read.") from None


def refuse_other_preconditions(request: Request) -> None:
    """To pass over a precondition would be to overwrite what somebody protects."""
    for name in _PRECONDITIONS:
        if name in request.query:
            raise malformed(f"{name} is not known here.")


def wish_for(request: Request, bucket: str, told: Description, content_type: str | None) -> Wish:
    refuse_other_preconditions(request)
    return Wish(
        bucket=bucket,
        name=check_name(request.query.get("name") or told.name or ""),
        content_type=check_type(told.content_type or content_type),
        metadata=check_metadata(told.metadata or {}),
        generation_match=request.number("ifGenerationMatch"),
        md5=told.md5_hash,
        crc32c=told.crc32c,
    )


def listed(name: str, **more: Any) -> dict[str, Any]:
    return {"kind": name, **{key: value for key, value in more.items() if value}}
