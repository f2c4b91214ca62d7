"""Files that are small on disk and endless when read get a verdict, within the limits, and the pool lives on."""

import asyncio
import time
import zlib

import pytest
from tests.support.pdfs import JS, document, stream, text_pages, written

from penstock.kernel.sandbox import SandboxSettings
from penstock.pdf import Examiner, PdfSettings, pdf_sandbox

MiB = 1 << 20
FORM = "/Type/XObject/Subtype/Form/BBox[0 0 9 9]"
IMAGE = "/Type/XObject/Subtype/Image/BitsPerComponent 8/ColorSpace/DeviceRGB"


@pytest.fixture(scope="session")
def strict(pool) -> Examiner:
    """Small bounds, so that the bombs of these tests can be small too."""
    return Examiner(pool, PdfSettings(security_max_stream_mb=8, security_max_inflated_mb=32))


def codes(found) -> set[str]:
    return {issue.code for issue in found.issues}


def laughs(levels: int, each: int) -> bytes:
    """Forms that draw the next form several times over."""
    objects = {
        5 + level: stream(b"/A Do " * each, f"{FORM}/Resources<</XObject<</A {6 + level} 0 R>>>>")
        for level in range(levels)
    }
    return document(
        content=b"/A Do",
        resources="<</XObject<</A 5 0 R>>>>",
        objects=objects | {5 + levels: stream(b"0 0 9 9 re f", FORM)},
    )


def twice(data: bytes) -> bytes:
    return zlib.compress(zlib.compress(data, 9), 9)


class TestWhatItIs:
    @pytest.mark.parametrize("data", [b"", b"<html>", b"PK\x03\x04" + bytes(2000), b"%PD", bytes(1100) + b"%PDF-1.7"])
    async def test_what_is_no_pdf_is_refused_by_its_bytes(self, examiner, saved, data):
        assert codes(await examiner.inspect(saved(data))) == {"INVALID_MIME"}

    async def test_a_header_may_stand_within_the_first_kilobyte(self, examiner, saved):
        assert (await examiner.inspect(saved(bytes(1000) + document()))).ok

    async def test_pages_are_counted_without_rendering(self, examiner, saved):
        found = await examiner.inspect(saved(text_pages(30)))
        assert (found.page_count, found.version, found.issues) == (30, "1.7", [])
        assert found.object_count == 62
        assert found.inflated_bytes > 30 * 2000

    async def test_no_pages_are_refused(self, examiner, saved):
        empty = written({1: "<</Type/Catalog/Pages 2 0 R>>", 2: "<</Type/Pages/Kids[]/Count 0>>"})
        assert codes(await examiner.inspect(saved(empty))) == {"EMPTY_PDF"}

    async def test_a_page_too_many_is_refused_and_counted(self, examiner, saved):
        found = await examiner.inspect(saved(text_pages(1001, lines=1)))
        assert codes(found) == {"PAGE_COUNT_EXCEEDED"}
        assert found.page_count == 1001
        assert (await examiner.inspect(saved(text_pages(1000, lines=1)))).ok

    async def test_a_count_that_lies_is_not_believed(self, examiner, saved):
        data = document().replace(b"/Count 1", b"/Count 9")
        assert (await examiner.inspect(saved(data))).page_count == 1

    @pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
    async def test_a_file_that_was_cut_is_refused(self, examiner, saved, share):
        data = text_pages(20)
        found = await examiner.inspect(saved(data[: int(len(data) * share)]))
        assert codes(found) == {"PDF_TRUNCATED"}

    async def test_a_linearized_file_that_is_shorter_than_it_says_is_refused(self, examiner, saved):
        data = document().replace(b"1 0 obj", b"9 0 obj\n<</Linearized 1/L 99999>>\nendobj\n1 0 obj", 1)
        assert "PDF_TRUNCATED" in codes(await examiner.inspect(saved(data)))

    async def test_what_cannot_be_parsed_is_refused(self, examiner, saved):
        assert codes(await examiner.inspect(saved(b"%PDF-1.7\n" + b"junk " * 500 + b"\n%%EOF"))) == {"PDF_UNREADABLE"}


