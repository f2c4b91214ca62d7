"""A made-up invoice as a PDF of one page, so that a first try needs no document of one's own."""

_HEAD = (
    ("Invoice number", "PS-2026-0042"),
    ("Date", "03.02.2026"),
    ("Seller", "Weir & Sluice Ltd."),
    ("Currency", "EUR"),
)
_ROWS = (
    ("Item", "Qty", "Price", "Amount"),
    ("Sluice gate, oak", "2", "120.00", "240.00"),
    ("Iron grating 40 x 60", "5", "18.40", "92.00"),
    ("Delivery", "1", "35.00", "35.00"),
)
_COLUMNS = (60, 300, 370, 450, 535)
_TOP, _STEP = 600, 24


def invoice_pdf() -> bytes:
    objects = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R/Resources<</Font<</F 5 0 R/B 6 0 R>>>>>>",
        _stream(_drawn()),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica-Bold/Encoding/WinAnsiEncoding>>",
    )
    out, offsets = bytearray(b"%PDF-1.7\n"), []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(out)


def _stream(content: str) -> bytes:
    data = content.encode("cp1252")
    return b"<</Length %d>>stream\n%s\nendstream" % (len(data), data)


def _drawn() -> str:
    parts = [_text(60, 770, "INVOICE", size=22, font="B")]
    for line, (label, value) in enumerate(_HEAD):
        parts += [_text(60, 725 - line * 18, f"{label}:"), _text(170, 725 - line * 18, value)]
    for row, cells in enumerate(_ROWS):
        y = _TOP - row * _STEP
        parts += [
            _text(_COLUMNS[column] + 5, y - 16, cell, font="F" if row else "B") for column, cell in enumerate(cells)
        ]
    bottom = _TOP - len(_ROWS) * _STEP
    parts += [
        f"{_COLUMNS[0]} {_TOP - row * _STEP} m {_COLUMNS[-1]} {_TOP - row * _STEP} l S" for row in range(len(_ROWS) + 1)
    ]
    parts += [f"{x} {_TOP} m {x} {bottom} l S" for x in _COLUMNS]
    parts.append(_text(60, bottom - 30, "Total: 367.00", font="B"))
    parts.append(_text(60, bottom - 70, "Payable within 30 days. Thank you for your order."))
    return "\n".join(parts)


def _text(x: int, y: int, text: str, *, size: int = 10, font: str = "F") -> str:
    safe = text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
    return f"BT /{font} {size} Tf 1 0 0 1 {x} {y} Tm ({safe}) Tj ET"
