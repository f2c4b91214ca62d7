"""Providers and post-processors by name: those of this build, and installed ones by entry point.

A plug-in is loaded when it is asked for, so one that cannot be loaded harms nobody else. A name of this build cannot
be taken by a plug-in.
"""

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from penstock.extraction.ports import OCRProvider, PostProcessor, Tools
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError, reason_of

OCR_PROVIDERS = "penstock.ocr_providers"
POST_PROCESSORS = "penstock.post_processors"

Made = TypeVar("Made")
Make = Callable[[Tools], Made]


class Shelf(Generic[Made]):
    """One kind of part, by name."""

    def __init__(self, entry_point: str, built_in: Mapping[str, Make[Made]]) -> None:
        self._entry_point, self._built_in = entry_point, dict(built_in)

    def installed(self) -> list[str]:
        return sorted({*self._built_in, *self._points()})

    def make(self, name: str, tools: Tools) -> Made:
        """ETL_PROVIDER_UNKNOWN when there is none of the name, or it cannot be loaded."""
        if name in self._built_in:
            return self._built_in[name](tools)
        point = self._points().get(name)
        if point is None:
            raise PenstockError(error_codes.ETL_PROVIDER_UNKNOWN, name=name, installed=self.installed())
        try:
            make: Make[Made] = point.load()
        except (ImportError, AttributeError) as failure:
            raise PenstockError(
                error_codes.ETL_PROVIDER_UNKNOWN, name=name, installed=self.installed(), reason=reason_of(failure)
            ) from failure
        return make(tools)

    def _points(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=self._entry_point)}


def ocr_providers(**built_in: Make[OCRProvider]) -> Shelf[OCRProvider]:
    return Shelf(OCR_PROVIDERS, built_in)


def post_processors(**built_in: Make[PostProcessor]) -> Shelf[PostProcessor]:
    return Shelf(POST_PROCESSORS, built_in)
