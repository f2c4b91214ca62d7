"""Results of chunks become one: nothing lost, nothing twice."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.extraction.merging import merge
from penstock.kernel.schemas import canonical

ROWS = {
    "type": "object",
    "properties": {
        "number": {"type": "string"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
    },
    "$defs": {"line": {"type": "object", "properties": {"item_code": {"type": "string"}, "name": {}, "qty": {}}}},
}

values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "A", "b"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "name", "x"]), inner, max_size=3)
    ),
    max_leaves=10,
)
loose_rows = st.dictionaries(st.sampled_from(["id", "a", "b"]), st.integers(0, 2) | st.none() | st.just(""), max_size=3)
codes = st.lists(st.integers(0, 99).map(lambda n: f"C{n}"), unique=True, max_size=12)


@st.composite
def wholes(draw):
    lines = [{"item_code": code, "name": f"n{code}", "qty": draw(st.integers(0, 5))} for code in draw(codes)]
    return {"number": "INV-1", "lines": lines}


@st.composite
def overlapping_parts(draw, whole):
    """Consecutive stretches of the rows, some beginning with the end of the one before; together all of them."""
    lines = whole["lines"]
    ends = sorted(draw(st.lists(st.integers(0, len(lines)), max_size=5)))
    again = draw(st.integers(0, 2))
    return [
        {"number": None if start else "INV-1", "lines": lines[max(0, start - again) : end]}
        for start, end in pairwise([0, *ends, len(lines)])
    ]


def merged(*parts, schema=ROWS):
    return merge(schema, parts).data


class TestProperties:
    @given(values)
    def test_one_part_stays_as_it_is(self, value):
        assert canonical(merged(value)) == canonical(value)

    @given(values)
    def test_the_same_part_twice_is_that_part(self, value):
        assert canonical(merged(value, value)) == canonical(value)
        assert merge({}, [value] * 3).conflicts == []

    @given(st.data())
    @settings(max_examples=150)
    def test_a_whole_that_was_split_is_the_whole_again(self, data):
        whole = data.draw(wholes())
        parts = data.draw(overlapping_parts(whole))
        outcome = merge(ROWS, parts)
        assert outcome.data == whole
        assert outcome.conflicts == []

    @given(st.data())
    @settings(max_examples=150)
    def test_it_does_not_matter_in_which_groups_the_parts_are_merged(self, data):
        whole = data.draw(wholes())
        parts = data.draw(overlapping_parts(whole))
        middle = data.draw(st.integers(0, len(parts)))
        groups = [merged(*group) for group in (parts[:middle], parts[middle:]) if group]
        assert merged(*groups) == merged(*parts)

    @given(st.data())
    @settings(max_examples=150)
    def test_rows_seen_by_halves_are_joined(self, data):
        whole = data.draw(wholes())
        halves = []
        for line in whole["lines"]:
            names = data.draw(st.sets(st.sampled_from(["name", "qty"])))
            one = {key: value for key, value in line.items() if key not in names}
            other = {key: (value if key in names or key == "item_code" else None) for key, value in line.items()}
            halves.append((one, other))
        first = {"number": "INV-1", "lines": [one for one, _ in halves]}
        second = {"number": None, "lines": [other for _, other in halves]}
        assert merged(first, second) == whole

    @given(st.lists(st.lists(loose_rows, max_size=4), max_size=4))
    @settings(max_examples=300)
    def test_nothing_that_any_part_says_is_lost(self, parts):
        """Keys are guessed, rows contradict each other at will: each row is found whole in one of the merged ones."""
        outcome = merged(*parts, schema={"type": "array"}) if parts else []
        for row in (row for part in parts for row in part):
            said = {key: value for key, value in row.items() if value not in (None, "")}
            assert any(all(each.get(key) == value for key, value in said.items()) for each in outcome), (row, outcome)

    @given(st.lists(st.lists(st.integers(0, 4), max_size=5), min_size=1, max_size=4))
    def test_a_value_is_there_as_often_as_the_part_that_has_it_most(self, parts):
        outcome = merged(*parts, schema={"type": "array"}) or []
        for value in range(5):
            assert outcome.count(value) == max(part.count(value) for part in parts)


class TestObjects:
    def test_what_one_part_lacks_another_gives(self):
        assert merged({"a": None, "b": {"c": ""}}, {"b": {"c": "x", "d": 1}, "a": 2}) == {
            "a": 2,
            "b": {"c": "x", "d": 1},
        }

    def test_of_different_answers_the_first_is_kept_and_the_others_told(self):
        outcome = merge({}, [{"a": {"b": 1}}, {"a": {"b": 2}}])
        assert outcome.data == {"a": {"b": 1}}
        assert outcome.conflicts == [{"path": "/a/b", "kept": 1, "others": [2]}]

    def test_of_many_answers_the_most_frequent_is_kept(self):
        assert merged({"a": 1}, {"a": 2}, {"a": 2.0}) == {"a": 2}

    def test_what_nobody_knows_stays_unknown(self):
        assert merged({"a": None}, {"a": None}) == {"a": None}
        assert merged({"a": ""}, {"a": None}) == {"a": ""}
        assert merged({"a": []}, {"a": []}) == {"a": []}

    def test_things_of_different_kinds_are_a_conflict(self):
        outcome = merge({}, [{"a": [1]}, {"a": "x"}])
        assert (outcome.data, outcome.conflicts[0]["path"]) == ({"a": [1]}, "/a")


class TestLists:
    def test_order_is_that_of_the_document(self):
        assert merged(["b", "a"], ["a", "c"], schema={}) == ["b", "a", "c"]

    def test_rows_with_one_code_that_contradict_each_other_both_stay(self):
        rows = [{"sku": "A", "qty": 1}], [{"sku": "A", "qty": 2}]
        assert merged(*rows, schema={}) == [{"sku": "A", "qty": 1}, {"sku": "A", "qty": 2}]

    def test_a_declared_key_is_believed(self):
        schema = {"type": "array", "x-key": ["sku", "size"], "items": {"type": "object"}}
        one, other = [{"sku": "A", "size": "L", "qty": 1}], [{"sku": "a", "size": "L", "qty": 2, "z": 3}]
        outcome = merge(schema, [one, other])
        assert outcome.data == [{"sku": "A", "size": "L", "qty": 1, "z": 3}]
        assert {each["path"] for each in outcome.conflicts} == {"/0/sku", "/0/qty"}

    def test_a_row_without_its_key_is_compared_as_a_whole(self):
        assert merged([{"sku": None, "qty": 1}], [{"sku": "A", "qty": 1}], [{"sku": None, "qty": 1}], schema={}) == [
            {"sku": None, "qty": 1}, {"sku": "A", "qty": 1},
        ]  # fmt: skip

    def test_a_row_that_stands_twice_in_a_part_stays_twice(self):
        assert merged([{"name": "x"}, {"name": "x"}], [{"name": "x"}], schema={}) == [{"name": "x"}, {"name": "x"}]

    def test_lists_within_rows_are_joined(self):
        one, other = [{"id": 1, "tags": ["a", "b"]}], [{"id": 1, "tags": ["b", "c"]}]
        assert merged(one, other, schema={}) == [{"id": 1, "tags": ["a", "b", "c"]}]

    def test_the_clearest_name_is_the_key(self):
        rows = [{"line_no": 1, "id": "x", "a": 1}], [{"line_no": 2, "id": "x", "b": 2}]
        assert len(merged(*rows, schema={})) == 2
        rows = [{"zip_code": "1", "id": "x", "a": 1}], [{"zip_code": "1", "id": "y", "b": 2}]
        assert len(merged(*rows, schema={})) == 2

    def test_many_rows_take_little_time(self):
        rows = [{"code": f"C{n}", "name": "x"} for n in range(20_000)]
        assert merged(rows[:12_000], rows[8_000:], schema={}) == rows