class TestInflating:
    @pytest.mark.parametrize(
        "body",
        [
            stream(bytes(9 * MiB)),
            stream(twice(bytes(9 * MiB)), "/Filter[/FlateDecode/FlateDecode]", packed=False),
            stream(zlib.compress(b"\x81\x00" * 100_000), "/Filter[/FlateDecode/RunLengthDecode]", packed=False),
            stream(b"x", "/Filter/FlateDecode/DecodeParms<</Predictor 12/Columns 2147483647>>", packed=False),
            stream(b"x", "/Filter[" + "/FlateDecode" * 20 + "]", packed=False),
        ],
        ids=["flate", "flate twice", "run lengths", "a row of two billion", "twenty filters"],
    )
    async def test_a_stream_that_becomes_too_much_is_refused(self, strict, saved, body):
        assert codes(await strict.inspect(saved(document(objects={5: body})))) == {"SECURITY_DECOMPRESSION_BOMB"}

    async def test_many_streams_that_are_too_much_together_are_refused(self, strict, saved):
        data = document(objects=dict.fromkeys(range(5, 10), stream(bytes(7 * MiB))))
        assert codes(await strict.inspect(saved(data))) == {"SECURITY_DECOMPRESSION_BOMB"}

    async def test_an_object_stream_that_is_a_bomb_is_refused(self, examiner, saved):
        bomb = stream(b"7 0 " + bytes(300 * MiB), "/Type/ObjStm/N 1/First 4")
        found = await examiner.inspect(saved(document(objects={5: bomb})))
        assert not found.ok

    async def test_a_large_honest_stream_passes(self, examiner, saved):
        assert (await examiner.inspect(saved(document(objects={5: stream(bytes(100 * MiB))})))).ok


class TestDimensions:
    async def test_a_picture_beyond_reason_is_refused(self, examiner, saved):
        body = stream(b"\x00", f"{IMAGE}/Width 65000/Height 65000")
        assert codes(await examiner.inspect(saved(document(objects={5: body})))) == {"SECURITY_DIMENSIONS_EXCEEDED"}

    @pytest.mark.parametrize(
        "stated",
        [
            f"{IMAGE}/Width 6 0 R/Height 6 0 R",
            f"{IMAGE}/Width 65000.0/Height 65000.0",
            f"{IMAGE.replace('/Subtype/Image', '/Subtype 7 0 R')}/Width 65000/Height 65000",
        ],
    )
    async def test_however_it_is_stated(self, examiner, saved, stated):
        data = document(objects={5: stream(b"\x00", stated), 6: "65000", 7: "/Image"})
        assert codes(await examiner.inspect(saved(data))) == {"SECURITY_DIMENSIONS_EXCEEDED"}

    async def test_a_poster_in_black_and_white_passes(self, examiner, saved):
        body = stream(b"\x00", "/Subtype/Image/ImageMask true/Width 19866/Height 28087")
        assert (await examiner.inspect(saved(document(objects={5: body})))).ok

    async def test_a_page_beyond_reason_is_refused(self, examiner, saved):
        found = await examiner.inspect(saved(document(page="/MediaBox[0 0 2000000 2000000]")))
        assert [(issue.code, issue.place) for issue in found.issues] == [("SECURITY_DIMENSIONS_EXCEEDED", "page 1")]


class TestRepeating:
    async def test_forms_that_multiply_are_refused_without_drawing_them(self, examiner, saved):
        assert codes(await examiner.inspect(saved(laughs(9, 10)))) == {"SECURITY_RECURSION"}

    async def test_a_few_forms_in_forms_pass(self, examiner, saved):
        assert (await examiner.inspect(saved(laughs(3, 10)))).ok

    async def test_a_form_that_draws_itself_is_refused(self, examiner, saved):
        body = stream(b"/A %x\n Do", f"{FORM}/Resources<</XObject<</A 5 0 R>>>>")
        data = document(content=b"/A Do", resources="<</XObject<</A 5 0 R>>>>", objects={5: body})
        assert codes(await examiner.inspect(saved(data))) == {"SECURITY_RECURSION"}

    async def test_a_form_that_draws_itself_by_an_escaped_name_is_refused(self, examiner, saved):
        body = stream(b"/#41 Do", f"{FORM}/Resources<</XObject<</A 5 0 R>>>>")
        assert codes(await examiner.inspect(saved(document(objects={5: body})))) == {"SECURITY_RECURSION"}

    async def test_a_chain_of_a_hundred_forms_is_refused(self, examiner, saved):
        assert codes(await examiner.inspect(saved(laughs(100, 1)))) == {"SECURITY_RECURSION"}

    async def test_a_page_tree_that_leads_to_itself_is_refused(self, examiner, saved):
        data = written({
            1: "<</Type/Catalog/Pages 2 0 R>>",
            2: "<</Type/Pages/Kids[3 0 R 4 0 R]/Count 2>>",
            3: "<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>",
            4: "<</Type/Pages/Parent 2 0 R/Kids[2 0 R]/Count 1>>",
        })  # fmt: skip
        assert codes(await examiner.inspect(saved(data))) == {"SECURITY_RECURSION"}

    async def test_a_pattern_of_countless_tiles_is_refused(self, examiner, saved):
        body = stream(b"0 0 1 1 re f", "/PatternType 1/BBox[0 0 1 1]/XStep 0.001/YStep 0.001")
        assert codes(await examiner.inspect(saved(document(objects={5: body})))) == {"SECURITY_RECURSION"}

    @pytest.mark.parametrize("opened", ["[", "<</A"])
    async def test_brackets_nested_without_end_are_refused(self, examiner, saved, opened):
        closed = "]" if opened == "[" else ">>"
        body = opened * 100_000 + closed * 100_000
        found = await examiner.inspect(saved(document(objects={5: body})))
        assert codes(found) <= {"SECURITY_RECURSION", "PDF_UNREADABLE"}
        assert not found.ok

    async def test_a_circle_of_actions_and_bookmarks_ends(self, examiner, saved):
        objects = {
            5: "<</S/GoTo/Next[6 0 R 6 0 R]>>",
            6: "<</S/GoTo/Next[5 0 R 5 0 R]>>",
            7: "<</First 7 0 R/Next 7 0 R>>",
        }
        data = document("/OpenAction 5 0 R/Outlines 7 0 R", objects=objects)
        assert (await examiner.inspect(saved(data))).ok


