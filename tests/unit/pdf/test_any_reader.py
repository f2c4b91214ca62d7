"""What any reader may see in a file is what is checked, whatever its cross-reference table says."""

import pytest
from tests.support.forked_pdfs import DAMAGED_XFA, FORKED, HONEST_FORKS
from tests.support.gate import codes_of, inspected, scanned
from tests.support.odd_pairs_pdfs import HONEST_PAIRS, MORE_ODD_PAIRS, ODD_PAIRS
from tests.support.odd_words_pdfs import HONEST_WORDS, ODD_WORDS
from tests.support.pdf_readers import views
from tests.support.pdfs import document, stream

SCRIPT = "SECURITY_JAVASCRIPT_EMBEDDED"
OTHER_CODES = {
    "an address opened by itself": "SECURITY_URI_ACTION",
    "a file in another revision": "SECURITY_EMBEDDED_FILE",
    "bytes that are blanks for PDFium alone": "SECURITY_LAUNCH_ACTION",
    "stream within a dictionary": "SECURITY_LAUNCH_ACTION",
    "a string in the place of a key": "SECURITY_LAUNCH_ACTION",
    "an offset that leads to another number": "SECURITY_LAUNCH_ACTION",
    "names with a sign that only pdfminer drops": "SECURITY_LAUNCH_ACTION",
    "launch in a second object": "SECURITY_LAUNCH_ACTION",
    "names with escapes that only PDFium undoes": "SECURITY_REMOTE_ACTION",
    "an object stream with a comment": "SECURITY_PARSE_FAILED",
}


class TestObjectsThatOnlySomeReadersSee:
    @pytest.mark.parametrize("way", FORKED)
    def test_an_action_in_one_of_them_is_refused(self, way):
        assert OTHER_CODES.get(way, SCRIPT) in codes_of(FORKED[way])

    @pytest.mark.parametrize(
        "way",
        [
            "entries of 19 bytes",
            "no end mark",
            "names with escapes that only PDFium undoes",
            "bytes that are blanks for PDFium alone",
        ],
    )
    def test_pdfium_does_see_it(self, way):
        assert "PDFium" in views(FORKED[way])

    def test_the_finding_says_that_only_some_readers_use_the_object(self):
        (issue,) = inspected(FORKED["an earlier revision"]).issues
        assert "only some readers" in issue.detail
        assert issue.place.startswith("byte ")


class TestKeysAndValuesThatReadersPairDifferently:
    @pytest.mark.parametrize("way", ODD_PAIRS | MORE_ODD_PAIRS)
    def test_an_action_that_one_of_them_sees_is_refused(self, way):
        data = (ODD_PAIRS | MORE_ODD_PAIRS)[way]
        assert not inspected(data).ok
        assert not scanned(data).ok

    @pytest.mark.parametrize("way", ODD_PAIRS)
    def test_pdfminer_does_see_it(self, way):
        assert "pdfminer" in views(ODD_PAIRS[way])

    @pytest.mark.parametrize("way", HONEST_PAIRS)
    def test_what_no_reader_sees_an_action_in_passes(self, way):
        assert inspected(HONEST_PAIRS[way]).ok


class TestWordsThatReadersReadDifferently:
    @pytest.mark.parametrize("way", ODD_WORDS)
    def test_an_action_behind_them_is_refused(self, way):
        assert not inspected(ODD_WORDS[way]).ok

    @pytest.mark.parametrize("way", ["reference '#.0 0 R'", "reference '# . R'", "form by '#\\x800 R'"])
    def test_pdfium_does_see_it(self, way):
        assert "PDFium" in views(ODD_WORDS[way])

    @pytest.mark.parametrize("way", ["reference '# (x) R'", "reference '(#) 0 R'", "signs in names"])
    def test_pdfminer_does_see_it(self, way):
        assert "pdfminer" in views(ODD_WORDS[way])

    @pytest.mark.parametrize("way", HONEST_WORDS)
    def test_the_like_in_texts_and_pages_passes(self, way):
        assert inspected(HONEST_WORDS[way]).issues == []

    def test_very_many_tables_are_refused_at_once(self):
        tables = stream(b"xref 0 99 " * 200_000 + b"/S 9 0 R ", packed=False)
        assert codes_of(document(objects={7: tables, 9: "/GoTo"})) == {"SECURITY_PARSE_FAILED"}


class TestDamagedForms:
    @pytest.mark.parametrize("way", DAMAGED_XFA)
    def test_a_script_in_xfa_is_found_in_whatever_can_still_be_read(self, way):
        assert codes_of(DAMAGED_XFA[way]) == {SCRIPT}


class TestHonestFiles:
    @pytest.mark.parametrize("way", HONEST_FORKS)
    def test_files_without_actions_pass_though_readers_may_disagree(self, way):
        assert inspected(HONEST_FORKS[way]).issues == []
