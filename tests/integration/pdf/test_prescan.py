"""Pages are measured as they are seen: text, pictures, ink; what is blank is called blank, and nothing else."""

from signal import Signals

import pytest
from tests.support.pdfs import FONT, RULES, document, stream, text_pages, written

from penstock.kernel.errors import PenstockError
from penstock.kernel.sandbox import Ending, Outcome, SandboxSettings
from penstock.pdf import Examiner, PdfSettings, judge_pages, pdf_sandbox
from penstock.pdf.examine import issue_of

GREY = "/Type/XObject/Subtype/Image/Width 2/Height 2/BitsPerComponent 8/ColorSpace/DeviceGray"
PICTURE = {5: stream(b"\x00\xff\xff\x00", GREY)}
DRAWS = "<</XObject<</I 5 0 R/A 6 0 R>>/Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>"


def text(said: str, mode: int = 0, at: str = "60 700", size: int = 12) -> bytes:
    return f"BT {mode} Tr /F {size} Tf {at} Td ({said}) Tj ET ".encode()


def same_pages(count: int, content: bytes) -> bytes:
    """A document of so many pages that share their content."""
    kids = " ".join(f"{4 + each} 0 R" for each in range(count))
    page = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 3 0 R>>"
    return written({
        1: "<</Type/Catalog/Pages 2 0 R>>",
        2: f"<</Type/Pages/Count {count}/Kids[{kids}]>>",
        3: stream(content),
        **{4 + each: page for each in range(count)},
    })  # fmt: skip


async def page_of(examiner: Examiner, path):
    scan = await examiner.prescan(path, 1, RULES)
    assert scan.issues == []
    (page,) = scan.pages
    return page


async def is_blank(examiner: Examiner, path) -> bool:
    return judge_pages([await page_of(examiner, path)], RULES).all_blank


class TestBlank:
    @pytest.mark.parametrize(
        "data",
        [
            document(),
            document(content=text("12", at="290 30", size=10)),
            document(content=b"0 0 0 rg 100 100 1 1 re f 300 500 0.8 0.8 re f 20 700 1.2 1 re f"),
            document(content=b"0.8 0.9 1 rg 0 0 595 842 re f"),
            document(content=b"1 1 1 rg 100 100 300 300 re f"),
            document(content=text("all of this lies outside of the page", at="700 700")),
            document(content=text("all of this is invisible and lies over nothing", mode=3)),
            document(content=b"q 3 0 0 3 100 100 cm /I Do Q", resources=DRAWS, objects=PICTURE),
        ],
        ids=[
            "empty", "page number", "dust", "coloured paper", "white on white", "outside", "invisible text",
            "a speck of a picture",
        ],
    )  # fmt: skip
    async def test_a_page_with_nothing_to_see_is_blank(self, examiner, saved, data):
        assert await is_blank(examiner, saved(data))

    @pytest.mark.parametrize(
        "data",
        [
            document(content=text("Ten letters and more")),
            document(content=b"q 595 0 0 842 0 0 cm /I Do Q", resources=DRAWS, objects=PICTURE),
            document(content=b"q 40 0 0 40 100 100 cm /I Do Q", resources=DRAWS, objects=PICTURE),
            document(content=b"2 w 60 700 m 530 700 l S"),
            document(content=b"0.5 w 100 100 400 600 re S"),
            document(
                page="/Annots[<</Type/Annot/Subtype/Stamp/Rect[100 100 300 300]/F 4/AP<</N 5 0 R>>>>]",
                objects={5: stream(b"0 0 200 200 re f", "/Type/XObject/Subtype/Form/BBox[0 0 200 200]")},
            ),
        ],
        ids=["text", "scan", "logo", "line", "frame", "stamp"],
    )
    async def test_a_page_with_something_to_see_is_not(self, examiner, saved, data):
        assert not await is_blank(examiner, saved(data))


