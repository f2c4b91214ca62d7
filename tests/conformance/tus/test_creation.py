"""Making uploads: creation, with a first chunk, with a length that comes later; and what metadata may say."""

from urllib.parse import urljoin

import pytest
from tests.conformance.tus.test_core import NOT_A_NUMBER
from tests.support.gateway import Gateway
from tests.support.tus import CHUNK, UPLOADS, Tus, checksum, encoded, id_of, metadata

TOO_LARGE = (16 << 30) + 1
LATER = {"upload_defer_length": "1"}


class TestCreation:
    def test_it_is_201_with_the_address_of_the_upload(self, tus: Tus):
        answer = tus.create(100)
        assert answer.status == 201
        address = urljoin(tus.address + UPLOADS, answer["Location"] or "")
        assert address.startswith(f"{tus.address}{UPLOADS}/upl_")
        assert tus.head(address).offset == 0

    @pytest.mark.parametrize("forwarded", [True, False])
    def test_the_address_is_right_behind_a_proxy(self, tus: Tus, forwarded: bool):
        headers = {"Host": "files.example.org"}
        if forwarded:
            headers |= {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "files.example.org"}
        with tus.wire() as wire:
            usual = tus.with_usual({"Upload-Length": "3", "Upload-Metadata": metadata(), "Content-Length": "0"})
            lines = [f"{name}: {value}" for name, value in [*headers.items(), *usual]]
            wire.send("\r\n".join([f"POST {UPLOADS} HTTP/1.1", *lines, "", ""]).encode())
            location = wire.answer("POST")["Location"] or ""
        assert urljoin(f"https://files.example.org{UPLOADS}", location).startswith(
            f"https://files.example.org{UPLOADS}/upl_"
        )

    def test_without_any_length_it_is_400(self, tus: Tus):
        assert tus.create().refusal == (400, "UPLOAD_HEADER_INVALID")

    def test_with_a_length_and_a_deferred_length_it_is_400(self, tus: Tus):
        assert tus.create(3, **LATER).refusal == (400, "UPLOAD_HEADER_INVALID")

    @pytest.mark.parametrize("length", NOT_A_NUMBER)
    def test_a_length_that_is_no_number_is_400(self, tus: Tus, length: str):
        assert tus.create(length).refusal == (400, "UPLOAD_HEADER_INVALID")

    @pytest.mark.parametrize("length", [TOO_LARGE, 2**63, 2**64])
    def test_a_length_beyond_the_maximum_is_413(self, tus: Tus, length: int):
        assert tus.create(length).refusal == (413, "FILE_SIZE_EXCEEDED")

    def test_a_length_of_5000_digits_breaks_nothing(self, tus: Tus):
        assert tus.create("9" * 5000).status in (400, 413)

    def test_an_empty_file_is_complete_at_once(self, tus: Tus, gateway: Gateway):
        path = tus.created(0)
        answer = tus.head(path)
        assert (answer.offset, answer["Upload-Length"]) == (0, "0")
        assert gateway.row(path)["status"] == "FINISHED"

    def test_a_refused_one_leaves_nothing_behind(self, tus: Tus, gateway: Gateway):
        before = gateway.query("select count(*) from tus_uploads")
        for answer in (tus.create(TOO_LARGE), tus.create("x"), tus.create(3, upload_metadata="a b c")):
            assert 400 <= answer.status < 500
        assert gateway.query("select count(*) from tus_uploads") == before


