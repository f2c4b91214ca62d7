"""JSON answers as a whole: what stands around the items, errors inside a 200, and what is no answer at all."""

import json

import pytest

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

ITEM = b'{"id":"a","at":"2026-11-03"}'


def refusal(read, body):
    with pytest.raises(PenstockError) as caught:
        read(body)
    return caught.value


class TestAroundTheItems:
    @pytest.mark.parametrize(
        ("written", "total"), [("12", 12), ('"12"', 12), ("12.0", 12), ('" 12 "', 12), ("null", None), ('"many"', None)]
    )
    def test_a_total_may_be_text(self, reader, written, total):
        assert reader(totalPath="$.n").read(b'{"items":[],"n":%s}' % written.encode()).total == total

    @pytest.mark.parametrize(
        ("written", "more"),
        [
            ("true", True),
            ("false", False),
            ('"true"', True),
            ('"False"', False),
            ("1", True),
            ("0", False),
            ("null", None),
            ('"perhaps"', None),
        ],
    )
    def test_has_more_may_be_written_in_several_ways(self, reader, written, more):
        read = reader(pagination={"hasMorePath": "$.more"}).read
        assert read(b'{"items":[],"more":%s}' % written.encode()).has_more is more

    @pytest.mark.parametrize(
        ("written", "token"), [('"x="', "x="), ("17", "17"), ("0", "0"), ("null", None), ('""', None)]
    )
    def test_the_next_token_is_text_or_none(self, reader, written, token):
        read = reader(pagination={"nextTokenPath": "$.meta.next"}).read
        assert read(b'{"meta":{"next":%s},"items":[]}' % written.encode()).next_token == token

    def test_the_next_address_may_be_missing_with_all_around_it(self, reader):
        read = reader(pagination={"nextUrlPath": "$.links.next.href"}).read
        assert read(b'{"items":[],"links":{"next":{"href":"https://x/2"}}}').next_url == "https://x/2"
        for links in (b'{"next":{}}', b'{"next":null}', b"{}", b"null", b"[]"):
            assert read(b'{"items":[%s],"links":%s}' % (ITEM, links)).next_url is None

    def test_a_token_that_cannot_be_stored_is_refused(self, reader):
        read = reader(pagination={"nextTokenPath": "$.next"}).read
        for token in (b"x\\u0000", b"x\\ud800"):
            assert refusal(read, b'{"items":[],"next":"%s"}' % token).code is error_codes.SOURCE_ANSWER_INVALID

    def test_a_cut_is_noticed_where_the_source_says_it(self, reader):
        read = reader(truncatedPath="$.notes[?search(@, 'adjusted')]").read
        assert read(b'{"items":[],"notes":["start adjusted"]}').is_truncated
        assert not read(b'{"items":[],"notes":["none found"]}').is_truncated
        assert not read(b'{"items":[]}').is_truncated


