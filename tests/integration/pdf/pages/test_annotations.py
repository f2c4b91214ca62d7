"""What stands on a page without being part of its content is read as it is seen."""

import pytest
from tests.support.page_pdfs import BOLD, line
from tests.support.pdfs import FONT, document, stream

FORM = "/AcroForm<</Fields[5 0 R]/NeedAppearances true/DA(/F 10 Tf 0 g)/DR<</Font<</F " + BOLD + ">>>>>>"
LABEL = line(50, 704, "Name:").encode()


def drawn(text: str) -> bytes:
    return stream(
        f"BT /F 10 Tf 2 6 Td ({text}) Tj ET".encode(),
        f"/Type/XObject/Subtype/Form/BBox[0 0 200 20]/Resources<</Font<</F{BOLD}>>>>",
    )


def annotated(about: str, catalogue: str = "", count: int = 1) -> bytes:
    annotation = f"<</Type/Annot/Rect[119 700 319 720]/F 4{about}>>"
    return document(
        catalogue, f"/Annots[{'5 0 R ' * count}]", LABEL, {5: annotation, 6: drawn("Smith")}, resources=FONT
    )


def said(draft) -> list[str]:
    return [span.text for span in draft.page.spans]


class TestAnnotations:
    @pytest.mark.parametrize("kind", ["/Widget/FT/Tx/T(name)/V(Smith)", "/FreeText", "/Stamp"])
    async def test_what_is_drawn_for_them_is_read_where_it_stands(self, read_page, kind):
        draft = await read_page(annotated(f"/Subtype{kind}/AP<</N 6 0 R>>"))
        assert said(draft) == ["Name:", "Smith"]
        box = draft.page.spans[1].box
        assert (round(box.x0, 2), round(box.y0, 2)) == (0.2, 0.15)

    async def test_a_value_that_no_program_has_drawn_yet_is_read(self, read_page):
        page = annotated("/Subtype/Widget/FT/Tx/T(name)/V(Jones)/DA(/F 10 Tf 0 g)", FORM)
        assert said(await read_page(page)) == ["Name:", "Jones"]

    async def test_what_is_hidden_stays_hidden(self, read_page):
        page = annotated("/Subtype/FreeText/AP<</N 6 0 R>>").replace(b"/F 4/", b"/F 2/")
        assert said(await read_page(page)) == ["Name:"]

    async def test_a_page_of_too_many_is_read_without_them_and_says_so(self, read_page):
        draft = await read_page(annotated("/Subtype/FreeText/AP<</N 6 0 R>>", count=2001))
        assert (said(draft), draft.page.warnings) == (["Name:"], ["annotations_cut"])