class TestText:
    async def test_letters_are_counted_without_spaces(self, examiner, saved):
        page = await page_of(examiner, saved(document(content=text("one two  three"))))
        assert (page.text_chars, page.hidden_chars) == (11, 0)

    async def test_text_outside_the_page_does_not_count(self, examiner, saved):
        content = text("inside") + text("outside, far away", at="60 2000")
        assert (await page_of(examiner, saved(document(content=content)))).text_chars == 6

    async def test_the_crop_box_is_the_page(self, examiner, saved):
        content = text("inside", at="110 110", size=6) + text("cropped", at="60 700")
        page = await page_of(examiner, saved(document(page="/CropBox[100 100 200 200]", content=content)))
        assert (page.text_chars, page.width, page.height) == (6, 100, 100)

    async def test_an_invisible_layer_is_told_from_text(self, examiner, saved):
        page = await page_of(examiner, saved(document(content=text("unseen", mode=3))))
        assert (page.text_chars, page.hidden_chars) == (0, 6)

    async def test_both_kinds_on_one_page_are_told_apart(self, examiner, saved):
        content = text("unseen layer", mode=3) + text("seen", at="60 500")
        page = await page_of(examiner, saved(document(content=content)))
        assert (page.text_chars, page.hidden_chars) == (4, 11)

    async def test_text_in_a_form_counts(self, examiner, saved):
        form = stream(text("within"), f"/Type/XObject/Subtype/Form/BBox[0 0 595 842]/Resources{FONT}")
        data = document(content=b"/A Do", resources=DRAWS, objects=PICTURE | {6: form})
        assert (await page_of(examiner, saved(data))).text_chars == 6


class TestRotation:
    @pytest.mark.parametrize(
        ("turn", "size"), [(0, (595, 842)), (90, (842, 595)), (180, (595, 842)), (270, (842, 595))]
    )
    async def test_a_turned_page_is_measured_as_it_is_shown(self, examiner, saved, turn, size):
        content = text("turned text") + b"q 100 0 0 100 60 60 cm /I Do Q"
        data = document(page=f"/Rotate {turn}", content=content, resources=DRAWS, objects=PICTURE)
        page = await page_of(examiner, saved(data))
        assert (page.width, page.height) == size
        assert (page.rotation, page.text_chars, page.image_count) == (turn, 10, 1)
        assert page.image_share == pytest.approx(10_000 / (595 * 842), abs=1e-4)


class TestPictures:
    async def test_the_share_is_that_of_the_page(self, examiner, saved):
        content = b"q 297.5 0 0 842 0 0 cm /I Do Q"
        page = await page_of(examiner, saved(document(content=content, resources=DRAWS, objects=PICTURE)))
        assert (page.image_count, page.image_share) == (1, 0.5)

    async def test_what_hangs_over_the_edge_does_not_count(self, examiner, saved):
        content = b"q 595 0 0 842 297.5 0 cm /I Do Q q 100 0 0 100 900 900 cm /I Do Q"
        page = await page_of(examiner, saved(document(content=content, resources=DRAWS, objects=PICTURE)))
        assert (page.image_count, page.image_share) == (1, 0.5)

    async def test_a_picture_in_a_form_is_placed_by_both_matrices(self, examiner, saved):
        form = stream(
            b"q 10 0 0 10 0 0 cm /I Do Q",
            "/Type/XObject/Subtype/Form/BBox[0 0 10 10]/Matrix[2 0 0 2 0 0]/Resources<</XObject<</I 5 0 R>>>>",
        )
        data = document(content=b"q 5 0 0 5 50 50 cm /A Do Q", resources=DRAWS, objects=PICTURE | {6: form})
        page = await page_of(examiner, saved(data))
        assert page.image_count == 1
        assert page.image_share == pytest.approx(100 * 100 / (595 * 842), abs=1e-4)

    async def test_a_form_in_a_form_too(self, examiner, saved):
        inner = stream(
            b"q 10 0 0 10 0 0 cm /I Do Q",
            "/Type/XObject/Subtype/Form/BBox[0 0 10 10]/Resources<</XObject<</I 5 0 R>>>>",
        )
        outer = stream(
            b"q 4 0 0 4 1 1 cm /B Do Q",
            "/Type/XObject/Subtype/Form/BBox[0 0 90 90]/Resources<</XObject<</B 7 0 R>>>>",
        )
        data = document(content=b"q 5 0 0 5 9 9 cm /A Do Q", resources=DRAWS, objects=PICTURE | {6: outer, 7: inner})
        page = await page_of(examiner, saved(data))
        assert page.image_share == pytest.approx(200 * 200 / (595 * 842), abs=1e-4)

    async def test_tiles_that_are_pictures_are_found_by_the_inspection(self, examiner, saved):
        tile = stream(b"q 9 0 0 9 0 0 cm /I Do Q", "/PatternType 1/BBox[0 0 9 9]/XStep 9/YStep 9"
                      "/Resources<</XObject<</I 5 0 R>>>>")  # fmt: skip
        found = await examiner.inspect(saved(document(objects=PICTURE | {6: tile})))
        assert (found.issues, found.images_in_patterns) == ([], 1)


