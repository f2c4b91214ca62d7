"""PDFs of the fairness benchmark: small honest ones, and ones that are small to send and slow to draw."""

import io
import secrets

import pikepdf
from pikepdf import Dictionary, Name, Pdf

_FONT = Dictionary(Type=Name.Font, Subtype=Name.Type1, BaseFont=Name.Helvetica)
_PAGE = (612, 792)


def small_pdf(*lines: str) -> bytes:
    """One page of text that no other file has; what an honest merchant sends."""
    made = Pdf.new()
    page = made.add_blank_page(page_size=(300, 400))
    page.Resources = Dictionary(Font=Dictionary(F1=_FONT))
    shown = [f"Invoice {secrets.token_hex(6)}", "Total: 42.00 EUR", "Currency: EUR", *lines]
    text = " ".join(f"({line}) Tj 0 -16 Td" for line in shown)
    page.Contents = made.make_stream(f"BT /F1 11 Tf 20 360 Td {text} ET".encode())
    return _bytes_of(made)


def text_pdf(line: str) -> bytes:
    """One page with one long line of text, as wide as PDF allows, that no other file has."""
    made = Pdf.new()
    page = made.add_blank_page(page_size=(14_400, 400))
    page.Resources = Dictionary(Font=Dictionary(F1=_FONT))
    content = f"BT /F1 8 Tf 20 300 Td (Order {secrets.token_hex(6)}) Tj 0 -20 Td ({line}) Tj ET"
    page.Contents = made.make_stream(content.encode())
    return _bytes_of(made)


def slow_pdf(pages: int, fills: int, *, with_text: bool = False) -> bytes:
    """Each page shows the same full-page fills, blended by luminosity: the time to draw one grows with their square.

    With text on its pages a file is not drawn when it is admitted, only when a picture of a page is asked for.
    """
    made = Pdf.new()
    text = f"BT /F1 11 Tf 20 700 Td ({'catalogue of slow pages ' * 8}) Tj ET " if with_text else ""
    content = "/G gs " + "".join(f"0.{n % 9 + 1} 0.5 0.{n % 7 + 1} rg 0 0 612 792 re f " for n in range(fills))
    shared = made.make_stream((text + content).encode())
    state = made.make_indirect(Dictionary(Type=Name.ExtGState, BM=Name.Luminosity, ca=0.5))
    resources = made.make_indirect(Dictionary(ExtGState=Dictionary(G=state), Font=Dictionary(F1=_FONT)))
    for _ in range(pages):
        page = made.add_blank_page(page_size=_PAGE)
        page.Resources, page.Contents = resources, shared
    made.Root.Fresh = pikepdf.String(secrets.token_hex(8))  # the same content twice would be a duplicate
    return _bytes_of(made)


def pages_pdf(pages: int) -> bytes:
    """So many small pages of text, each a little different."""
    made = Pdf.new()
    for number in range(1, pages + 1):
        page = made.add_blank_page(page_size=(300, 400))
        page.Resources = Dictionary(Font=Dictionary(F1=_FONT))
        words = f"Page {number} of catalogue {secrets.token_hex(6)} with enough words to be a page of text"
        page.Contents = made.make_stream(f"BT /F1 8 Tf 10 360 Td ({words}) Tj ET".encode())
    return _bytes_of(made)


def _bytes_of(made: Pdf) -> bytes:
    data = io.BytesIO()
    made.save(data, compress_streams=True, object_stream_mode=pikepdf.ObjectStreamMode.generate)
    return data.getvalue()
