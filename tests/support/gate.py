"""The PDF gate in this process, without the sandbox: for many small files, quickly."""

import tempfile
from dataclasses import asdict

from penstock.pdf import PdfSettings
from penstock.pdf.findings import Inspection
from penstock.pdf.inspect import inspect

_BOUNDS = asdict(PdfSettings().bounds)


def inspected(data: bytes) -> Inspection:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        return inspect(file, _BOUNDS)


def codes_of(data: bytes) -> set[str]:
    return {issue.code for issue in inspected(data).issues}
