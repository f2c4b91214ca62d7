"""What kind of file it is, by its first bytes; what its name or its sender say does not count."""

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

HEAD = 1024  # bytes; a PDF may begin with some rubbish
_ACCEPTED = ("application/pdf", "image/jpeg", "image/png", "image/tiff", "image/webp")


def media_type_of(head: bytes, filename: str = "") -> str:
    """ETL_FILE_TYPE for what cannot be read."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head[:4] in {b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+"}:
        return "image/tiff"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    if b"%PDF-" in head[:HEAD]:  # last: a picture may speak of PDFs in its notes
        return "application/pdf"
    reason = {} if head else {"reason": "the file is empty"}
    raise PenstockError(error_codes.ETL_FILE_TYPE, filename=filename[:200], **reason, accepted=_ACCEPTED)
