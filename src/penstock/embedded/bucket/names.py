"""What an object may be called, and what may be noted on it."""

from collections.abc import Mapping

from penstock.embedded.bucket.refusals import Refusal, malformed

_LONGEST_NAME, _LONGEST_METADATA, _LONGEST_TYPE = 1024, 8 * 1024, 256


def check_name(name: str) -> str:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise Refusal(400, "InvalidObjectName", "An object's name is UTF-8.") from None
    if not 1 <= size <= _LONGEST_NAME or name in (".", "..") or any(sign in name for sign in "\r\n\x00"):
        raise Refusal(400, "InvalidObjectName", "An object's name has 1 to 1024 bytes, and no line ends.")
    return name


def owner_of(name: str) -> str:
    """The uploader of an object, as its name tells: that of a direct upload is `folder/user/hash`."""
    return name.rpartition("/")[0].rpartition("/")[2]


def check_type(content_type: str | None) -> str:
    found = (content_type or "").strip()
    if len(found) > _LONGEST_TYPE or not found.isprintable() or not found.isascii():
        raise malformed("Content-Type cannot be read.")
    return found or "application/octet-stream"


def check_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    if sum(len(name.encode("utf-8", "replace")) + len(value.encode("utf-8", "replace"))
           for name, value in metadata.items()) > _LONGEST_METADATA:  # fmt: skip
        raise Refusal(400, "MetadataTooLarge", "Metadata may have 8 KiB at the most.")
    return dict(metadata)
