"""What the types or the encoding of a file hide from one reader is checked as another would see it."""

import pytest
from tests.support.disguised_pdfs import (
    DISGUISED_LINKS,
    ENCRYPTED_BEFORE,
    HONEST_LINKS,
    HONESTLY_PACKED,
    ODDLY_PACKED,
    STREAMS_AS_DICTIONARIES,
)
from tests.support.gate import codes_of, inspected, scanned
from tests.support.pdf_readers import views
from tests.support.pdfs import document, stream


class TestEncryptionOfAnOlderSection:
    @pytest.mark.parametrize("way", ENCRYPTED_BEFORE)
    def test_it_is_refused_though_that_section_names_no_catalogue(self, way):
        assert codes_of(ENCRYPTED_BEFORE[way]) == {"SECURITY_ENCRYPTED_PDF"}

    def test_a_destination_of_that_name_passes(self):
        assert inspected(document("/Dests 5 0 R", objects={5: "<</Encrypt[3 0 R/Fit]>>"})).issues == []


class TestStreamsInPlaceOfDictionaries:
    @pytest.mark.parametrize("way", STREAMS_AS_DICTIONARIES)
    def test_what_they_hold_counts_as_in_dictionaries(self, way):
        data, code = STREAMS_AS_DICTIONARIES[way]
        assert code in codes_of(data)

    @pytest.mark.parametrize("way", ["the node of a tree, and /EF", "all of them"])
    def test_pdfium_does_see_the_file_within(self, way):
        assert views(STREAMS_AS_DICTIONARIES[way][0])["PDFium"] == ["EmbeddedFile"]


class TestObjectStreamsThatReadersDecodeDifferently:
    @pytest.mark.parametrize("way", ODDLY_PACKED)
    def test_the_scan_of_the_bytes_refuses_them(self, way):
        assert {issue.code for issue in scanned(ODDLY_PACKED[way]).issues} & {
            "SECURITY_JAVASCRIPT_EMBEDDED",
            "SECURITY_PARSE_FAILED",
        }

    @pytest.mark.parametrize("way", HONESTLY_PACKED)
    def test_those_that_all_decode_alike_pass(self, way):
        assert inspected(HONESTLY_PACKED[way]).issues == []


class TestLinksInDisguise:
    @pytest.mark.parametrize("way", DISGUISED_LINKS)
    def test_they_are_refused_by_the_table_and_by_the_bytes(self, way):
        data, code = DISGUISED_LINKS[way]
        assert codes_of(data) == {code}
        assert {issue.code for issue in scanned(data).issues} == {code}

    @pytest.mark.parametrize("way", HONEST_LINKS)
    def test_ordinary_addresses_pass(self, way):
        assert inspected(HONEST_LINKS[way]).issues == []


_EMPTY_STREAM = "<</Length 0>>stream\n\nendstream"
_SCRIPT = "<</S/JavaScript/JS(app.alert\\(1\\);)>>"


class TestBehindTheEndOfAnObject:
    """Some readers go on where others stop, and take what comes last for the object."""

    @pytest.mark.parametrize(
        "objects",
        [
            {5: f"{_EMPTY_STREAM}\n{_SCRIPT}"},
            {5: f"<<>>endstream {_SCRIPT}"},
            {5: f"{_EMPTY_STREAM}{' ' * 2000}{_SCRIPT}"},
            {5: "<</S 6 0 R/F(a)>>", 6: "/URI endstream /Launch"},
            {5: "<</S 6 0 R/F(a)>>", 6: f"{_EMPTY_STREAM} /Launch"},
            {5: "<</S 6 0 R/F(a)>>", 6: f"{_EMPTY_STREAM}{' ' * 2000}/Launch"},
            {5: f"{_EMPTY_STREAM}<</Type/ObjStm/N 1/First 4>> x stream\n"},
        ],
    )
    def test_an_action_there_is_refused(self, objects):
        assert {issue.code for issue in scanned(document(objects=objects)).issues}

    def test_the_data_of_a_stream_may_speak_of_actions(self):
        text = stream(b"BT (/S /JavaScript /JS (app.alert)) Tj ET /S /Launch /F (a)", packed=False)
        assert inspected(document(objects={5: text})).issues == []
