"""Looks through a PDF's structure, in the sandbox, and lists everything that speaks against taking it in.

Only qpdf reads here, with its own limits set low; PDFium gets to see a file after this has found nothing. Each
check is bounded by construction, on top of the time and memory that the sandbox allows.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import BinaryIO

import msgspec
import pikepdf
from pikepdf import AccessMode, Pdf, Stream
from pikepdf.settings import set_qpdf_limits

from penstock.pdf import codes
from penstock.pdf.actions import DECISIVE_KEYS, worth_a_look
from penstock.pdf.bytescan import scan_bytes
from penstock.pdf.findings import Bounds, Inspection, Notes
from penstock.pdf.hybrid import with_hidden_objects
from penstock.pdf.nesting import Drawing, Leaf, check_boxes, check_pattern, images_in_pattern, pages_of
from penstock.pdf.places import with_places
from penstock.pdf.reading import Reference
from penstock.pdf.table import find_listed_actions
from penstock.pdf.weighing import Scales

_MAGIC_WITHIN = 1024  # readers look so far for the header
_TAIL = 64 * 1024
_MAPPED_AT_MOST = 64 << 20  # a mapping counts against the memory of the call
_LINEARIZED = re.compile(rb"/Linearized\b[^>]{0,200}?/L\s+(\d{1,15})")
_NESTED = "nested"
_AT_ONCE = 100_000
_SAID_TWICE = re.compile(r"object (\d+) .*duplicated key (/[^;\s]+)")

set_qpdf_limits(
    parser_max_nesting=200,
    flate_max_memory=256 << 20,
    run_length_max_memory=256 << 20,
    png_max_memory=64 << 20,
    tiff_max_memory=64 << 20,
)


def inspect(file: BinaryIO, bounds: Mapping[str, int]) -> Inspection:
    """All that is wrong with the file; also what it is, as far as it could be read."""
    notes = Notes()
    head = file.read(_MAGIC_WITHIN + 8)
    if b"%PDF-" not in head[: _MAGIC_WITHIN + 5]:
        notes.add(codes.INVALID_MIME, "start of the file", "no %PDF- in the first 1,024 bytes" if head else "no bytes")
        return notes.inspection()
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    try:
        limits = msgspec.convert(dict(bounds), Bounds)
        found = _Look(file, limits, notes).through(cut=_is_cut(file, head, size))
        return _with_all_objects(file, found, limits, notes) if found.ok else found
    except pikepdf.PasswordError:
        notes.add(codes.ENCRYPTED, "", "a password is needed to open it")
    except pikepdf.PdfError as failure:  # at once, or with damage that shows only when an object is read
        notes.add(*_why_unreadable(file, head, size, str(failure)))
    return notes.inspection()


def _with_all_objects(file: BinaryIO, found: Inspection, limits: Bounds, notes: Notes) -> Inspection:
    """The same, with what speaks against objects that the table does not name."""
    scan_bytes(file.fileno(), limits, notes)
    seen = notes.inspection()
    return replace(found, issues=seen.issues, issue_count=seen.issue_count)


def _opened(file: BinaryIO) -> Pdf:
    small = os.fstat(file.fileno()).st_size <= _MAPPED_AT_MOST
    return pikepdf.open(
        file,
        suppress_warnings=True,
        inherit_page_attributes=False,
        access_mode=AccessMode.mmap if small else AccessMode.stream,
    )


def _why_unreadable(file: BinaryIO, head: bytes, size: int, failure: str) -> tuple[str, str, str]:
    reason = failure.partition("): ")[2] or failure.rpartition(">: ")[2] or failure
    if "encryption" in failure or "/Encrypt" in failure:
        return codes.ENCRYPTED, "", reason
    if _NESTED in failure or "Loop detected" in failure:
        return codes.RECURSION, "", reason
    if "no pages found" in failure and not _is_cut(file, head, size):
        return codes.EMPTY_PDF, "page tree", reason
    return codes.PDF_TRUNCATED if _is_cut(file, head, size) else codes.PDF_UNREADABLE, "", reason


def _is_cut(file: BinaryIO, head: bytes, size: int) -> bool:
    """No end mark near the end, or shorter than a linearized file says of itself."""
    stated = _LINEARIZED.search(head)
    if stated and int(stated[1]) > size:
        return True
    file.seek(max(0, size - _TAIL))
    tail = file.read(_TAIL)
    return b"%%EOF" not in tail and b"startxref" not in tail


class _Look:
    """One pass over one file."""

    def __init__(self, file: BinaryIO, bounds: Bounds, notes: Notes) -> None:
        self._file = file
        self._bounds = bounds
        self._notes = notes
        self._scales = Scales(bounds, notes)
        self._forms: list[Reference] = []
        self._nested_too_deep = False
        self._warned: set[str] = set()
        self._images_in_patterns = 0

    def through(self, *, cut: bool) -> Inspection:
        """qpdf keeps what it has read, up to 3 KiB an object, so a large file is opened anew on the way."""
        with _opened(self._file) as pdf:
            if pdf.is_encrypted:
                self._notes.add(codes.ENCRYPTED, "", "encrypted, though it opens without a password")
            if cut:
                self._notes.add(codes.PDF_TRUNCATED, "end of the file", "the end of the file is missing")
            table = list(pdf.get_xref_table())
            self._look_for_hidden(pdf, table)
            if len(table) <= _AT_ONCE:
                self._sweep(pdf, table)
                return self._inspection(pdf, len(table))
        if len(table) <= self._bounds.max_objects:
            for start in range(0, len(table), _AT_ONCE):
                with _opened(self._file) as pdf:
                    self._sweep(pdf, table[start : start + _AT_ONCE])
        with _opened(self._file) as pdf:
            return self._inspection(pdf, len(table))

    def _look_for_hidden(self, pdf: Pdf, table: list[Reference]) -> None:
        lengthened = with_hidden_objects(self._file, pdf.Root.objgen)
        if lengthened is None or pdf.is_encrypted or len(table) > self._bounds.max_objects:
            return
        with pikepdf.open(lengthened, suppress_warnings=True, inherit_page_attributes=False) as other:
            known = set(table)
            hidden = [each for each in other.get_xref_table() if each not in known]
            self._sweep(other, hidden[: self._bounds.max_objects])

    def _inspection(self, pdf: Pdf, objects: int) -> Inspection:
        leaves = pages_of(pdf, self._notes)
        self._count(leaves, objects)
        find_listed_actions(pdf, pdf.trailer, "trailer", self._notes)
        self._draw(pdf, leaves)
        check_boxes(leaves, self._bounds, self._notes)
        self._heed_warnings(pdf)
        if self._nested_too_deep:
            self._notes.add(codes.RECURSION, "", "arrays or dictionaries nested too deep")
        found = self._notes.inspection()
        return replace(
            found,
            page_count=len(leaves),
            version=pdf.pdf_version,
            object_count=objects,
            inflated_bytes=self._scales.inflated,
            images_in_patterns=self._images_in_patterns,
            issues=with_places(found.issues, pdf, leaves),
        )

    def _count(self, leaves: list[Leaf], objects: int) -> None:
        if not leaves:
            self._notes.add(codes.EMPTY_PDF, "page tree", "no pages")
        if len(leaves) > self._bounds.max_pages:
            detail = f"{len(leaves)} pages, {self._bounds.max_pages} are allowed"
            self._notes.add(codes.PAGE_COUNT_EXCEEDED, "page tree", detail)
        if objects > self._bounds.max_objects:
            detail = f"{objects} objects, {self._bounds.max_objects} are allowed"
            self._notes.add(codes.OBJECT_COUNT_EXCEEDED, "", detail)

    def _sweep(self, pdf: Pdf, table: list[Reference]) -> None:
        for number, generation in table:
            self._object(pdf, pdf.get_object(number, generation), f"object {number}")
        self._heed_warnings(pdf)

    def _heed_warnings(self, pdf: Pdf) -> None:
        for each in map(str, pdf.get_warnings()):
            self._nested_too_deep = self._nested_too_deep or _NESTED in each
            said_twice = _SAID_TWICE.search(each)
            if said_twice and said_twice[2] in DECISIVE_KEYS and said_twice[0] not in self._warned:
                self._warned.add(said_twice[0])
                detail = f"{said_twice[2]} is said twice: readers disagree which one holds"
                self._notes.add(codes.PARSE_FAILED, f"object {said_twice[1]}", detail)

    def _object(self, pdf: Pdf, found: object, place: str) -> None:
        if not isinstance(found, pikepdf.Object):
            return  # a number
        if not isinstance(found, Stream):
            if worth_a_look(found.unparse(resolved=True)):
                find_listed_actions(pdf, found, place, self._notes)
            return
        text = found.stream_dict.unparse(resolved=True)
        if worth_a_look(text):
            find_listed_actions(pdf, found, place, self._notes)
        self._scales.weigh(found, text)
        if b"/Subtype /Form" in text:
            self._forms.append(found.objgen)
        if b"/PatternType 1" in text:
            check_pattern(found, place, self._notes)
            self._images_in_patterns += images_in_pattern(found)

    def _draw(self, pdf: Pdf, leaves: list[Leaf]) -> None:
        drawing = Drawing(self._scales.weights, self._bounds, self._notes)
        for number, leaf in enumerate(leaves[: self._bounds.max_pages], 1):
            drawing.check_page(number, leaf)
        for reference in self._forms:
            drawing.check_form(pdf.get_object(reference))
