"""Concatenation: parts that are uploaded side by side and become one file."""

import pytest
from tests.conformance.tus.test_core import UNKNOWN
from tests.support.gateway import Gateway
from tests.support.tus import Tus, metadata

PART = {"upload_concat": "partial", "upload_metadata": None}


def parts_of(tus: Tus, *contents: bytes) -> list[str]:
    return [tus.uploaded(content, **PART) for content in contents]


def joined(tus: Tus, *paths: str, **more: str | None):
    return tus.create(upload_concat="final;" + " ".join(paths), **more)


class TestParts:
    def test_a_part_needs_no_metadata_and_tells_its_offset(self, tus: Tus):
        path = tus.created(5, **PART)
        tus.patch(path, 0, b"he")
        answer = tus.head(path)
        assert (answer["Upload-Concat"], answer.offset, answer["Upload-Length"]) == ("partial", 2, "5")

    def test_its_name_if_it_has_one_is_as_harmless_as_any(self, tus: Tus, gateway: Gateway):
        given = metadata(filename=f"../a\0b\x1b[31m\u202ec{'d' * 300}")
        path = tus.created(5, upload_concat="partial", upload_metadata=given)
        assert gateway.row(path)["filename"] == "d" * 255

    @pytest.mark.parametrize("value", ["", "whole", "partial;", "PARTIAL", "final", "final;", "final; "])
    def test_any_other_word_is_400(self, tus: Tus, value: str):
        assert tus.create(5, upload_concat=value).status == 400
        assert tus.create(upload_concat=value).status == 400


class TestJoining:
    def test_the_whole_is_its_parts_in_the_order_named(self, tus: Tus, gateway: Gateway):
        a, b, c = parts_of(tus, b"hello", b" ", b"world")
        answer = joined(tus, c, b, a)
        assert answer.status == 201
        path = answer["Location"] or ""
        assert gateway.bytes_of(path) == b"world hello"
        assert gateway.row(path)["status"] == "FINISHED"

    def test_its_length_is_the_sum_and_equals_the_offset(self, tus: Tus):
        head = tus.head(joined(tus, *parts_of(tus, b"hello", b" world"))["Location"] or "")
        assert (head.offset, head["Upload-Length"]) == (11, "11")

    def test_head_repeats_the_list_as_it_was_sent(self, tus: Tus):
        a, b = parts_of(tus, b"hello", b" world")
        given = f"final;{a} {tus.address}{b}"
        path = tus.created(upload_concat=given)
        assert tus.head(path)["Upload-Concat"] == given

    def test_addresses_may_be_absolute_or_relative(self, tus: Tus, gateway: Gateway):
        a, b = parts_of(tus, b"hello", b" world")
        path = joined(tus, a, tus.address + b)["Location"] or ""
        assert gateway.bytes_of(path) == b"hello world"

    def test_metadata_of_parts_is_not_that_of_the_whole(self, tus: Tus):
        part = tus.uploaded(b"abc", upload_concat="partial", upload_metadata=metadata(note="of the part"))
        given = metadata(filename="whole.pdf")
        path = joined(tus, part, upload_metadata=given)["Location"] or ""
        assert tus.head(path)["Upload-Metadata"] == given

    def test_the_whole_needs_metadata_of_its_own(self, tus: Tus):
        assert joined(tus, *parts_of(tus, b"abc"), upload_metadata=None).refusal == (400, "INVALID_FILE_TYPE")

    def test_a_part_that_is_named_twice_is_refused(self, tus: Tus):
        """A request of a few bytes would make the server write a file of any size."""
        a, b = parts_of(tus, b"ab", b"c")
        assert joined(tus, a, b, a).refusal == (400, "UPLOAD_CONCAT_INVALID")
        assert joined(tus, a, b, tus.address + a).refusal == (400, "UPLOAD_CONCAT_INVALID")

    def test_a_part_may_be_used_again_or_is_said_to_be_gone(self, tus: Tus, gateway: Gateway):
        [part] = parts_of(tus, b"ab")
        assert joined(tus, part).status == 201
        again = joined(tus, part)
        assert again.status in (201, 400, 404, 409, 410)
        if again.status == 201:
            assert gateway.bytes_of(again["Location"] or "") == b"ab"

    def test_a_length_with_it_is_400(self, tus: Tus):
        [part] = parts_of(tus, b"abc")
        assert tus.create(3, upload_concat=f"final;{part}").status == 400

    def test_an_unfinished_part_is_refused_as_we_do_not_announce_that(self, tus: Tus, gateway: Gateway):
        part = tus.created(5, **PART)
        tus.patch(part, 0, b"he")
        before = gateway.query("select count(*) from tus_uploads")
        answer = joined(tus, part)
        assert answer.status in (400, 409)
        assert gateway.query("select count(*) from tus_uploads") == before
        assert tus.patch(part, 2, b"llo").status == 204
        assert joined(tus, part).status == 201

    @pytest.mark.parametrize("other", [UNKNOWN, "/api/v1/uploads/", "http://elsewhere.example/x", "nonsense", "/"])
    def test_an_address_that_is_no_part_of_ours_is_refused(self, tus: Tus, other: str):
        [part] = parts_of(tus, b"abc")
        assert joined(tus, part, other).status in (400, 404)

    def test_a_whole_upload_is_no_part(self, tus: Tus):
        assert joined(tus, tus.uploaded(b"abc")).status == 400

    def test_nor_is_a_part_of_another_merchant(self, tus: Tus, gateway: Gateway):
        [part] = parts_of(gateway.caller("m-2"), b"abc")
        assert joined(tus, part).status in (400, 404)

    def test_nor_is_one_that_was_cancelled(self, tus: Tus):
        [part] = parts_of(tus, b"abc")
        tus.delete(part)
        assert joined(tus, part).status in (400, 404, 410)

    def test_writing_to_the_whole_is_403_and_changes_nothing(self, tus: Tus, gateway: Gateway):
        path = joined(tus, *parts_of(tus, b"hello", b" world"))["Location"] or ""
        for offset, body in ((11, b"!"), (0, b"x"), (11, b"")):
            assert tus.patch(path, offset, body).status == 403
        assert gateway.bytes_of(path) == b"hello world"

    def test_the_whole_may_be_cancelled(self, tus: Tus):
        path = joined(tus, *parts_of(tus, b"abc"))["Location"] or ""
        assert tus.delete(path).status == 204
        assert tus.head(path).status == 410

    def test_large_parts_arrive_as_they_were(self, tus: Tus, gateway: Gateway):
        contents = [bytes([n]) * 1_500_001 for n in range(3)]
        path = joined(tus, *parts_of(tus, *contents))["Location"] or ""
        assert gateway.bytes_of(path) == b"".join(contents)
