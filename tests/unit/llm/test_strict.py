"""Schemas in the strict subset: whatever is sent as strict is strict, and the way back loses nothing."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tests.standins.openai_like import not_strict

from penstock.llm.strict import strict_form, without_padding, wrapped
from penstock.llm.verdicts import Target

CALM = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
NAMES = st.sampled_from(["a", "b", "c", "d"])
LEAVES = st.sampled_from(
    [{"type": "string", "minLength": 1}, {"type": "number"}, {"type": ["integer", "null"]}, {"enum": ["x", "y"]}]
)


def nodes(inner):
    properties = st.dictionaries(NAMES, inner, min_size=1, max_size=3)
    objects = properties.flatmap(
        lambda fields: st.lists(st.sampled_from(sorted(fields)), unique=True).map(
            lambda required: {"type": "object", "properties": fields, "required": required}
        )
    )
    return objects | inner.map(lambda items: {"type": "array", "items": items})


SCHEMAS = st.recursive(LEAVES, nodes, max_leaves=8)


def example(schema, *, is_padded):
    """A value that fits: without what may be absent, or, padded, with null in its place."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema["type"]
    if kind == "array":
        return [example(schema["items"], is_padded=is_padded)]
    if kind == "object":
        padding = {name: None for name in schema["properties"] if name not in schema["required"] and is_padded}
        return padding | {name: example(schema["properties"][name], is_padded=is_padded) for name in schema["required"]}
    return {"string": "s", "number": 1.5}.get(kind if isinstance(kind, str) else "", 7)


class TestConverting:
    @CALM
    @given(SCHEMAS)
    def test_what_is_converted_is_strict_and_takes_what_the_schema_takes(self, schema):
        outer = {"type": "object", "properties": {"value": schema}, "required": ["value"]}
        form = strict_form(outer)
        assert form is not None
        assert not_strict(form) is None
        Draft202012Validator.check_schema(form)
        padded = {"value": example(schema, is_padded=True)}
        assert Draft202012Validator(form).is_valid(padded)

    @pytest.mark.parametrize(
        "schema",
        [
            {"type": "object"},
            {"type": "object", "properties": {}},
            {"type": "object", "properties": {"a": {}}},
            {"type": "object", "properties": {"a": True}},
            {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True},
            {"type": "object", "additionalProperties": {"type": "number"}},
            {"type": "object", "properties": {"a": {"type": "array"}}},
            {"type": "object", "properties": {"a": {"$ref": "https://elsewhere.example/schema"}}},
            {"type": "object", "properties": {"a": {"type": "string"}}, "if": {}},
            {"type": "array", "items": {"type": "string"}},
        ],
    )
    def test_what_says_more_is_left_alone(self, schema):
        assert strict_form(schema) is None

    def test_definitions_come_along(self):
        line = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        schema = {
            "type": "object",
            "properties": {
                "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
                "best": {"$ref": "#/$defs/line"},
            },
            "required": ["lines"],
            "$defs": {"line": line},
        }
        form = strict_form(schema)
        assert form["$defs"]["line"]["additionalProperties"] is False
        assert form["properties"]["best"] == {"anyOf": [{"$ref": "#/$defs/line"}, {"type": "null"}]}


class TestTheWayBack:
    @CALM
    @given(SCHEMAS)
    def test_nulls_that_stand_for_absent_are_left_out_and_no_others(self, schema):
        validator = Draft202012Validator(schema)
        padded = example(schema, is_padded=True)
        trimmed = without_padding(padded, schema, schema)
        assert validator.is_valid(trimmed)
        assert without_padding(trimmed, schema, schema) == trimmed

    def test_a_null_that_is_allowed_is_a_value(self):
        schema = {"type": "object", "properties": {"a": {"type": ["string", "null"]}, "b": {"type": "string"}}}
        found = without_padding({"a": None, "b": None, "c": None}, schema, schema)
        assert found == {"a": None, "c": None}

    def test_choices_and_references_are_followed(self):
        line = {"type": "object", "properties": {"n": {"type": "integer"}, "m": {"type": "integer"}}, "required": ["n"]}
        schema = {
            "anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/l"}}],
            "$defs": {"l": line},
        }
        assert without_padding([{"n": 1, "m": None}], schema, schema) == [{"n": 1}]

    def test_branches_are_told_apart_by_their_names_and_constants(self):
        def branch(kind, field):
            fields = {"kind": {"const": kind}, "n": {"type": ["integer", "null"]}, field: {"type": "string"}}
            return {"type": "object", "properties": fields, "required": ["kind"]}

        schema = {"oneOf": [branch("a", "x"), branch("b", "x"), branch("b", "y")]}
        assert without_padding({"kind": "b", "n": None, "y": None}, schema, schema) == {"kind": "b", "n": None}
        assert without_padding({"kind": "b", "n": None, "x": "1"}, schema, schema) == {"kind": "b", "n": None, "x": "1"}

    def test_a_schema_that_runs_in_circles_ends(self):
        schema = {
            "$ref": "#/$defs/a",
            "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/b"}},
        }
        assert without_padding({"x": None}, schema, schema) == {"x": None}


class TestWrapping:
    def test_definitions_stay_at_the_root(self):
        schema = {"type": "array", "items": {"$ref": "#/$defs/x"}, "$defs": {"x": {"type": "integer"}}}
        outer = wrapped(schema)
        assert outer["$defs"] == schema["$defs"]
        assert Draft202012Validator(outer).is_valid({"value": [1]})
        assert not Draft202012Validator(outer).is_valid({"value": ["1"]})

    def test_a_value_of_a_schemas_own_is_not_unpacked(self):
        target = Target({"type": "object", "properties": {"value": {"type": "integer"}}, "required": ["value"]})
        assert target.verdict('{"value": 3}').value == {"value": 3}
