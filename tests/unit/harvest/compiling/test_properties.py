"""What holds for all sources: who wins, what is written, and what changes which hash."""

import copy
import random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.harvest.compiling.canonical import fingerprint
from penstock.harvest.compiling.compile import compile_spec
from penstock.harvest.compiling.merge import STRENGTH, Level, merge
from penstock.harvest.spec import Operation, Spec

letters = st.text("abcé蜜 -_:/?&=", max_size=6)
durations = st.sampled_from(["90s", "5m", "PT10M", "1h", "PT60M", "2h"])
names = st.text("abxyz", min_size=1, max_size=3)
templates = st.dictionaries(names, st.none() | letters, max_size=3)

# Settings that may be said at any level beside each other. The first group says how fast and how often, and nothing
# of what is asked for; the second changes requests or the reading of answers.
HOW_FAST: dict[str, st.SearchStrategy[Any]] = {
    "rateLimit.qps": st.sampled_from([0.5, 1, 1.0, 3, 3.5]),
    "rateLimit.burst": st.integers(1, 9),
    "rateLimit.quotaDaily": st.none() | st.integers(1, 10**6),
    "retry.maxAttempts": st.integers(1, 20),
    "retry.retryableStatus": st.lists(st.sampled_from([429, 500, 503]), max_size=3),
    "http.readTimeout": st.sampled_from(["10s", "PT1M"]),
    "http.connectTimeout": st.sampled_from(["5s", "PT9S"]),
    "planning.cMax": st.integers(1, 9),
    "planning.maxDuration": durations,
    "planning.priorities": st.dictionaries(st.sampled_from(["HARVEST", "UPDATE"]), st.integers(1, 9), max_size=2),
    "window.safetyLag": durations,
    "mapping.sink": st.booleans(),
    "count": st.none() | st.builds(lambda template: {"queryTemplate": template}, templates),
}
WHAT: dict[str, st.SearchStrategy[Any]] = {
    "http.queryTemplate": templates,
    "http.headersTemplate": templates,
    "http.pathTemplate": letters,
    "pagination.pageSize": st.integers(1, 100),
    "pagination.hasMorePath": st.sampled_from(["$.more", "$['more']", None]),
    "response.totalPath": st.sampled_from(["$.total", "$.n", None]),
    "response.idPath": st.sampled_from(["$.id", ["$.a", "$.b"]]),
    "expr.nullPolicy": st.sampled_from(["omit", "empty", "fail"]),
    "params": st.dictionaries(names, letters, max_size=2),
    "mapping.outputFields": st.lists(
        st.fixed_dictionaries({"name": names, "expr": st.just("$.a")}), max_size=2, unique_by=lambda each: each["name"]
    ),
}


def nested(flat: dict[str, Any]) -> dict[str, Any]:
    sections: dict[str, Any] = {}
    for key, value in flat.items():
        section, _, rest = key.partition(".")
        if rest:
            sections.setdefault(section, {})[rest] = copy.deepcopy(value)
        else:
            sections[section] = copy.deepcopy(value)
    return sections


def of(settings_of: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=settings_of).map(nested)


