"""Schemas that users wrote cost what their steps cost, and no more than the budget."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel.plain_schema import is_plain
from penstock.kernel.schema_parts import subschemas
from penstock.kernel.schemas import DRAFTS, errors_of, meta_errors_of
from penstock.kernel.step_budget import TooCostly, allow, spend, spending_on, step_budget, steps_left

MANY = 3_000


class TestCounting:
    def test_steps_beyond_the_budget_are_refused_with_the_part_that_took_them(self):
        with step_budget(10):
            with spending_on("/a"):
                spend(10)
            with pytest.raises(TooCostly) as refusal, spending_on("/b"):
                spend()
        assert refusal.value.part == "/b"

    def test_a_budget_within_a_budget_is_the_same(self):
        with step_budget(10), step_budget(1_000):
            spend(4)
            allow(2)
            assert steps_left() == 8

    def test_where_no_budget_is_open_nothing_is_counted(self):
        spend(10**9)


class TestSchemasThatMultiply:
    @pytest.mark.parametrize(
        ("schema", "value"),
        [
            ({"items": {"allOf": [{}] * 1_000}}, [1] * MANY),
            ({"items": {f"x-{n}": 1 for n in range(2_000)}}, [1] * MANY),
            ({"items": {"dependentRequired": {"a": [f"k{n}" for n in range(2_000)]}}}, [{"b": 1, "a": 1}] * 900),
            ({"items": {"required": ["a"] * 2_000}}, [{"a": 1}] * 900),
            ({"items": {"properties": {f"k{n}": True for n in range(1_000)}}}, [{}] * MANY),
            ({"anyOf": [{"type": "string"}] * 1_000}, [1] * MANY),
            ({"allOf": [{"const": 1}] * 1_000}, [1] * MANY),
            ({"unevaluatedItems": False}, [1] * MANY),
            ({"allOf": [{"format": "uri"}] * 1_000}, "a:" + "b" * 6_000),
            ({"allOf": [{"pattern": "x"}] * 1_000}, "b" * 6_000),
        ],
        ids=lambda each: str(each)[:40] if isinstance(each, dict) else "",
    )  # fmt: skip
    def test_what_is_looked_at_too_often_is_refused_in_little_time(self, schema, value):
        begun = time.thread_time()
        with pytest.raises(TooCostly), step_budget(50_000):
            errors_of(schema, value, limit=10**9)
        assert time.thread_time() - begun < 3

    @pytest.mark.parametrize(
        ("schema", "value"),
        [
            ({"items": {"enum": [2] * 10_000 + [1]}}, [1] * MANY),
            ({"uniqueItems": True}, [{"n": n} for n in range(MANY)]),
            ({"items": {"type": "object", "properties": {f"c{n}": {"type": "number"} for n in range(10)},
                        "required": ["c1"]}}, [{f"c{n}": n for n in range(10)}] * 5_000),
        ],
        ids=["a long enum", "unique elements", "many rows"],
    )  # fmt: skip
    def test_what_is_long_and_no_more_is_checked(self, schema, value):
        assert errors_of(schema, value) == []

    @pytest.mark.parametrize("draft", ["http://json-schema.org/draft-04/schema#", *DRAFTS])
    def test_a_part_that_names_a_draft_of_its_own_gets_no_other_engine(self, draft):
        """The plain validators of the library match with backtracking: this would take a day."""
        schema = {"properties": {"a": {"$schema": draft, "pattern": "^(a+)+$"}}}
        assert [each["path"] for each in errors_of(schema, {"a": "a" * 60 + "!"})] == ["/a"]

    def test_anchors_are_found_without_a_walk_for_each(self):
        parts = {f"p{n}": {"$anchor": f"a{n}", "type": "string"} for n in range(500)}
        schema = {"$defs": parts, "items": {"$ref": "#a499"}}
        assert [each["path"] for each in errors_of(schema, [*["x"] * 500, 3])] == ["/500"]

    def test_names_that_are_missing_are_named_one_by_one(self):
        found = errors_of({"required": ["a", "ab", "a b"]}, {"ab": 1})
        assert [each["path"] for each in found] == ["/a", "/a b"]


_words = st.sampled_from(["a", "string", "object", "#/$defs/a", "", "^a"])
_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats(0, 2) | _words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words, inner, max_size=3),
    max_leaves=6,
)
_keywords = st.sampled_from([
    "type", "items", "properties", "required", "allOf", "enum", "minLength", "multipleOf", "$defs", "not", "title",
    "uniqueItems", "dependentRequired", "prefixItems", "$id", "$ref", "if", "maximum", "examples", "deprecated",
])  # fmt: skip
_schemas = st.recursive(
    st.dictionaries(_keywords, _values, max_size=3),
    lambda inner: (
        st.fixed_dictionaries({"properties": st.dictionaries(_words, inner, max_size=2)})
        | st.fixed_dictionaries({"allOf": st.lists(inner, max_size=2)})
    ),
    max_leaves=4,
)


class TestPlainSchemas:
    @settings(max_examples=120, deadline=None)
    @given(_schemas)
    def test_what_is_plain_is_right_by_both_drafts(self, schema):
        if all(is_plain(part) for _, part in subschemas(schema)):
            for draft in DRAFTS.values():
                assert list(draft(draft.META_SCHEMA).iter_errors(schema)) == []

    @settings(max_examples=120, deadline=None)
    @given(_schemas)
    def test_part_by_part_the_draft_says_what_it_says_of_the_whole(self, schema):
        draft = DRAFTS["https://json-schema.org/draft/2020-12/schema"]
        assert bool(meta_errors_of(schema)) == bool(list(draft(draft.META_SCHEMA).iter_errors(schema)))