class TestMetadata:
    @pytest.mark.parametrize(
        "given",
        [
            metadata(filename="a.pdf"),
            metadata(filename="a.pdf", filetype="application/pdf", note=None),
            metadata(filename="目录 – Übersicht.pdf", relativePath="x/y"),
            f"filename {encoded('a.pdf')},empty ",
            f"filename {encoded('a.pdf')},binary {encoded(bytes([0xFF, 0xFE]))}",
            f"is_confidential,filename {encoded('A.PDF')}",
        ],
    )
    def test_head_repeats_it_as_it_was_sent(self, tus: Tus, given: str):
        assert tus.head(tus.created(3, upload_metadata=given))["Upload-Metadata"] == given.strip()

    @pytest.mark.parametrize(
        "given",
        [
            f"filename {encoded('a.pdf')},filename {encoded('b.pdf')}",
            f"filename {encoded('a.pdf')},,",
            "filename a.pdf",
            "filename ====",
            f"filename {encoded('a.pdf')} {encoded('b')}",
            f"filename  {encoded('a.pdf')} ,note",
            f"filename {encoded('a.pdf')},näme {encoded('x')}",
            f"filename {encoded('a.pdf')[:-1]}",
            f"filename {encoded('a' * 70_000 + '.pdf')}",
            f"filename {encoded('a.pdf')},note ä",
        ],
        ids=["twice", "empty pair", "not base64", "padding only", "three words", "two spaces", "not ascii",
             "cut short", "very long", "a value beyond ascii"],
    )  # fmt: skip
    def test_a_malformed_one_is_refused(self, tus: Tus, given: str):
        assert 400 <= tus.create(3, upload_metadata=given).status < 500

    @pytest.mark.parametrize(
        "given",
        [
            None,
            metadata(note="x"),
            metadata(filename="a.docx"),
            metadata(filename="pdf"),
            metadata(filename=""),
            metadata(filename="a.pdf", filetype="image/png"),
            metadata(filename="a.pdf.exe", filetype="application/pdf"),
        ],
        ids=["none", "no name", "another ending", "no ending", "empty name", "another type", "a second ending"],
    )
    def test_what_is_no_pdf_is_refused(self, tus: Tus, given: str | None):
        assert tus.create(3, upload_metadata=given).refusal == (400, "INVALID_FILE_TYPE")

    def test_no_value_can_smuggle_a_header(self, tus: Tus):
        given = metadata(filename="a\r\nX-Smuggled: yes\r\n.pdf", note="b\r\nSet-Cookie: x=1")
        answer = tus.create(3, upload_metadata=given)
        answers = [answer] if answer.status != 201 else [answer, tus.head(answer["Location"] or "")]
        assert all(answer.status < 500 for answer in answers)
        assert not any(name in answer for answer in answers for name in ("X-Smuggled", "Set-Cookie"))

    @pytest.mark.parametrize("name", ["../../../../tmp/escaped.pdf", "/etc/escaped.pdf", "a\0escaped.pdf"])
    def test_no_name_leads_out_of_the_directory(self, tus: Tus, gateway: Gateway, name: str):
        answer = tus.create(3, upload_metadata=metadata(filename=name))
        if answer.status == 201:
            path = answer["Location"] or ""
            tus.patch(path, 0, b"abc")
            assert "escaped" not in str(gateway.file_of(path))
            assert gateway.bytes_of(path) == b"abc"
        else:
            assert answer.status == 400


class TestDeferredLength:
    def test_head_says_so_until_the_length_is_known(self, tus: Tus):
        path = tus.created()
        for offset in (0, 3):
            answer = tus.head(path)
            assert (answer.offset, answer["Upload-Defer-Length"]) == (offset, "1")
            assert "Upload-Length" not in answer
            tus.patch(path, offset, b"abc")

    @pytest.mark.parametrize("value", ["", "0", "2", "true", "01", "1.0"])
    def test_any_other_value_than_1_is_400(self, tus: Tus, value: str):
        assert tus.create(upload_defer_length=value).refusal == (400, "UPLOAD_HEADER_INVALID")

    def test_a_later_patch_names_the_length(self, tus: Tus, gateway: Gateway):
        path = tus.created()
        tus.patch(path, 0, b"abc")
        assert tus.patch(path, 3, b"def", upload_length="9").offset == 6
        answer = tus.head(path)
        assert (answer["Upload-Length"], answer.offset) == ("9", 6)
        assert "Upload-Defer-Length" not in answer
        assert tus.patch(path, 6, b"ghi").offset == 9
        assert gateway.row(path)["status"] == "FINISHED"
        assert gateway.bytes_of(path) == b"abcdefghi"

    def test_it_is_not_finished_before_the_length_is_known(self, tus: Tus, gateway: Gateway):
        path = tus.created()
        tus.patch(path, 0, b"abc")
        assert gateway.row(path)["status"] == "UPLOADING"

    def test_an_empty_patch_may_name_it_when_all_bytes_are_there(self, tus: Tus, gateway: Gateway):
        path = tus.created()
        tus.patch(path, 0, b"abc")
        assert tus.patch(path, 3, upload_length="3").offset == 3
        assert gateway.row(path)["status"] == "FINISHED"

    def test_once_known_it_cannot_be_changed(self, tus: Tus):
        path = tus.created()
        tus.patch(path, 0, b"abc", upload_length="9")
        assert 400 <= tus.patch(path, 3, b"def", upload_length="6").status < 500
        assert 400 <= tus.patch(path, 3, b"def", upload_length="12").status < 500
        answer = tus.head(path)
        assert (answer["Upload-Length"], answer.offset) == ("9", 3)

    def test_nor_can_one_that_was_known_from_the_start(self, tus: Tus):
        path = tus.created(9)
        assert 400 <= tus.patch(path, 0, b"def", upload_length="6").status < 500
        assert (tus.head(path)["Upload-Length"], tus.head(path).offset) == ("9", 0)

    def test_it_cannot_be_less_than_what_is_there(self, tus: Tus):
        path = tus.created()
        tus.patch(path, 0, b"abcdef")
        assert 400 <= tus.patch(path, 6, upload_length="5").status < 500
        assert tus.head(path)["Upload-Defer-Length"] == "1"

    def test_it_cannot_be_less_than_the_body_that_comes_with_it(self, tus: Tus):
        path = tus.created()
        assert tus.patch(path, 0, b"abcdef", upload_length="5").status == 413
        assert tus.head(path).offset == 0

    def test_beyond_the_maximum_it_is_413(self, tus: Tus):
        path = tus.created()
        assert tus.patch(path, 0, b"abc", upload_length=str(TOO_LARGE)).refusal == (413, "FILE_SIZE_EXCEEDED")
        assert tus.head(path).offset == 0

    @pytest.mark.parametrize("length", NOT_A_NUMBER)
    def test_one_that_is_no_number_is_400(self, tus: Tus, length: str):
        path = tus.created()
        assert tus.patch(path, 0, b"abc", upload_length=length).status == 400
        assert tus.head(path).offset == 0