class TestWhereItemsAre:
    @pytest.mark.parametrize("path", ["$.a['b c'][0]", "$.a['b c'][-1]", "$.a['b c'][*][*]", "$..['b c'][0][?@.id]"])
    def test_bodies_are_slices_of_the_answer_whatever_the_path(self, reader, path):
        items = [b'{"id" : "a",\n "at":"2026-01-01", "n": 1.50e0}', b'{ "at":"2026-01-02","id":"b"}']
        page = reader(itemsPath=path).read(b'{"a":{"b c":[ [%s , %s] ]}}' % tuple(items))
        assert page.bodies == items

    def test_the_members_of_an_object_may_be_items(self, reader):
        body = b'{"result":{"uids":["1","2"],"1":{"id":"1","at":"2026"},"2":{"id":"2","error":"none"}}}'
        page = reader(itemsPath="$.result[?@.id && !@.error]").read(body, asked=["1", "2"])
        assert page.ids == ["1"]
        assert page.bodies == [b'{"id":"1","at":"2026"}']
        assert [fault.provider_id for fault in page.faults] == ["2"]

    def test_one_object_instead_of_a_list_is_one_item(self, reader):
        assert reader(itemsPath="$.message").read(b'{"message":%s}' % ITEM).bodies == [ITEM]

    def test_the_answer_itself_may_be_the_list(self, reader):
        assert reader(itemsPath="$").read(b" [%s]\n" % ITEM).bodies == [ITEM]

    def test_null_is_an_empty_list(self, reader):
        assert reader().read(b'{"items":null}').served == 0

    @pytest.mark.parametrize("body", [b"{}", b'{"items":"none"}', b'{"item":[]}', b"[]", b"3", b'"items"', b"null"])
    @pytest.mark.parametrize("path", ["$.items", "$.items[?@.id]"])
    def test_nothing_where_they_should_be_is_no_answer(self, reader, path, body):
        error = refusal(reader(itemsPath=path).read, body)
        assert error.code is error_codes.SOURCE_ANSWER_INVALID
        assert error.details["sample"] == body.decode()


class TestErrorsInsideAnAnswer:
    def test_an_error_is_told_in_the_words_of_the_source(self, reader):
        error = refusal(reader(errorPath="$.error").read, b'{"error":"unknown filter"}')
        assert error.code is error_codes.SOURCE_REFUSED
        assert error.details["answer"] == "unknown filter"

    def test_the_words_can_be_stored_as_evidence(self, reader):
        read = reader(errorPath="$.error").read
        assert refusal(read, b'{"error":"no\\u0000' + b"x" * 5000 + b'"}').details["answer"] == "no\ufffd" + "x" * 1021
        assert "\0" not in refusal(read, b"\x00\x00").details["sample"]

    def test_one_that_passes_is_worth_another_try(self, reader):
        read = reader(errorPath="$.error", retryErrors=["(?i)rate limit"]).read
        assert refusal(read, b'{"error":{"text":"Rate limit"},"items":[]}').code is error_codes.SOURCE_UNAVAILABLE

    def test_one_that_means_nothing_found_is_an_empty_page(self, reader):
        page = reader(errorPath="$.error", emptyErrors=["^no results"]).read(b'{"error":"no results"}', asked=["a"])
        assert (page.served, page.ids, len(page.faults)) == (0, [], 1)

    @pytest.mark.parametrize("nothing", [b"null", b'""', b"false", b"0", b"[]", b"{}"])
    def test_a_place_for_errors_that_is_empty_is_no_error(self, reader, nothing):
        assert reader(errorPath="$.error").read(b'{"error":%s,"items":[%s]}' % (nothing, ITEM)).ids == ["a"]

    def test_an_error_with_a_line_break_in_it_is_still_told(self, reader):
        read = reader(errorPath="$.r.ERROR", retryErrors=["Backend failed"]).read
        assert refusal(read, b'{"r":{"ERROR":"Backend failed:\nagain"}}').code is error_codes.SOURCE_UNAVAILABLE
        assert refusal(read, b'{"r":{"ERROR":"bad\nstart"}}').details["answer"] == "bad\nstart"

    def test_plain_words_and_unknown_shapes_are_searched_for_errors_that_pass(self, reader):
        read = reader(retryErrors=["Rate exceeded", "limit exceeded"]).read
        for body in (b"Rate exceeded.", b'{"error":"limit exceeded"}', b"<html>Rate exceeded</html>"):
            assert refusal(read, body).code is error_codes.SOURCE_UNAVAILABLE


