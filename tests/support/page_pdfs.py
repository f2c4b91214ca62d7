"""Pages for tests of reading: fonts that say what they mean, fonts that do not, scans, forms, patterns."""

import io

from PIL import Image, ImageDraw

from tests.support.pdfs import FONT, document, stream

WIDE = "5 0 R"
BOLD = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica-Bold>>"


def written_page(content: str | bytes, page: str = "") -> bytes:
    """Helvetica as /F, Helvetica-Bold as /B, and /W whose two-byte codes are Unicode."""
    fonts = f"<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>/B{BOLD}/W {WIDE}>>>>"
    data = content.encode("latin-1") if isinstance(content, str) else content
    return document(content=data, page=page, resources=fonts, objects=wide_font(5))


def line(x: float, y: float, text: str, size: float = 10, font: str = "F") -> str:
    return f"BT /{font} {size} Tf 1 0 0 1 {x} {y} Tm ({text}) Tj ET "


def wide_line(x: float, y: float, text: str, size: float = 10) -> str:
    return f"BT /W {size} Tf 1 0 0 1 {x} {y} Tm <{text.encode('utf-16-be').hex()}> Tj ET "


def wide_font(number: int, meanings: str = "<0000> <FFFF> <0000>") -> dict[int, str | bytes]:
    """A font of two-byte codes, each letter as wide as high; `meanings` is a range of its map to Unicode."""
    cmap = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def\n"
        "1 begincodespacerange <0000> <FFFF> endcodespacerange\n"
        f"1 beginbfrange {meanings} endbfrange\nendcmap end end"
    )
    about = "/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>"
    described = (
        "<</Type/FontDescriptor/FontName/Wide/Flags 4/FontBBox[0 -200 1000 900]/ItalicAngle 0"
        "/Ascent 800/Descent -200/CapHeight 700/StemV 80>>"
    )
    return {
        number: f"<</Type/Font/Subtype/Type0/BaseFont/Wide/Encoding/Identity-H/DescendantFonts[{number + 1} 0 R]"
        f"/ToUnicode {number + 2} 0 R>>",
        number + 1: f"<</Type/Font/Subtype/CIDFontType2/BaseFont/Wide{about}/DW 1000/FontDescriptor {number + 3} 0 R>>",
        number + 2: stream(cmap.encode()),
        number + 3: described,
    }


def scan(width: int = 600, height: int = 800) -> bytes:
    """A grey picture of lines of text."""
    picture = Image.new("L", (width, height), 255)
    pen = ImageDraw.Draw(picture)
    for row in range(20, height - 20, 24):
        pen.text((20, row), "A line of a letter that somebody put on a scanner " * (width // 250), fill=0, font_size=14)
    return picture.crop((0, 0, width, height)).tobytes()


def photo(width: int = 300, height: int = 400) -> bytes:
    """Something round and soft."""
    return Image.radial_gradient("L").resize((width, height)).tobytes()


def grey_image(data: bytes, width: int, height: int, extra: str = "") -> bytes:
    about = f"/Type/XObject/Subtype/Image/Width {width}/Height {height}/ColorSpace/DeviceGray/BitsPerComponent 8"
    return stream(data, about + extra)


def picture_page(content: str, image: bytes, objects: dict[int, str | bytes] | None = None, page: str = "") -> bytes:
    """A page with an image /I, and Helvetica /F."""
    fonts = FONT.removeprefix("<<").removesuffix(">>")
    resources = f"<<{fonts}/XObject<</I 5 0 R/X 6 0 R>>/Pattern<</P 7 0 R>>>>"
    held: dict[int, str | bytes] = {5: image, **(objects or {})}
    return document(content=content.encode("latin-1"), page=page, resources=resources, objects=held)


def jpeg(width: int = 64, height: int = 48) -> bytes:
    made = io.BytesIO()
    Image.new("RGB", (width, height), (200, 30, 30)).save(made, "JPEG", quality=90)
    return made.getvalue()