class TestCreationWithUpload:
    def test_the_answer_tells_how_far_it_came(self, tus: Tus, gateway: Gateway):
        answer = tus.create(11, body=b"hello")
        assert (answer.status, answer.offset) == (201, 5)
        path = answer["Location"] or ""
        assert tus.head(path).offset == 5
        assert tus.patch(path, 5, b" world").offset == 11
        assert gateway.bytes_of(path) == b"hello world"

    def test_a_whole_file_may_come_at_once(self, tus: Tus, gateway: Gateway):
        answer = tus.create(5, body=b"hello")
        assert (answer.status, answer.offset) == (201, 5)
        assert gateway.row(answer["Location"] or "")["status"] == "FINISHED"

    def test_the_length_may_come_later(self, tus: Tus):
        answer = tus.create(body=b"hello", **LATER)
        assert (answer.status, answer.offset) == (201, 5)
        assert tus.head(answer["Location"] or "")["Upload-Defer-Length"] == "1"

    @pytest.mark.parametrize("kind", [None, "application/octet-stream", "text/plain"])
    def test_a_body_of_another_type_is_not_taken_for_the_file(self, tus: Tus, gateway: Gateway, kind: str | None):
        before = gateway.query("select coalesce(sum(received), 0) from tus_uploads")
        answer = tus.create(5, body=b"hello", content_type=kind)
        assert answer.status == 415
        assert gateway.query("select coalesce(sum(received), 0) from tus_uploads") == before

    def test_more_than_the_length_is_413(self, tus: Tus):
        assert tus.create(4, body=b"hello").refusal == (413, "UPLOAD_LENGTH_EXCEEDED")

    def test_a_checksum_is_checked(self, tus: Tus, gateway: Gateway):
        answer = tus.create(5, body=b"hello", upload_checksum=checksum(b"hello"))
        assert (answer.status, answer.offset) == (201, 5)
        before = gateway.query("select coalesce(sum(received), 0) from tus_uploads")
        assert tus.create(5, body=b"hello", upload_checksum=checksum(b"other")).status == 460
        assert gateway.query("select coalesce(sum(received), 0) from tus_uploads") == before

    def test_a_refusal_comes_before_the_body_when_the_client_waits_for_it(self, tus: Tus):
        with tus.wire() as wire:
            headers = {"Upload-Length": str(TOO_LARGE), "Upload-Metadata": metadata(), "Content-Type": CHUNK}
            wire.send_head("POST", UPLOADS, {**headers, "Content-Length": "5", "Expect": "100-continue"})
            assert b" 413 " in wire.line()

    def test_the_client_that_waits_is_told_to_go_on(self, tus: Tus, gateway: Gateway):
        with tus.wire() as wire:
            headers = {"Upload-Length": "5", "Upload-Metadata": metadata(), "Content-Type": CHUNK}
            wire.send_head("POST", UPLOADS, {**headers, "Content-Length": "5", "Expect": "100-continue"})
            assert b" 100 " in wire.line()
            assert wire.line() == b"\r\n"
            wire.send(b"hello")
            answer = wire.answer("POST")
        assert (answer.status, answer.offset) == (201, 5)
        assert gateway.bytes_of(answer["Location"] or "") == b"hello"
        assert id_of(answer["Location"] or "").startswith("upl_")