class TestWhatIsNoAnswer:
    @pytest.mark.parametrize(
        ("body", "reason"),
        [
            (b"", "empty"),
            (b"\xef\xbb\xbf \n", "empty"),
            (b"<!DOCTYPE html><html></html>", "HTML"),
            (b'{"items":[%s,' % ITEM, "not JSON"),
            (b'{"items":[{"id":"a","at":"2026","t":"line\nbreak"}]}', "not JSON"),
            (b'{"items":[{"id":"a","at":"2026","n":NaN}]}', "not JSON"),
            (b'{"items":[%s]}{}' % ITEM, "not JSON"),
            (b'{"items":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not JSON"),
            (b'{"items":[{"id":"a","x":' + b'{"x":' * 50_000 + b"1" + b"}" * 50_000 + b"}]}", "not JSON"),
            (b"\xff\xfe{\x00\x00", "UTF-16"),
            (b"\x00\x01\x02", "not JSON"),
        ],
    )
    def test_it_is_refused_with_a_short_sample(self, reader, body, reason):
        error = refusal(reader(errorPath="$.error").read, body)
        assert error.code is error_codes.SOURCE_ANSWER_INVALID
        assert reason in error.details["reason"]
        assert len(error.details["sample"]) <= 1024
        json.dumps(error.details)

    @pytest.mark.parametrize(
        "body", [ITEM[:-1], ITEM + b"\n" + ITEM, ITEM[:-1] + b',"x":tru}', b"[%s,%s" % (ITEM, ITEM), b"[%s]x" % ITEM]
    )
    def test_broken_bytes_are_no_item_where_the_answer_itself_is_one(self, reader, body):
        error = refusal(reader(itemsPath="$").read, body)
        assert error.code is error_codes.SOURCE_ANSWER_INVALID
        assert "not JSON" in error.details["reason"]

    def test_a_byte_order_mark_is_no_obstacle(self, reader):
        body = b'{"items":[%s]}' % ITEM
        assert reader().read(b"\xef\xbb\xbf" + body).bodies == [ITEM]
        assert reader().read(body.decode().encode("utf-16")).bodies == [ITEM]

    def test_numbers_beyond_all_bounds_do_no_harm_where_nobody_reads_them(self, reader):
        item = b'{"id":"a","at":"2026","n":1e9999,"m":' + b"9" * 6000 + b"}"
        for path in ("$.items", "$.items[?@.id]"):
            assert reader(itemsPath=path).read(b'{"items":[%s]}' % item).bodies == [item]


class TestCounting:
    def test_an_answer_to_a_count_need_not_hold_items(self, reader):
        assert reader(totalPath="$.r.count").count(b'{"r":{"count":"23117"}}') == 23117

    def test_errors_count_as_errors_and_nothing_found_as_none(self, reader):
        count = reader(totalPath="$.n", errorPath="$.error", emptyErrors=["none"]).count
        assert count(b'{"error":"none"}') == 0
        assert refusal(count, b'{"error":"bad"}').code is error_codes.SOURCE_REFUSED
        assert refusal(count, b"{}").code is error_codes.SOURCE_ANSWER_INVALID
        assert refusal(count, b"{").code is error_codes.SOURCE_ANSWER_INVALID


class TestSections:
    @pytest.mark.parametrize(
        "wrong",
        [
            {"itemsPath": "items"},
            {"idPath": "$.a["},
            {"updatedAtPath": ""},
            {"idPath": None},
            {"idPattern": "("},
            {"errorPath": "$.a | $.b"},
            {"retryErrors": ["["]},
            {"format": "XML", "itemsPath": "//x:record", "idPath": "id", "updatedAtPath": "at"},
            {"format": "XML", "itemsPath": "//record[", "idPath": "id", "updatedAtPath": "at"},
            {"format": "XML", "itemsPath": "//record", "idPath": "nothing(id)", "updatedAtPath": "at"},
        ],
    )
    def test_paths_and_patterns_that_cannot_be_read_are_refused_at_once(self, reader, wrong):
        with pytest.raises(PenstockError) as caught:
            reader(**wrong)
        assert caught.value.code is error_codes.SPEC_INVALID
        (problem,) = caught.value.details["problems"]
        assert problem["key"].startswith("response.")
