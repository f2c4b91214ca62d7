"""Real and hostile files from the shared test material: honest ones pass, the others get the right verdict."""

import pytest
from tests.support.pdfs import RULES, material, picture_pages

from penstock.kernel.error_codes import REGISTRY
from penstock.pdf import judge_pages

DATA = material()
pytestmark = pytest.mark.skipif(DATA is None, reason="the shared test material is not here (PENSTOCK_TEST_DATA)")

EXPECTED = {
    "js_": "SECURITY_JAVASCRIPT_EMBEDDED",
    "js_names_encrypted": "SECURITY_ENCRYPTED_PDF",
    "orphan_js": "SECURITY_JAVASCRIPT_EMBEDDED",
    "act_launch": "SECURITY_LAUNCH_ACTION",
    "act_submit": "SECURITY_SUBMIT_ACTION",
    "act_gotor": "SECURITY_REMOTE_ACTION",
    "embedded_": "SECURITY_EMBEDDED_FILE",
}
REFUSED_BOMBS = {
    "empty": "INVALID_MIME",
    "html": "INVALID_MIME",
    "not_a_pdf_zip": "INVALID_MIME",
    "truncated": "PDF_TRUNCATED",
    "flate_content_1GB": "SECURITY_DECOMPRESSION_BOMB",
    "flate_flate_content_4GB": "SECURITY_DECOMPRESSION_BOMB",
    "form_cycle": "SECURITY_RECURSION",
    "form_laughs_1e9": "SECURITY_RECURSION",
    "pagetree_cycle": "SECURITY_RECURSION",
    "pagetree_dag_1e9": "SECURITY_RECURSION",
    "pattern_step_0.001": "SECURITY_RECURSION",
    "image_25000x25000_rgb": "SECURITY_DIMENSIONS_EXCEEDED",
    "image_dims_lie_65000": "SECURITY_DIMENSIONS_EXCEEDED",
    "mediabox_2e6": "SECURITY_DIMENSIONS_EXCEEDED",
}


def files(pattern: str):
    return sorted(DATA.glob(pattern)) if DATA else []


def name_of(path) -> str:
    return path.stem


class TestActions:
    @pytest.mark.parametrize("path", files("hostile/actions/*.pdf"), ids=name_of)
    async def test_each_is_refused_for_what_it_is_and_clean_ones_pass(self, examiner, path):
        found = await examiner.inspect(path)
        if path.name.startswith("clean_"):
            assert found.issues == []
            return
        longest = max((start for start in EXPECTED if path.name.startswith(start)), key=len)
        assert EXPECTED[longest] in {issue.code for issue in found.issues}


class TestBombs:
    @pytest.mark.parametrize("path", files("hostile/bombs/*.pdf"), ids=name_of)
    async def test_each_gets_a_verdict_and_the_pool_lives_on(self, examiner, pool, path):
        found = await examiner.inspect(path)
        issues = found.issues
        if found.ok:
            scan = await examiner.prescan(path, found.page_count, RULES)
            assert scan.issues or len(scan.pages) == found.page_count
            issues = scan.issues
        assert {issue.code for issue in issues} <= set(REGISTRY)
        if path.stem in REFUSED_BOMBS:
            assert {issue.code for issue in issues} == {REFUSED_BOMBS[path.stem]}
        assert (await pool.call("operator:add", 1, 2)).value == 3


class TestHonestFiles:
    @pytest.mark.parametrize("path", files("catalogues/*.pdf") + files("tables/*.pdf"), ids=name_of)
    async def test_each_passes_and_no_page_with_content_is_called_blank(self, examiner, path):
        found = await examiner.inspect(path)
        assert found.issues == []
        scan = await examiner.prescan(path, found.page_count, RULES)
        assert scan.issues == []
        assert judge_pages(scan.pages, RULES).blank_pages == []

    async def test_scans_pass_are_not_blank_and_have_no_text(self, examiner, saved):
        pictures = files("ocr/*_clean.png")
        path = saved(picture_pages(pictures))
        found = await examiner.inspect(path)
        assert (found.issues, found.page_count) == ([], len(pictures))
        scan = await examiner.prescan(path, found.page_count, RULES)
        judged = judge_pages(scan.pages, RULES)
        assert (judged.blank_pages, judged.ocr_rate) == ([], 0.0)
        assert [each.rule for each in judged.penalties] == ["ocr_rate_low"]
        assert judged.raw_metrics["scanned_page_count"] == len(pictures)
