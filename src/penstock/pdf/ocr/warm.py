"""Imported when a worker starts, before its memory is measured: the models are loaded and have worked once."""

from penstock.pdf.ocr import reading as _reading  # noqa: F401
from penstock.pdf.ocr.engine import warm

warm()
