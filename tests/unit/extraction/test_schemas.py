"""What a rule's schema may be, and how values are checked by it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.extraction.schemas import errors_of, problems_of
from penstock.kernel.schemas import canonical
from penstock.kernel.step_budget import TooCostly

INVOICE = {
    "type": "object",
    "properties": {
        "number": {"type": "string", "pattern": "^[A-Z]{2}[0-9]+$"},
        "date": {"type": "string", "format": "date"},
        "total": {"type": "number", "minimum": 0},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
    },
    "required": ["number", "total"],
    "additionalProperties": False,
    "$defs": {"line": {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}},
}
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def paths(found):
    return [each["path"] for each in found]


class TestSchemasOfRules:
    def test_an_ordinary_schema_has_no_problems(self):
        assert problems_of(INVOICE) == []

    @pytest.mark.parametrize("schema", [[], "object", 3, None, True])
    def test_a_schema_is_an_object(self, schema):
        assert paths(problems_of(schema)) == [""]

    def test_a_type_that_does_not_exist_is_named_by_its_path(self):
        found = problems_of({"properties": {"a": {"type": "strng"}, "b/c": {"minLength": -1}}})
        assert paths(found) == ["/properties/a/type", "/properties/b~1c/minLength"]

    def test_draft_7_is_read_as_draft_7(self):
        tuple_of_two = {"type": "array", "items": [{"type": "string"}, {"type": "number"}]}
        assert problems_of({"$schema": DRAFT_7, **tuple_of_two}) == []
        assert paths(problems_of(tuple_of_two)) == ["/items"]
        assert paths(errors_of({"$schema": DRAFT_7, **tuple_of_two}, ["a", "b"])) == ["/1"]

    def test_another_draft_is_refused(self):
        assert paths(problems_of({"$schema": "http://json-schema.org/draft-04/schema#"})) == ["/$schema"]

    @pytest.mark.parametrize(
        "reference", ["https://example.org/s.json", "file:///etc/passwd", "other.json#/x", "//host/x"]
    )
    def test_nothing_outside_is_referred_to(self, reference):
        found = problems_of({"properties": {"a": {"$ref": reference}}})
        assert paths(found) == ["/properties/a/$ref"]
        assert "into this schema" in found[0]["message"]

    def test_a_property_called_ref_is_a_property(self):
        assert problems_of({"properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}}}) == []
        assert problems_of({"properties": {"a": {"enum": [{"$ref": "https://example.org"}]}}}) == []

    def test_a_reference_to_nothing_is_named(self):
        assert paths(problems_of({"items": {"$ref": "#/$defs/line"}})) == ["/items/$ref"]

    def test_a_schema_within_a_schema_has_no_address_of_its_own(self):
        found = problems_of({"properties": {"a": {"$id": "https://example.org/x", "type": "string"}}})
        assert paths(found) == ["/properties/a/$id"]

    def test_a_reference_that_leads_back_to_itself_is_refused(self):
        loop = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}}
        assert "without end" in problems_of(loop)[0]["message"]
        assert "without end" in problems_of({"$ref": "#"})[0]["message"]

    def test_a_tree_may_refer_to_itself(self):
        tree = {"properties": {"children": {"type": "array", "items": {"$ref": "#"}}, "name": {"type": "string"}}}
        assert problems_of(tree) == []
        assert paths(errors_of(tree, {"children": [{"children": [{"name": 3}]}]})) == ["/children/0/children/0/name"]

    def test_references_that_double_at_each_step_are_refused(self):
        steps = {f"s{n}": {"allOf": [{"$ref": f"#/$defs/s{n + 1}"}] * 2} for n in range(40)}
        assert "too many" in problems_of({"$ref": "#/$defs/s0", "$defs": {**steps, "s40": {}}})[0]["message"]

    def test_what_is_too_deep_or_too_large_is_refused(self):
        deep = {"type": "string"}
        for _ in range(70):
            deep = {"items": deep}
        assert "nested" in problems_of(deep)[0]["message"]
        assert "larger" in problems_of({"enum": ["x" * 1000] * 300})[0]["message"]
        many = {"properties": {f"p{n}": {"properties": {f"q{m}": {} for m in range(100)}} for n in range(60)}}
        assert "subschemas" in problems_of(many)[0]["message"]

    def test_keys_of_elements_are_names(self):
        assert problems_of({"type": "array", "x-key": ["sku", "size"]}) == []
        assert paths(problems_of({"type": "array", "x-key": {"sku": 1}})) == ["/x-key"]

    @settings(max_examples=60, deadline=None)
    @given(st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=4),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
            st.sampled_from([
                             "type", "$ref", "items", "properties", "allOf", "pattern", "$id", "enum", "not", "x-key",
                             "$defs", "dependencies", "$schema", "required", "unevaluatedProperties",
            ]), inner, max_size=3),
        max_leaves=12,
    ))  # fmt: skip
    def test_whatever_is_given_problems_are_said_and_not_raised(self, schema):
        if problems_of(schema) == []:
            errors_of(schema, {"a": [1, "x", None]})


class TestPatterns:
    def test_a_pattern_that_explodes_elsewhere_takes_no_time_here(self):
        schema = {"type": "string", "pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}
        assert problems_of(schema) == []
        assert paths(errors_of(schema, "a" * 50_000)) == [""]

    @pytest.mark.parametrize("keyword", ["additionalProperties", "patternProperties"])
    def test_names_of_properties_are_matched_in_the_same_way(self, keyword):
        schema = {"patternProperties": {"^(a+)+$": {"type": "number"}}, "additionalProperties": False}
        value = {"a" * 5000 + "!": 1} if keyword == "additionalProperties" else {"aaa": "x"}
        assert paths(errors_of(schema, value)) == ["/" + next(iter(value))]

    @pytest.mark.parametrize("pattern", [r"(?=a)b", r"(a)\1", "(", r"(\w{1000}){1000}", "x" * 501])
    def test_what_the_engine_does_not_do_is_refused_by_name(self, pattern):
        assert paths(problems_of({"properties": {"a": {"pattern": pattern}}})) == ["/properties/a/pattern"]

    def test_too_many_are_refused(self):
        assert problems_of({"allOf": [{"pattern": f"a{n}"} for n in range(101)]}) != []

    def test_chinese_ranges_and_escapes_are_understood(self):
        schema = {"pattern": r"^[\u4e00-\u9fa5]+\/\d{4}$"}
        assert problems_of(schema) == []
        assert errors_of(schema, "发票/2024") == []


class TestErrorsOfValues:
    def test_a_value_that_fits_has_none(self):
        assert errors_of(INVOICE, {"number": "AB1", "date": "2024-02-29", "total": 1.5, "lines": [{"sku": "x"}]}) == []

    def test_each_has_its_pointer_and_a_sentence(self):
        value = {"number": "1", "date": "2023-02-29", "total": "3", "lines": [{"sku": "x"}, {}], "x/y": 1}
        assert {each["path"]: each["message"] for each in errors_of(INVOICE, value)} == {
            "/number": "does not match ^[A-Z]{2}[0-9]+$",
            "/date": "is not a valid date",
            "/total": "must be number, is string",
            "/lines/1/sku": "is missing",
            "/x~1y": "is not a property of this object",
        }

    def test_every_missing_property_is_named(self):
        assert paths(errors_of(INVOICE, {})) == ["/number", "/total"]

    @pytest.mark.parametrize(
        ("kind", "right", "wrong"),
        [
            ("date", "2024-01-31", ["2024-1-31", "20240131", "31.01.2024", "2024-13-01", "2024-W01-1"]),
            (
                "date-time",
                "2024-01-31T10:00:00.5+08:00",
                ["2024-01-31", "2024-01-31 10:00:00Z", "2024-01-31T25:00:00Z"],
            ),
            ("email", "a.b@example.org", ["a", "a@b", "a b@c.de", "@c.de", "a@.de"]),
            ("uri", "https://example.org/a?b", ["example.org", "/a", "http://a b", "", "http://[::1"]),
        ],
    )
    def test_formats_are_checked(self, kind, right, wrong):
        assert errors_of({"format": kind}, right) == []
        assert errors_of({"format": kind}, 3) == []
        assert [value for value in wrong if not errors_of({"format": kind}, value)] == []

    def test_alternatives_say_what_the_closest_lacks(self):
        schema = {"anyOf": [{"type": "null"}, {"properties": {"a": {"type": "number"}}, "type": "object"}]}
        (told,) = errors_of(schema, {"a": "x"})
        assert told["message"] == "fits none of the alternatives; of the closest: /a must be number, is string"
        assert told["message_zh"] == "不符合任何一个选项；最接近者：/a 必须是 number，实为 string"

    @pytest.mark.parametrize(
        ("schema", "value"),
        [
            ({"type": "number"}, "x"), ({"enum": [1]}, 2), ({"minimum": 3}, 1), ({"pattern": "^a"}, "b"),
            ({"uniqueItems": True}, [1, 1]), ({"additionalProperties": False}, {"a": 1}), ({"format": "date"}, "x"),
            ({"required": ["a"]}, {}), ({"oneOf": [{}, {}]}, 1), ({"maxItems": 0}, [1]),
        ],
    )  # fmt: skip
    def test_each_is_told_in_both_languages(self, schema, value):
        (told,) = errors_of(schema, value)
        assert told["message"].isascii()
        assert not told["message_zh"].isascii()

    def test_no_more_than_a_hundred_are_told(self):
        assert len(errors_of({"items": {"type": "number"}}, ["x"] * 500)) == 100

    def test_a_value_that_is_too_deep_is_said_to_be(self):
        value = []
        for _ in range(5000):
            value = [value]
        assert "nested" in errors_of({"type": "array"}, value)[0]["message"]

    def test_a_schema_that_multiplies_with_the_depth_of_the_value_ends(self):
        schema = {"properties": {"a": {"allOf": [{"$ref": "#"}] * 4}}}
        value = {}
        for _ in range(60):
            value = {"a": value}
        assert problems_of(schema) == []
        with pytest.raises(TooCostly):
            errors_of(schema, value)

    def test_elements_that_are_there_twice_are_found_among_many(self):
        rows = [{"n": n, "x": ["a"]} for n in range(20_000)]
        assert errors_of({"uniqueItems": True}, rows) == []
        assert errors_of({"uniqueItems": True}, [*rows, {"x": ["a"], "n": 77.0}]) != []
        assert errors_of({"uniqueItems": True}, [1, True, "1", {"1": 1}, [["1", 1]]]) == []

    def test_equal_values_have_one_text(self):
        assert canonical({"a": 1, "b": [2.0]}) == canonical({"b": [2], "a": 1.0})
        assert canonical({"a": 1}) != canonical([["a", 1]])
        assert canonical([]) != canonical({})
