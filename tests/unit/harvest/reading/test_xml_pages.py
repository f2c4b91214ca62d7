"""XML answers: standing alone, safe to open, and read by the same rules as JSON."""

from datetime import UTC, datetime

import pytest
from lxml import etree

from penstock.harvest.page import FaultKind
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

OAI = "http://www.openarchives.org/OAI/2.0/"
PLAIN = {"format": "XML", "itemsPath": "/list/item", "idPath": "id", "updatedAtPath": "at"}
ITEM = b"<item><id>a</id><at>2026-11-03</at></item>"


def refusal(read, body):
    with pytest.raises(PenstockError) as caught:
        read(body)
    return caught.value


class TestItems:
    def test_each_stands_alone_with_its_namespaces(self, reader):
        read = reader(
            format="XML",
            namespaces={"o": OAI},
            itemsPath="//o:r",
            idPath="o:id",
            updatedAtPath="o:at",
            versionPath="@v",
        ).read
        page = read(
            f'<x xmlns="{OAI}" xmlns:d="urn:d"><r v="3"><id>1</id><at>2026-01-01</at><d:t d:a="1">é&amp;</d:t></r> tail'
            "</x>".encode()
        )
        (body,) = page.bodies
        root = etree.fromstring(body)
        assert root.tag == f"{{{OAI}}}r"
        assert root.findtext("{urn:d}t") == "é&"
        assert b"tail" not in body
        assert page.versions == ["3"]

    @pytest.mark.parametrize("encoding", ["ISO-8859-1", "UTF-16", "windows-1252", "UTF-8"])
    def test_bodies_are_utf8_whatever_the_answer_was(self, reader, encoding):
        text = f'<?xml version="1.0" encoding="{encoding}"?><list><item><id>é</id><at>2026</at></item></list>'
        page = reader(**PLAIN).read(text.encode(encoding))
        assert page.ids == ["é"]
        assert page.bodies == ["<item><id>é</id><at>2026</at></item>".encode()]

    def test_space_and_comments_in_a_text_do_not_count(self, reader):
        page = reader(**PLAIN).read(b"<list><item><id>\n a<!-- no -->b </id><at> 2026-11-03\n</at></item></list>")
        assert page.ids == ["ab"]

    def test_a_bad_one_is_a_fault_and_the_others_are_kept(self, reader):
        page = reader(**PLAIN).read(
            b"<list><item/>%s<item><id>b</id></item><item><id>c</id><at>soon</at></item></list>" % ITEM,
            asked=["a", "b", "z"],
        )
        assert page.ids == ["a"]
        assert page.served == 4
        assert [(fault.item_no, fault.kind, fault.provider_id) for fault in page.faults] == [
            (0, FaultKind.NO_ID, None),
            (2, FaultKind.BAD_UPDATED_AT, "b"),
            (3, FaultKind.BAD_UPDATED_AT, "c"),
            (4, FaultKind.NO_DETAIL, "z"),
        ]

    @pytest.mark.parametrize(
        ("parts", "moment"),
        [
            (b"<Year>2026</Year><Month>11</Month><Day>05</Day>", datetime(2026, 11, 5, tzinfo=UTC)),
            (b"<Year>2026</Year><Month>Nov</Month>", datetime(2026, 11, 1, tzinfo=UTC)),
            (b"<Year>2026</Year><Month>1</Month><Day>2</Day><Hour>3</Hour>", datetime(2026, 1, 2, 3, tzinfo=UTC)),
            (b"<Year>2026</Year><Month>13</Month><Day>2</Day>", None),
            (b"<Year>26</Year>", None),
        ],
    )
    def test_a_date_may_be_written_as_elements(self, reader, parts, moment):
        page = reader(**PLAIN | {"updatedAtPath": ["none", "at"]}).read(
            b"<list><item><id>a</id><at>%s</at></item></list>" % parts
        )
        assert page.updated == ([moment] if moment else [])
        assert len(page.faults) == (0 if moment else 1)

    def test_fields_are_texts_or_lists_of_texts(self, reader):
        fields = (
            {"name": "title", "expr": "t", "required": True},
            {"name": "names", "expr": "n/@v"},
            {"name": "count", "expr": "count(n)"},
            {"name": "none", "expr": "x"},
        )
        read = reader(fields=fields, deletedPath="@gone", deletedValue="1", **PLAIN).read
        page = read(
            b'<list><item><id>a</id><at>2026</at><t>A <i>b</i></t><n v="1"/><n v="2"/></item>'
            b'<item gone="1"><id>b</id><at>2026</at></item><item gone="0"><id>c</id><at>2026</at></item></list>'
        )
        assert page.fields == [b'{"title":"A b","names":["1","2"],"count":"2"}', b'{"count":"0"}']
        assert page.deleted == [False, True]
        assert [(fault.item_no, fault.kind) for fault in page.faults] == [(2, FaultKind.FIELD_MISSING)]

    def test_the_first_attribute_is_found_as_xpath_finds_it(self, reader):
        page = reader(**PLAIN | {"idPath": "n/@v"}).read(
            b'<list><item><n/><n v="x"/><at>2026</at></item><item><n><m v="y"/></n><at>2026</at></item></list>'
        )
        assert page.ids == ["x"]
        assert [fault.item_no for fault in page.faults] == [1]


