"""The PDF gate in this process, without the sandbox: for many small files, quickly."""

import tempfile
from dataclasses import asdict

from penstock.pdf import PdfSettings
from penstock.pdf.bytescan import scan_bytes
from penstock.pdf.findings import Inspection, Notes
from penstock.pdf.inspect import inspect

_BOUNDS = asdict(PdfSettings().bounds)


def inspected(data: bytes) -> Inspection:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        return inspect(file, _BOUNDS)


def scanned(data: bytes) -> Inspection:
    """What the scan over all bytes finds by itself, without what qpdf sees."""
    notes = Notes()
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        scan_bytes(file.fileno(), PdfSettings().bounds, notes)
    return notes.inspection()


def codes_of(data: bytes) -> set[str]:
    return {issue.code for issue in inspected(data).issues}
