"""What a PDF says. Nothing here knows a database; everything that reads a stranger's bytes runs in the sandbox.

Modules inside load only what they need: this face is looked up by name, as every worker process imports it too.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.pdf.examine import Examiner, PictureFormat, Scan, pdf_sandbox
    from penstock.pdf.findings import Inspection, Issue
    from penstock.pdf.metrics import PageMetrics
    from penstock.pdf.ocr.settings import OcrSettings
    from penstock.pdf.prescan import Penalty, Prescan, PrescanRules, judge_pages
    from penstock.pdf.reader import PageReader
    from penstock.pdf.settings import PdfSettings

_PLACES = {
    "examine": ("Examiner", "PictureFormat", "Scan", "pdf_sandbox"),
    "findings": ("Inspection", "Issue"),
    "metrics": ("PageMetrics",),
    "ocr.settings": ("OcrSettings",),
    "prescan": ("Penalty", "Prescan", "PrescanRules", "judge_pages"),
    "reader": ("PageReader",),
    "settings": ("PdfSettings",),
}
_HOMES = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [
    "Examiner",
    "Inspection",
    "Issue",
    "OcrSettings",
    "PageMetrics",
    "PageReader",
    "PdfSettings",
    "Penalty",
    "PictureFormat",
    "Prescan",
    "PrescanRules",
    "Scan",
    "judge_pages",
    "pdf_sandbox",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