class TestErrorsInsideAnAnswer:
    def test_the_code_and_the_words_are_told(self, reader):
        read = reader(**PLAIN, errorPath="//error", emptyErrors=["noRecordsMatch"], retryErrors=["later"]).read
        assert refusal(read, b'<x><error code="badVerb">no</error></x>').details["answer"] == "badVerb: no"
        assert refusal(read, b'<x><error code="badVerb"/></x>').code is error_codes.SOURCE_REFUSED
        assert refusal(read, b"<x><error/></x>").code is error_codes.SOURCE_REFUSED
        assert refusal(read, b"<x><error>later</error></x>").code is error_codes.SOURCE_UNAVAILABLE
        assert read(b'<x><error code="noRecordsMatch"/></x>').served == 0


class TestWhatIsNoAnswer:
    LAUGHS = b'<!DOCTYPE list [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><list><item><id>&b;</id></item></list>'
    OUTSIDE = b'<!DOCTYPE list [<!ENTITY x SYSTEM "file:///etc/passwd">]><list><item><id>&x;</id></item></list>'

    @pytest.mark.parametrize(
        ("body", "reason"),
        [
            (b"", "empty"),
            (b" \n", "empty"),
            (b"{}", "not XML"),
            (b"<list>%s" % ITEM, "not XML"),
            (b"<list>%s</list><list/>" % ITEM, "not XML"),
            (b"<list><item><id>\x00</id></item></list>", "not XML"),
            (b"<list><item><id>&#0;</id></item></list>", "not XML"),
            (b"<list><item><id>\xe9</id></item></list>", "not XML"),
            (b'<?xml version="1.0" encoding="no-such"?><list/>', "not XML"),
            (b"<a>" * 5000 + b"</a>" * 5000, "not XML"),
            (LAUGHS, "entities"),
            (OUTSIDE, "entities"),
            (
                b'<?xml version="1.0" encoding="UTF-16"?>'.decode().encode("utf-16")
                + LAUGHS.decode().encode("utf-16")[2:],
                "entities",
            ),
            (b"<html><body>Down</body></html>", "itemsPath"),
            (b"<other/>", "itemsPath"),
        ],
    )
    def test_it_is_refused(self, reader, body, reason):
        error = refusal(reader(**PLAIN).read, body)
        assert error.code is error_codes.SOURCE_ANSWER_INVALID
        assert reason in error.details["reason"]
        assert len(error.details["sample"]) <= 1024

    def test_no_items_in_the_right_document_is_an_empty_page(self, reader):
        assert reader(**PLAIN).read(b"<list><total>0</total></list>").served == 0

    def test_a_document_type_that_lies_elsewhere_is_not_fetched_and_does_no_harm(self, reader):
        page = reader(**PLAIN).read(
            b'<!DOCTYPE list PUBLIC "-//X//X" "http://127.0.0.1:9/x.dtd"><list>%s<item><id>b&eacute;</id>'
            b"<at>2026</at></item></list>" % ITEM
        )
        assert page.ids == ["a"]
        assert [(fault.item_no, fault.kind) for fault in page.faults] == [(1, FaultKind.NOT_READABLE)]


class TestAroundTheItems:
    def test_totals_tokens_and_marks_are_read(self, reader):
        pagination = {
            "nextTokenPath": "/list/token",
            "nextUrlPath": "/list/link[@rel='next']/@href",
            "hasMorePath": "/list/more",
        }
        read = reader(**PLAIN, totalPath="/list/token/@size", truncatedPath="/list/cut", pagination=pagination).read
        page = read(
            b'<list>%s<token size="842"> x= </token><link rel="next" href="https://x/2"/><more>true</more><cut>1</cut></list>'
            % ITEM
        )
        assert (page.total, page.next_token, page.next_url) == (842, "x=", "https://x/2")
        assert page.has_more
        assert page.is_truncated
        page = read(b"<list><token/></list>")
        assert (page.total, page.next_token, page.next_url, page.has_more) == (None, None, None, None)
        assert not page.is_truncated

    def test_a_count_needs_only_the_total(self, reader):
        read = reader(**PLAIN, totalPath="/eSearchResult/Count")
        assert read.count(b"<eSearchResult><Count>12</Count></eSearchResult>") == 12
        assert refusal(read.count, b"<eSearchResult/>").code is error_codes.SOURCE_ANSWER_INVALID
