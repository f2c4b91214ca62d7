"""What of a JSON item becomes a record, and what a fault."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from penstock.harvest.page import FaultKind
from penstock.harvest.slices import Span

AT = "2026-11-03T04:12:55Z"
MOMENT = datetime(2026, 11, 3, 4, 12, 55, tzinfo=UTC)


def answer(*items, **around):
    return json.dumps({"items": list(items), **around}).encode()


def kinds(page):
    return [(fault.item_no, fault.kind) for fault in page.faults]


class TestIds:
    def test_a_number_becomes_text(self, reader):
        body = b'{"items":[{"id":7,"at":"%s"},{"id":98765432109876543210,"at":"%s"}]}' % (AT.encode(), AT.encode())
        assert reader().read(body).ids == ["7", "98765432109876543210"]

    @pytest.mark.parametrize("wrong", [None, "", "  ", True, 1.5, {}, [], "x" * 1501, "é" * 800])
    def test_an_item_without_a_usable_id_is_a_fault_and_the_others_are_kept(self, reader, wrong):
        page = reader().read(answer({"id": "a", "at": AT}, {"id": wrong, "at": AT}, {"id": "c", "at": AT}))
        assert page.ids == ["a", "c"]
        assert kinds(page) == [(1, FaultKind.NO_ID)]
        assert page.served == 3

    def test_an_item_that_is_no_object_is_a_fault(self, reader):
        page = reader().read(answer(None, 3, "x", [], {"id": "a", "at": AT}))
        assert page.ids == ["a"]
        assert kinds(page) == [(no, FaultKind.NO_ID) for no in range(4)]

    def test_several_paths_are_joined_and_each_must_be_there(self, reader):
        page = reader(idPath=["$.source", "$.id"]).read(
            answer({"id": 1, "source": "MED", "at": AT}, {"id": "2", "at": AT})
        )
        assert page.ids == ["MED:1"]
        assert kinds(page) == [(1, FaultKind.NO_ID)]

    def test_the_pattern_takes_its_first_group_and_refuses_what_does_not_match(self, reader):
        read = reader(idPattern=r"/(W[0-9]+)$").read
        page = read(answer({"id": "https://x/W1", "at": AT}, {"id": "https://x/A1", "at": AT}))
        assert page.ids == ["W1"]
        assert kinds(page) == [(1, FaultKind.NO_ID)]

    def test_bare_texts_and_numbers_are_ids(self, reader):
        page = reader(idPath="$", ids_only=True).read(b'{"items":["1", 2, null, "3"]}')
        assert page.ids == ["1", "2", "3"]
        assert page.bodies == page.updated == []
        assert kinds(page) == [(2, FaultKind.NO_ID)]

    def test_of_equal_keys_the_last_counts_on_either_way(self, reader):
        body = b'{"items":[{"id":"a","id":"b","at":"%s"},{"id":true,"id":3,"at":"%s"}]}' % (AT.encode(), AT.encode())
        assert reader().read(body).ids == ["b", "3"]
        assert reader(idPath="$['id','none']").read(body).ids == ["b", "3"]

    def test_one_without_end_is_not_searched_for_a_pattern(self, reader):
        # Such a search takes the square of the length: hours, in which nothing else of the process would go on.
        page = reader(idPattern="([^/]+)$").read(answer({"id": "a" * 1_000_000 + "/", "at": AT}))
        assert kinds(page) == [(0, FaultKind.NO_ID)]


class TestTimes:
    @pytest.mark.parametrize("wrong", [None, "", "soon", {}, "9999-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", True])
    def test_a_time_that_cannot_be_read_is_a_fault_that_names_the_item(self, reader, wrong):
        page = reader().read(answer({"id": "a", "at": wrong}, {"id": "b", "at": AT}))
        assert page.ids == ["b"]
        assert kinds(page) == [(0, FaultKind.BAD_UPDATED_AT)]
        assert page.faults[0].provider_id == "a"

    @pytest.mark.parametrize("value", [AT, 1793679175, "1793679175000", "2026-11-03T05:12:55+01:00", 1793679175.0])
    def test_each_item_may_write_it_differently(self, reader, value):
        page = reader().read(answer({"id": "a", "at": value}, {"id": "b", "at": [[2026, 11, 3]]}))
        assert page.updated == [MOMENT, datetime(2026, 11, 3, tzinfo=UTC)]

    def test_the_first_path_that_is_there_counts(self, reader):
        page = reader(updatedAtPath=["$.a.b", "$.at"]).read(
            answer({"id": "a", "a": {"b": "2026-01-01"}, "at": AT}, {"id": "b", "at": AT}, {"id": "c", "a": None})
        )
        assert page.updated == [datetime(2026, 1, 1, tzinfo=UTC), MOMENT]
        assert kinds(page) == [(2, FaultKind.BAD_UPDATED_AT)]

    def test_a_path_may_hold_an_index(self, reader):
        page = reader(updatedAtPath="$.dates[-1].at").read(
            answer({"id": "a", "dates": [{"at": "2020-01-01"}, {"at": AT}]}, {"id": "b", "dates": []})
        )
        assert page.updated == [MOMENT]
        assert kinds(page) == [(1, FaultKind.BAD_UPDATED_AT)]

    def test_a_source_that_does_not_tell_gets_the_last_moment_of_the_window(self, reader):
        read = reader(updatedAtFrom="WINDOW", updatedAtPath=None, window={"granularity": "P1D"}).read
        span = Span(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 3, tzinfo=UTC))
        assert read(answer({"id": "a"}), span=span).updated == [datetime(2026, 11, 2, tzinfo=UTC)]

    def test_without_a_window_it_is_as_if_one_had_just_ended(self, reader):
        read = reader(updatedAtFrom="WINDOW", window={"granularity": "P1D", "safetyLag": "PT1H"}).read
        before = datetime.now(UTC)
        (updated,) = read(answer({"id": "a"})).updated
        assert before <= updated + timedelta(days=1, hours=1) <= datetime.now(UTC)

    def test_what_lies_outside_of_the_window_is_dropped_but_was_served(self, reader):
        span = Span(MOMENT, MOMENT + timedelta(seconds=10))
        page = reader(window={"clientFilter": True}).read(
            answer(
                {"id": "before", "at": "2026-11-03T04:12:54Z"},
                {"id": "first", "at": AT},
                {"id": "bad", "at": "?"},
                {"id": "end", "at": "2026-11-03T04:13:05Z"},
            ),
            span=span,
            asked=["before", "first"],
        )
        assert page.ids == ["first"]
        assert page.served == 4
        assert kinds(page) == [(2, FaultKind.BAD_UPDATED_AT)]

    def test_a_list_of_ids_is_filtered_when_it_has_times(self, reader):
        span = Span(MOMENT, MOMENT + timedelta(seconds=10))
        page = reader(ids_only=True, window={"clientFilter": True}).read(
            answer({"id": "a", "at": "2020-01-01"}, {"id": "b", "at": AT}), span=span
        )
        assert (page.ids, page.updated, page.bodies) == (["b"], [], [])


class TestVersionsAndDeletions:
    def test_versions_are_text_whatever_they_were(self, reader):
        items = [{"id": no, "at": AT, "v": value} for no, value in enumerate(["v2", 3, 1.50, None, True])]
        page = reader(versionPath="$.v").read(answer(*items, {"id": "x", "at": AT}))
        assert page.versions == ["v2", "3", "1.5", None, "true", None]

    def test_a_deletion_is_what_the_source_calls_so(self, reader):
        items = [{"id": no, "at": AT, "state": value} for no, value in enumerate(["gone", "here", None])]
        assert reader(deletedPath="$.state", deletedValue="gone").read(answer(*items)).deleted == [True, False, False]

    def test_without_a_value_anything_that_does_not_say_no_is_a_deletion(self, reader):
        values = [True, "2026-01-01", {"by": "x"}, 1, False, None, "", 0, "false", "no", [], {}]
        items = [{"id": no, "at": AT, "gone": value} for no, value in enumerate(values)]
        assert reader(deletedPath="$.gone").read(answer(*items)).deleted == [True] * 4 + [False] * 8


class TestMappedFields:
    FIELDS = (
        {"name": "doi", "expr": "$.id", "required": True},
        {"name": "title", "expr": "$.title[0]"},
        {"name": "authors", "expr": "$.author[*].name"},
        {"name": "issue", "expr": "$.journal.issue", "required": True},
    )

    def test_they_are_json_as_it_stands_in_the_item(self, reader):
        item = {"id": "a", "at": AT, "title": ["T"], "author": [{"name": "x"}, {"name": "y"}], "journal": {"issue": 4}}
        page = reader(fields=self.FIELDS).read(answer(item))
        assert json.loads(page.fields[0]) == {"doi": "a", "title": "T", "authors": ["x", "y"], "issue": 4}

    @pytest.mark.parametrize("fields", [FIELDS, FIELDS[:2] + FIELDS[3:]], ids=["any path", "simple paths"])
    def test_what_is_not_there_is_left_out_unless_it_is_required(self, reader, fields):
        page = reader(fields=fields).read(
            answer(
                {"id": "a", "at": AT, "journal": {"issue": "1"}},
                {"id": "b", "at": AT, "journal": {"issue": None}},
                {"id": "c", "at": AT, "journal": None},
                {"id": "d", "at": AT},
            )
        )
        assert page.fields == [b'{"doi":"a","issue":"1"}']
        assert kinds(page) == [(no, FaultKind.FIELD_MISSING) for no in (1, 2, 3)]
        assert [fault.provider_id for fault in page.faults] == ["b", "c", "d"]

    def test_a_deleted_item_need_not_have_them(self, reader):
        page = reader(fields=self.FIELDS, deletedPath="$.gone").read(answer({"id": "a", "at": AT, "gone": True}))
        assert page.fields == [b'{"doi":"a"}']

    def test_numbers_that_cannot_be_stored_are_a_fault_and_large_ones_are_not(self, reader):
        fields = ({"name": "n", "expr": "$.n"},)
        numbers = [b"1e400", b"9" * 300, b"1e999999", b"9" * 5000, b'["1e999999"]', b"[1e999999]"]
        items = b",".join(b'{"id":%d,"at":"2026","n":%s}' % (no, number) for no, number in enumerate(numbers))
        page = reader(fields=fields).read(b'{"items":[%s]}' % items)
        assert page.ids == ["0", "1", "4"]
        assert kinds(page) == [(no, FaultKind.NOT_READABLE) for no in (2, 3, 5)]

    def test_many_long_numbers_are_looked_at_once_each(self, reader):
        numbers = b",".join([b"1" * 3_999] * 4_000)  # took a minute when each digit began a search of its own
        body = b'{"items":[{"id":"a","at":"2026-01-01","n":[%s]}]}' % numbers
        assert reader(fields=[{"name": "n", "expr": "$.n"}]).read(body).ids == ["a"]


class TestCharactersThatCannotBeStored:
    def test_an_item_with_a_nul_is_a_fault_and_an_escaped_backslash_is_none(self, reader):
        page = reader().read(
            b'{"items":[{"id":"a","at":"2026","t":"x\\u0000"},{"id":"b","at":"2026","t":"x\\\\u0000"},'
            b'{"id":"c","at":"2026","t":"\\\\\\u0000"}]}'
        )
        assert page.ids == ["b"]
        assert [(fault.item_no, fault.kind, fault.provider_id) for fault in page.faults] == [
            (0, FaultKind.NOT_READABLE, "a"),
            (2, FaultKind.NOT_READABLE, "c"),
        ]

    def test_an_item_with_half_a_surrogate_pair_is_a_fault(self, reader):
        good = b'{"id":"b","at":"2026","t":"\\ud83d\\ude00 \\\\ud800"}'
        page = reader().read(
            b'{"items":[{"id":"a","at":"2026","t":"x\\ud800 y"},%s,{"id":"c","at":"2026","t":"\\udc00"}]}' % good
        )
        assert page.ids == ["b"]
        assert page.bodies == [good]
        assert kinds(page) == [(0, FaultKind.NOT_READABLE), (2, FaultKind.NOT_READABLE)]

    def test_an_item_that_is_not_utf8_is_a_fault(self, reader):
        page = reader().read(b'{"items":[{"id":"a","at":"2026","t":"\xe9"},{"id":"b","at":"2026","t":"\xc3\xa9"}]}')
        assert page.ids == ["b"]
        assert kinds(page) == [(0, FaultKind.NOT_READABLE)]


class TestIdsThatWereAskedFor:
    def test_those_that_are_not_mentioned_are_faults_after_the_items(self, reader):
        page = reader().read(answer({"id": "a", "at": AT}, {"id": "b", "at": "?"}), asked=["a", "b", "c", "d", "c"])
        assert [(fault.item_no, fault.kind, fault.provider_id) for fault in page.faults] == [
            (1, FaultKind.BAD_UPDATED_AT, "b"),
            (2, FaultKind.NO_DETAIL, "c"),
            (3, FaultKind.NO_DETAIL, "d"),
        ]

    def test_samples_of_faults_are_short(self, reader):
        (fault,) = reader().read(answer({"at": AT, "text": "x" * 5000})).faults
        assert len(fault.sample) == 1024
