"""What other readers see in a PDF: scripts and actions, found by rules that share nothing with those under test.

Each reader gives a list of words for what it saw. A reader that cannot open a file, or fails on the way, saw what it
had seen until then. PDFium tells by its own functions, and by the copy of its view that it writes.
"""

import ctypes
import io
import logging
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pikepdf
import pypdf
import pypdfium2
from pdfminer.pdfdocument import PDFDocument
from pdfminer.pdfparser import PDFParser
from pdfminer.pdftypes import PDFObjRef, PDFStream
from pdfminer.psparser import PSLiteral
from pypdfium2 import raw

logging.getLogger("pypdf").setLevel(logging.CRITICAL)
logging.getLogger("pdfminer").setLevel(logging.CRITICAL)
_OPERANDS = {
    "JavaScript": {"JS"},
    "Launch": {"F", "Win", "Mac", "Unix"},
    "SubmitForm": {"F"},
    "ImportData": {"F"},
    "GoToR": {"F"},
    "GoToE": {"F", "T"},
}
_MOST = 3000
_XFA = re.compile(rb"<[^<>]{0,80}?script\b", re.IGNORECASE)
_TROUBLE = (Exception, RecursionError)


def views(data: bytes) -> dict[str, list[str]]:
    """What each reader sees that speaks against the file; readers that see nothing are left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {name: sorted(set(read(data))) for name, read in READERS.items()}
    return {name: seen for name, seen in found.items() if seen}


def _guarded(seen: Iterator[str]) -> Iterator[str]:
    with suppress(*_TROUBLE):
        yield from seen


def judge(held: dict[str, Any]) -> Iterator[str]:
    """`held` has names as `/Name`, strings as bytes, streams as bytearrays, and references followed one step."""
    kind = held.get("S")
    if isinstance(kind, str) and _OPERANDS.get(kind[1:], set()) & held.keys():
        yield kind[1:]
    elif isinstance(kind, str) and isinstance(held.get("JS"), bytes | bytearray):
        yield "JavaScript"
    packets = held.get("XFA")
    if packets is not None:
        joined = b"".join(
            bytes(each) for each in (packets if isinstance(packets, list) else [packets]) if isinstance(each, bytearray)
        )
        if _XFA.search(joined.replace(b"\x00", b"")):
            yield "XFA"


# qpdf


def _qpdf(data: bytes, *, recovers: bool = True) -> Iterator[str]:
    with pikepdf.open(io.BytesIO(data), attempt_recovery=recovers, suppress_warnings=True) as pdf:
        for each in pdf.objects:
            yield from _guarded(_in_qpdf(each))


def _in_qpdf(value: Any, depth: int = 0) -> Iterator[str]:
    if depth > 30:
        return
    if isinstance(value, pikepdf.Array):
        for each in value:
            if isinstance(each, pikepdf.Object) and not each.is_indirect:
                yield from _in_qpdf(each, depth + 1)
        return
    held = value.stream_dict if isinstance(value, pikepdf.Stream) else value
    if isinstance(held, pikepdf.Dictionary):
        yield from judge({key[1:]: _of_qpdf(each) for key, each in held.items()})
        for each in held.values():
            if isinstance(each, pikepdf.Object) and not each.is_indirect:
                yield from _in_qpdf(each, depth + 1)


def _of_qpdf(value: Any) -> Any:
    if isinstance(value, pikepdf.Stream):
        try:
            return bytearray(value.read_bytes())
        except pikepdf.PdfError:
            return bytearray()
    if isinstance(value, pikepdf.Name):
        return str(value)
    if isinstance(value, pikepdf.String):
        return bytes(value)
    return [_of_qpdf(each) for each in value] if isinstance(value, pikepdf.Array) else object()


# PDFium


def _pdfium(data: bytes) -> Iterator[str]:
    with pypdfium2.PdfDocument(data) as document:
        if raw.FPDFDoc_GetJavaScriptActionCount(document.raw) > 0:
            yield "JavaScript"
        if raw.FPDFDoc_GetAttachmentCount(document.raw) > 0:
            yield "EmbeddedFile"
        for index in range(max(0, raw.FPDF_GetXFAPacketCount(document.raw))):
            if _XFA.search(_packet(document.raw, index).replace(b"\x00", b"")):
                yield "XFA"
        yield from _guarded(_pdfium_pages(document))
        copy = io.BytesIO()
        document.save(copy)
    yield from _guarded(_qpdf(copy.getvalue()))


def _packet(document: Any, index: int) -> bytes:
    size = ctypes.c_ulong()
    raw.FPDF_GetXFAPacketContent(document, index, None, 0, size)
    buffer = ctypes.create_string_buffer(max(1, size.value))
    raw.FPDF_GetXFAPacketContent(document, index, buffer, size.value, size)
    return buffer.raw


def _pdfium_pages(document: Any) -> Iterator[str]:
    for index in range(min(len(document), 5)):
        page = raw.FPDF_LoadPage(document.raw, index)
        if not page:
            continue
        try:
            for number in range(min(100, raw.FPDFPage_GetAnnotCount(page))):
                annotation = raw.FPDFPage_GetAnnot(page, number)
                link = raw.FPDFAnnot_GetLink(annotation) if annotation else None
                action = raw.FPDFLink_GetAction(link) if link else None
                kind = raw.FPDFAction_GetType(action) if action else 0
                if annotation:
                    raw.FPDFPage_CloseAnnot(annotation)
                if kind == raw.PDFACTION_LAUNCH:
                    yield "Launch"
                if kind in (raw.PDFACTION_REMOTEGOTO, raw.PDFACTION_EMBEDDEDGOTO):
                    yield "GoToR"
        finally:
            raw.FPDF_ClosePage(page)


# pypdf


def _pypdf(data: bytes) -> Iterator[str]:
    reader = pypdf.PdfReader(io.BytesIO(data), strict=False)
    yield from _walk(reader.trailer, _pypdf_step)


def _pypdf_step(value: Any) -> tuple[Any, Any]:
    """The value with a reference followed, and something to know it by."""
    with suppress(*_TROUBLE):
        if isinstance(value, pypdf.generic.IndirectObject):
            return value.get_object(), (value.idnum, value.generation)
    return value, None


# pdfminer


def _pdfminer(data: bytes) -> Iterator[str]:
    document = PDFDocument(PDFParser(io.BytesIO(data)))
    yield from _guarded(_walk(document.catalog, _pdfminer_step))
    for xref in document.xrefs:
        for number in list(xref.get_objids())[:500]:
            with suppress(*_TROUBLE):
                yield from list(_walk(document.getobj(number), _pdfminer_step))


def _pdfminer_step(value: Any) -> tuple[Any, Any]:
    with suppress(*_TROUBLE):
        if isinstance(value, PDFObjRef):
            return value.resolve(), value.objid
    return value, None


def _walk(root: Any, step: Callable[[Any], tuple[Any, Any]]) -> Iterator[str]:
    waiting, seen, left = [root], set(), _MOST
    while waiting and left:
        left -= 1
        value, identity = step(waiting.pop())
        if identity is not None:
            if identity in seen:
                continue
            seen.add(identity)
        held = _dictionary(value)
        if held is not None:
            yield from _guarded(judge({key: _plain(each, step) for key, each in held.items()}))
            waiting += held.values()
        elif isinstance(value, list):
            waiting += value


def _dictionary(value: Any) -> dict[str, Any] | None:
    if isinstance(value, PDFStream):
        value = value.attrs
    return {str(key).removeprefix("/"): each for key, each in value.items()} if isinstance(value, dict) else None


def _plain(value: Any, step: Callable[[Any], tuple[Any, Any]], depth: int = 0) -> Any:
    value = step(value)[0]
    if isinstance(value, list) and depth < 3:
        return [_plain(each, step, depth + 1) for each in value[:50]]
    if isinstance(value, PSLiteral):
        return f"/{value.name if isinstance(value.name, str) else value.name.decode('latin-1')}"
    if isinstance(value, pypdf.generic.NameObject):
        return str(value)
    if isinstance(value, pypdf.generic.StreamObject | PDFStream):
        return _data(value)
    if isinstance(value, str):
        return value.encode("utf-8", errors="replace")
    return value if isinstance(value, bytes) else object()


def _data(value: Any) -> bytearray:
    with suppress(*_TROUBLE):
        return bytearray(value.get_data())
    return bytearray()


READERS: dict[str, Callable[[bytes], Iterator[str]]] = {
    "qpdf": lambda data: _guarded(_qpdf(data)),
    "qpdf without repair": lambda data: _guarded(_qpdf(data, recovers=False)),
    "PDFium": lambda data: _guarded(_pdfium(data)),
    "pypdf": lambda data: _guarded(_pypdf(data)),
    "pdfminer": lambda data: _guarded(_pdfminer(data)),
}
