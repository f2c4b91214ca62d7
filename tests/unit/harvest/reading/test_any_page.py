"""Pages made at random: nothing is lost, nothing is mixed up, and no bytes whatever bring the reader down."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.harvest.page import FaultKind
from penstock.harvest.reading.times import read_moment
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=12)
_GOOD_IDS = _TEXT.filter(lambda text: text.strip()) | st.integers(0, 10**12)
_GOOD_TIMES = st.sampled_from(["2026-11-03T04:12:55Z", "2026-11-03", 1793679175000, [[2026, 11, 3]], "2026/11/03"])
_CLEAN = st.dictionaries(st.sampled_from("xyz"), _TEXT | st.integers() | st.lists(_TEXT, max_size=2), max_size=3)


@st.composite
def _items(draw):
    """Items as JSON text in one of several layouts, each with what must become of it."""
    kind = draw(st.sampled_from([None, None, None, FaultKind.NO_ID, FaultKind.BAD_UPDATED_AT, FaultKind.NOT_READABLE]))
    item = draw(_CLEAN) | {"id": draw(_GOOD_IDS), "at": draw(_GOOD_TIMES)}
    if kind is FaultKind.NO_ID:
        item["id"] = draw(st.sampled_from([None, "", " ", True, 1.5, [], {}, ["a"]]))
    elif kind is FaultKind.BAD_UPDATED_AT:
        item["at"] = draw(st.sampled_from([None, "", "soon", False, {}, "9999-12-31", 1e40, [[None]]]))
    elif kind is FaultKind.NOT_READABLE:
        item["x"] = draw(st.sampled_from(["a\0b", "\0"]))
    keys = draw(st.permutations(list(item)))
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " : ")]))
    is_ascii = draw(st.booleans())
    text = json.dumps({key: item[key] for key in keys}, separators=separators, ensure_ascii=is_ascii)
    return kind, item, text.encode()


def _page_of(items, space):
    return b'{"n": 3 , "items" :[%s]}' % (b"," + space).join(text for _, _, text in items)


@pytest.fixture(scope="module")
def readers(reader):
    paths = {"totalPath": "$.n", "errorPath": "$.e", "pagination": {"nextTokenPath": "$.t"}}
    return [reader(**paths), reader(itemsPath="$.items[?@.id]", **paths), reader(itemsPath="$..items", **paths)]


class TestPagesWithFaults:
    @given(st.lists(_items(), max_size=12), st.sampled_from([b"", b" ", b"\n  "]))
    def test_each_item_is_in_the_columns_or_a_fault_in_order(self, reader, items, space):
        page = reader(totalPath="$.n").read(_page_of(items, space))
        good = [(item, text) for kind, item, text in items if kind is None]
        assert page.ids == [str(item["id"]) for item, _ in good]
        assert page.updated == [read_moment(item["at"]) for item, _ in good]
        assert page.bodies == [text for _, text in good]
        assert [(fault.item_no, fault.kind) for fault in page.faults] == [
            (no, kind) for no, (kind, _, _) in enumerate(items) if kind is not None
        ]
        assert (page.served, page.total) == (len(items), 3)

    @given(st.lists(_items(), max_size=8))
    def test_every_way_of_reading_finds_the_same(self, reader, items):
        body = _page_of(items, b" ")
        fields = [{"name": "x", "expr": "$.x"}, {"name": "id", "expr": "$.id", "required": True}]
        rest = {"versionPath": "$.y", "deletedPath": "$.z", "fields": fields}
        fast = reader(**rest).read(body)
        assert fast == reader(**rest, itemsPath="$.items[*]").read(body)
        assert fast == reader(**rest, updatedAtPath=["$.none.there", "$.at"]).read(body)
        assert fast == reader(**rest, idPath="$['id','none']").read(body)
        columns = (fast.ids, fast.updated, fast.bodies, fast.versions, fast.deleted, fast.fields)
        assert len({len(column) for column in columns}) == 1

    @given(st.lists(_VALUES, max_size=6))
    def test_items_of_any_shape_are_counted(self, reader, values):
        body = json.dumps({"items": values}).encode()
        page = reader(fields=[{"name": "x", "expr": "$.x.y[0]"}]).read(body)
        assert page.served == len(values) == len(page.ids) + len(page.faults)


class TestAnyBytes:
    CODES = (error_codes.SOURCE_ANSWER_INVALID, error_codes.SOURCE_REFUSED)

    def check(self, reader, body):
        try:
            page = reader.read(body, asked=["a"])
        except PenstockError as error:
            assert error.code in self.CODES
            json.dumps(error.details)
            return
        assert page.served == len(page.ids) + len([f for f in page.faults if f.kind is not FaultKind.NO_DETAIL])
        for stored in page.bodies:
            assert "\0" not in stored.decode()

    @given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
    @example(b'{"items":[{"id":"\\ud800"}],"t":"\\udfff"}')
    @example(b'\xef\xbb\xbf{"items":[{"id":"a","at":"2026\xff"}]}')
    def test_any_bytes_for_json(self, readers, body):
        for one in readers:
            self.check(one, body)

    @given(
        st.lists(
            st.sampled_from(
                [
                    *(b'{"items":[', b'{"id":"a","at":"2026"}', b"]", b"}", b",", b'"t":', b'"\\ud800"', b'"\\u0000"'),
                    *(b"NaN", b"1e999", b'"e":"x"', b"\xff", b"null", b"[", b"{", b'"', b"\\", b"\n", b'{"id":1}'),
                ]
            ),
            max_size=12,
        ).map(b"".join)
    )
    def test_pieces_of_json_in_any_order(self, readers, body):
        for one in readers:
            self.check(one, body)

    @settings(max_examples=150)
    @given(
        st.binary(max_size=40)
        | st.lists(
            st.sampled_from(
                [
                    *(b"<list>", b"</list>", b"<item>", b"</item>", b"<id>a</id>", b"<at>2026</at>", b"<id>&x;</id>"),
                    *(
                        b"<?xml version='1.0'?>",
                        b"<!DOCTYPE list>",
                        b"<![CDATA[<]]>",
                        b"<!--x-->",
                        b"&#1;",
                        b"\xff",
                        b"x",
                    ),
                    *(b"<!DOCTYPE list SYSTEM 'x'>", b"<at><Year>1</Year></at>", b"<e/>", b"<?p?>", b"<item a='&x;'>"),
                ]
            ),
            max_size=12,
        ).map(b"".join)
    )
    def test_pieces_of_xml_in_any_order(self, reader, body):
        paths = {"format": "XML", "itemsPath": "//item", "idPath": "id", "updatedAtPath": "at", "errorPath": "//e"}
        self.check(reader(**paths), body)
