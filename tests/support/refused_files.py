"""One file for each reason to refuse one, made for the small bounds of `BOUNDS`."""

import io
import secrets
import zlib

from PIL import Image

from tests.support.pdfs import JS, document, encrypted, stream, text_pages, written

MiB = 1 << 20
# Small, so that the files can be small too; a thousand pages of text still fit.
BOUNDS = {
    "GW_SECURITY_PARSE_TIMEOUT_SEC": "3",
    "GW_SECURITY_MAX_OBJECT_COUNT": "3000",
    "GW_SECURITY_MEMORY_LIMIT_MB": "96",
    "GW_SECURITY_MAX_STREAM_MB": "64",
}
FORM = "/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</A 5 0 R>>>>"


def good() -> bytes:
    """Content that no other file has."""
    return document(content=f"BT /F 20 Tf 50 700 Td (page {secrets.token_hex(8)}) Tj ET".encode())


def picture() -> bytes:
    made = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(made, "PNG")
    return made.getvalue()


def no_pages() -> bytes:
    return written({1: "<</Type/Catalog/Pages 2 0 R>>", 2: "<</Type/Pages/Kids[]/Count 0>>"})


def too_many_pages() -> bytes:
    return text_pages(1001, lines=1)


def with_password() -> bytes:
    return encrypted(document(), "secret")


def opening(action: str) -> bytes:
    """An action that is done when the file is opened."""
    return document(f"/OpenAction{action}")


def with_script() -> bytes:
    return opening(JS)


def with_attachment() -> bytes:
    named = "/Names<</EmbeddedFiles<</Names[(a)<</F(a.exe)/EF<</F 5 0 R>>>>]>>>>"
    return document(named, objects={5: stream(b"MZ", "/Type/EmbeddedFile")})


def too_many_objects() -> bytes:
    return document(objects=dict.fromkeys(range(5, 3105), "<</A 1>>"))


def endless_work() -> bytes:
    """Nothing but clear codes: no output, and a minute of work."""
    return document(objects=dict.fromkeys(range(5, 45), _clear_codes(1_000_000)))


def too_much_memory() -> bytes:
    """The same in one piece that must be held at once."""
    return document(objects={5: _clear_codes(6_000_000)})


def _clear_codes(count: int) -> bytes:
    codes = int("100000000" * 8, 2).to_bytes(9, "big") * count
    return stream(zlib.compress(codes, 1), "/Filter[/FlateDecode/LZWDecode]", packed=False)


def bomb() -> bytes:
    return document(objects={5: stream(bytes(65 * MiB))})


def drawing_itself() -> bytes:
    return document(content=b"/A Do", resources="<</XObject<</A 5 0 R>>>>", objects={5: stream(b"/A Do /A Do", FORM)})


def huge_page() -> bytes:
    return document(page="/MediaBox[0 0 9000000 10]")


def saying_two_things() -> bytes:
    """Of two values of a key one reader takes the first, another the last."""
    return opening(f"{JS}/OpenAction[3 0 R/Fit]")


def cut_off() -> bytes:
    whole = text_pages(20)
    return whole[: len(whole) // 2]


def garbage() -> bytes:
    return b"%PDF-1.7\n" + b"junk " * 500 + b"\n%%EOF"