class TestManyPages:
    async def test_every_page_is_measured_once_and_in_order(self, examiner, saved):
        scan = await examiner.prescan(saved(text_pages(203, lines=3)), 203, RULES)
        assert scan.ok
        assert [page.number for page in scan.pages] == list(range(1, 204))
        assert {page.text_chars > 100 for page in scan.pages} == {True}
        assert {page.ink for page in scan.pages} == {None}  # nothing was rendered

    async def test_a_page_that_pdfium_does_not_find_is_kept_as_unreadable(self, examiner, saved):
        scan = await examiner.prescan(saved(document()), 3, RULES)
        assert [page.readable for page in scan.pages] == [True, False, False]
        assert judge_pages(scan.pages, RULES).raw_metrics["unreadable_pages"] == [2, 3]


class TestTrouble:
    """A file that passed the inspection can still break here: a verdict, and the pool lives on."""

    async def test_a_page_that_never_ends_is_refused_with_its_place(self, saved, pdf_settings):
        settings = pdf_settings.model_copy(update={"security_parse_timeout_sec": 1})
        endless = document(content=b"q Q " * 30_000_000)
        async with pdf_sandbox(settings, SandboxSettings(workers=1)) as pool:
            examiner = Examiner(pool, settings)
            scan = await examiner.prescan(saved(endless), 1, RULES)
            assert [(issue.code, issue.place) for issue in scan.issues] == [("SECURITY_PARSE_TIMEOUT", "page 1")]
            assert (await examiner.prescan(saved(document()), 1, RULES)).ok

    async def test_a_document_whose_first_pages_foretell_hours_is_given_up_early(self, saved, pdf_settings):
        """One merchant's 1,000 slow pages kept the sandbox busy until the time for the whole document was over."""
        settings = pdf_settings.model_copy(update={"prescan_timeout_sec": 2})
        slow = same_pages(200, b"q Q " * 2_000_000)
        async with pdf_sandbox(settings, SandboxSettings(workers=2)) as pool:
            scan = await Examiner(pool, settings).prescan(saved(slow), 200, RULES)
        assert [issue.code for issue in scan.issues] == ["SECURITY_PARSE_TIMEOUT"]
        assert "of 200 pages took" in scan.issues[0].detail

    @pytest.mark.parametrize(
        "outcome", [Outcome(Ending.STALLED), Outcome(Ending.CRASHED, signal=Signals.SIGKILL)], ids=["stalled", "killed"]
    )
    def test_a_machine_that_is_overloaded_or_killed_gives_no_verdict(self, outcome):
        """A good PDF was refused for ever because others kept the machine busy."""
        with pytest.raises(PenstockError, match="SANDBOX_UNAVAILABLE"):
            issue_of(outcome)

    async def test_a_page_that_takes_too_much_memory_is_refused(self, saved):
        settings = PdfSettings(security_memory_limit_mb=40)
        large = document(content=b"".join(b"%d 0 m %d 9 l S " % (n % 500, n % 400) for n in range(400_000)))
        async with pdf_sandbox(settings, SandboxSettings(workers=1)) as pool:
            examiner = Examiner(pool, settings)
            scan = await examiner.prescan(saved(large), 1, RULES)
            assert [issue.code for issue in scan.issues] == ["SECURITY_MEMORY_EXCEEDED"]
            assert (await examiner.prescan(saved(document()), 1, RULES)).ok

    async def test_what_pdfium_cannot_open_is_refused(self, examiner, saved):
        broken = written({1: "<</Type/Catalog>>"})
        scan = await examiner.prescan(saved(broken.replace(b"/Catalog", b"/Nothing")[:40]), 1, RULES)
        assert [issue.code for issue in scan.issues] == ["PDF_UNREADABLE"]