class TestCounts:
    async def test_too_many_objects_are_refused(self, saved, pool):
        few = Examiner(pool, PdfSettings(security_max_object_count=100))
        found = await few.inspect(saved(text_pages(60, lines=1)))
        assert codes(found) == {"SECURITY_OBJECT_COUNT_EXCEEDED"}
        assert "122" in found.issues[0].detail

    async def test_of_two_hundred_thousand_objects_the_last_is_looked_at_within_the_memory(self, examiner, saved):
        link = "<</Type/Annot/Subtype/Link/Rect[0 0 9 9]/A<</S/URI/URI(https://example.com)>>>>"
        many = dict.fromkeys(range(5, 200_000), link)
        assert codes(await examiner.inspect(saved(document(objects=many | {199_999: JS})))) == {
            "SECURITY_JAVASCRIPT_EMBEDDED"
        }

    async def test_half_a_million_objects_get_a_verdict(self, examiner, saved):
        found = await examiner.inspect(saved(document(objects=dict.fromkeys(range(5, 500_100), "<</A 1>>"))))
        assert "SECURITY_OBJECT_COUNT_EXCEEDED" in codes(found)


class TestTrouble:
    """What is beyond our own bounds is ended by the sandbox, and is a verdict too."""

    async def test_what_takes_too_long_is_ended_and_refused(self, saved, pdf_settings):
        settings = pdf_settings.model_copy(update={"security_parse_timeout_sec": 1})
        # Nothing but clear codes: no output, much work.
        clear = int("100000000" * 8, 2).to_bytes(9, "big")
        slow = stream(clear * 4_000_000, "/Filter/LZWDecode", packed=False)
        async with pdf_sandbox(settings, SandboxSettings(workers=1)) as pool:
            examiner = Examiner(pool, settings)
            begun = time.monotonic()
            assert codes(await examiner.inspect(saved(document(objects={5: slow})))) == {"SECURITY_PARSE_TIMEOUT"}
            assert time.monotonic() - begun < 20
            assert (await examiner.inspect(saved(document()))).ok

    async def test_what_takes_too_much_memory_is_ended_and_refused(self, saved, pdf_settings):
        settings = pdf_settings.model_copy(update={"security_memory_limit_mb": 48})
        many = document(objects=dict.fromkeys(range(5, 150_000), "<</A[1 2 3]/B(x)>>"))
        async with pdf_sandbox(settings, SandboxSettings(workers=1)) as pool:
            examiner = Examiner(pool, settings)
            assert codes(await examiner.inspect(saved(many))) == {"SECURITY_MEMORY_EXCEEDED"}
            assert (await examiner.inspect(saved(document()))).ok

    async def test_a_crowd_of_good_and_bad_files_each_gets_its_own_verdict(self, strict, saved):
        good, bad = saved(text_pages(5)), saved(document(objects={5: stream(bytes(9 * MiB))}))
        found = await asyncio.gather(*(strict.inspect(path) for path in [good, bad] * 6))
        assert [each.ok for each in found] == [True, False] * 6
