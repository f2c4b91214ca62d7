"""The headers of tus 1.0.0, read strictly: whatever is not exactly as the protocol says is refused by name.

Nothing here knows a connection, a file or a database.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

VERSION = "1.0.0"
EXTENSIONS = (
    "creation", "creation-with-upload", "creation-defer-length", "checksum", "termination", "expiration",
    "concatenation",
)  # fmt: skip
ALGORITHMS: Mapping[str, Callable[[], Any]] = {"sha1": hashlib.sha1, "sha256": hashlib.sha256}
CONTENT_TYPE = "application/offset+octet-stream"

UPLOAD_ID = re.compile(r"upl_[A-Za-z0-9_-]{21}")
_WHOLE_NUMBER = re.compile(r"[0-9]{1,30}")  # far beyond any file, so that too long is told from malformed
_PDF = {".pdf": "application/pdf"}
_PICTURES = {
    ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".tif": "image/tiff", ".tiff": "image/tiff",
    ".webp": "image/webp",
}  # fmt: skip
_METADATA_KEY = re.compile(r"[!-+\--~]+")  # printable ASCII without space and comma
_LONGEST_METADATA = 8192
_MOST_PARTS = 1000
_UPLOAD_URL = re.compile(r"(?:https?://[^/\s]+)?/(?:[^\s?#]*/)?(upl_[A-Za-z0-9_-]{21})/?")


@dataclass(frozen=True, slots=True)
class Checksum:
    """What a chunk must hash to. `hasher` is fed as the bytes are written."""

    algorithm: str
    expected: bytes
    hasher: Any = field(compare=False)

    def update(self, buffers: Iterable[bytes]) -> None:
        for buffer in buffers:
            self.hasher.update(buffer)

    @property
    def matches(self) -> bool:
        digest: bytes = self.hasher.digest()
        return digest == self.expected


def invalid(header: str, reason: str) -> PenstockError:
    return PenstockError(error_codes.UPLOAD_HEADER_INVALID, header=header, reason=reason)


def whole_number(header: str, text: str | None) -> int | None:
    """A header that counts bytes; None when it was not sent."""
    if text is None:
        return None
    if not _WHOLE_NUMBER.fullmatch(text):
        raise invalid(header, "must be a whole number of bytes, in digits only")
    return int(text)


def parse_length(length: str | None, deferred: str | None) -> int | None:
    """Upload-Length, or None when the client will say later. One of the two must be there, not both."""
    if deferred is not None:
        if deferred != "1":
            raise invalid("Upload-Defer-Length", "must be 1")
        if length is not None:
            raise invalid("Upload-Defer-Length", "must not be sent together with Upload-Length")
        return None
    if length is None:
        raise invalid("Upload-Length", "is missing; send it, or Upload-Defer-Length: 1")
    return whole_number("Upload-Length", length)


def parse_metadata(text: str) -> dict[str, str]:
    """Pairs of a key and base64, separated by commas. Values that are not UTF-8 lose what is not."""
    if len(text) > _LONGEST_METADATA:
        raise invalid("Upload-Metadata", f"has more than {_LONGEST_METADATA} characters")
    found: dict[str, str] = {}
    for pair in text.split(",") if text.strip() else ():
        key, _, encoded = pair.strip().partition(" ")
        if not _METADATA_KEY.fullmatch(key):
            raise invalid("Upload-Metadata", "each pair starts with a key of printable ASCII without spaces and commas")
        if key in found:
            raise invalid("Upload-Metadata", f"names {key} twice")
        try:
            value = base64.b64decode(encoded, validate=True)
        except ValueError:  # also for letters beyond ASCII
            raise invalid("Upload-Metadata", f"the value of {key} is not base64") from None
        found[key] = value.decode(errors="replace")
    return found


def file_name(metadata: Mapping[str, str]) -> str:
    """The name of the file; INVALID_FILE_TYPE unless the metadata speak of a PDF, or of a picture that is for ETL."""
    name, kind = metadata.get("filename", ""), metadata.get("filetype", "")
    types = {**_PDF, **_PICTURES} if metadata.get("purpose") == "etl" else _PDF
    if not name.lower().endswith(tuple(types)):
        raise PenstockError(error_codes.INVALID_FILE_TYPE, filename=name[:200])
    if kind and kind.partition(";")[0].strip().lower() not in types.values():
        raise PenstockError(error_codes.INVALID_FILE_TYPE, filetype=kind[:200])
    return clean_name(name)


def clean_name(name: str) -> str:
    """A name that does no harm in logs, on screens and in the database."""
    last = re.split(r"[/\\]", name)[-1]  # some browsers send a path
    return "".join(letter for letter in last if letter.isprintable())[-255:]


def parse_checksum(text: str | None) -> Checksum | None:
    if text is None:
        return None
    algorithm, _, encoded = text.partition(" ")
    if algorithm not in ALGORITHMS:
        supported = sorted(ALGORITHMS)
        raise PenstockError(error_codes.CHECKSUM_UNSUPPORTED, algorithm=algorithm[:50], supported=supported)
    hasher = ALGORITHMS[algorithm]()
    try:
        expected = base64.b64decode(encoded, validate=True)
    except ValueError:  # also for letters beyond ASCII
        raise invalid("Upload-Checksum", "the checksum is not base64") from None
    if len(expected) != hasher.digest_size:
        raise invalid("Upload-Checksum", f"a {algorithm} checksum has {hasher.digest_size} bytes")
    return Checksum(algorithm, expected, hasher)


def parse_concat(text: str | None) -> tuple[str, list[str]]:
    """('', []), ('partial', []) or ('final', ids of the parts in their order)."""
    if text is None:
        return "", []
    if text == "partial":
        return "partial", []
    kind, separator, urls = text.partition(";")
    if kind != "final" or not separator:
        raise invalid("Upload-Concat", "must be partial, or final; and the addresses of the parts")
    parts = []
    for url in urls.split():
        match = _UPLOAD_URL.fullmatch(url)
        if match is None:
            raise invalid("Upload-Concat", "names something that is no address of an upload")
        if match[1] in parts:  # a short request would make us write a file of any size
            raise PenstockError(error_codes.UPLOAD_CONCAT_INVALID, part=match[1], reason="it is named more than once")
        parts.append(match[1])
    if not 1 <= len(parts) <= _MOST_PARTS:
        raise invalid("Upload-Concat", f"a final upload has 1 to {_MOST_PARTS} parts")
    return "final", parts