anything = of({**HOW_FAST, **WHAT})
levels = st.lists(
    st.builds(lambda name, said: Level(name, f"{name}!", said), st.sampled_from(STRENGTH[1:]), anything), max_size=5
)
quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def leaves(value: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        return {key: leaf for name, inner in value.items() for key, leaf in leaves(inner, f"{prefix}.{name}").items()}
    return {prefix.removeprefix("."): value}


def shuffled(value: Any, order: random.Random) -> Any:
    if isinstance(value, dict):
        keys = list(value)
        order.shuffle(keys)
        return {key: shuffled(value[key], order) for key in keys}
    return value


class TestMerging:
    @quick
    @given(levels)
    def test_there_is_one_origin_for_each_leaf_and_none_besides(self, said):
        merged = merge(said)
        assert {key: origin.value for key, origin in merged.origins.items()} == leaves(merged.sections)

    @quick
    @given(levels)
    def test_the_origin_of_a_leaf_is_the_strongest_level_that_says_it(self, said):
        by_strength = sorted(said, key=lambda level: STRENGTH.index(level.name))
        for key, origin in merge(said).origins.items():
            speaking = [level for level in by_strength if key in leaves(level.sections)]
            if origin.level == "platform":
                # a later null for the whole group or its coming anew may have taken the word of weaker levels away
                assert all(key.startswith("count") for _ in speaking)
            else:
                assert speaking[-1].name == origin.level
                assert leaves(speaking[-1].sections)[key] == origin.value

    @quick
    @given(levels, st.randoms(use_true_random=False))
    def test_weaker_levels_may_be_laid_first_or_in_any_order_between_names(self, said, order):
        one_each = list({level.name: level for level in said}.values())
        mixed = one_each.copy()
        order.shuffle(mixed)
        assert merge(mixed) == merge(one_each)

    @quick
    @given(levels)
    def test_merging_changes_nothing_that_it_was_given(self, said):
        before = copy.deepcopy(said)
        merge(said)
        assert said == before

    @quick
    @given(levels)
    def test_laying_the_result_over_itself_changes_nothing(self, said):
        whole = merge(said).sections
        again = merge([Level("source", "again", whole)])
        assert again.sections == whole


class TestCompiling:
    @quick
    @given(anything, anything, st.randoms(use_true_random=False))
    def test_the_order_of_keys_changes_no_hash(self, demo, works, run, order):
        one = compile_spec(demo(works), "works", Operation.HARVEST, run)
        source = demo(works)
        other = compile_spec(
            type(source)(shuffled(source.document, order)), "works", Operation.HARVEST, shuffled(run, order)
        )
        assert (one.spec_fingerprint, one.expr_proto_hash) == (other.spec_fingerprint, other.expr_proto_hash)

    @quick
    @given(anything, anything)
    def test_a_snapshot_is_read_back_as_the_same_spec(self, demo, works, run):
        compiled = compile_spec(demo(works), "works", Operation.HARVEST, run)
        assert Spec.read(compiled.snapshot) == compiled.spec
        assert Spec.read(compiled.snapshot).snapshot() == compiled.snapshot

    @quick
    @given(anything, anything)
    def test_every_leaf_of_the_snapshot_has_its_origin_and_the_snapshots_value(self, demo, defaults, run):
        compiled = compile_spec(demo(defaults=defaults), "works", Operation.HARVEST, run)
        outside = ("provenanceCode", "endpointName", "role", "operation", "registryVersion", "allowsPrivate", "detail",
                   "detailEndpoint")  # fmt: skip
        inside = {key: value for key, value in compiled.snapshot.items() if key not in outside}
        assert {key: origin.value for key, origin in compiled.origins.items()} == leaves(inside)

    @quick
    @given(anything, anything)
    def test_the_fingerprint_changes_if_and_only_if_the_snapshot_does(self, demo, one, other):
        first, second = (compile_spec(demo(), "works", Operation.HARVEST, run) for run in (one, other))
        assert (first.spec_fingerprint == second.spec_fingerprint) == (first.snapshot == second.snapshot)
        assert first.spec_fingerprint == fingerprint(first.snapshot)

    @quick
    @given(anything, of(HOW_FAST))
    def test_how_fast_does_not_change_what_is_asked(self, demo, works, run):
        slow, fast = (compile_spec(demo(works), "works", Operation.HARVEST, said) for said in ({}, run))
        assert slow.expr_proto_hash == fast.expr_proto_hash

    @quick
    @given(anything, of(WHAT))
    def test_anything_else_that_differs_changes_what_is_asked(self, demo, works, run):
        before, after = (compile_spec(demo(works), "works", Operation.HARVEST, said) for said in ({}, run))
        assert (before.expr_proto_hash == after.expr_proto_hash) == (before.snapshot == after.snapshot)
