"""What PostgreSQL gives back hashes as what it was given."""

import json

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.source_files import WrittenSource

from penstock.harvest.compiling.canonical import canonical_bytes, fingerprint
from penstock.harvest.compiling.compile import compile_spec
from penstock.harvest.spec import Operation, Spec

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def through_jsonb(postgres):
    with psycopg.connect(postgres.url, autocommit=True) as connection:

        def through(value):
            (stored,) = connection.execute("select %s::jsonb", (json.dumps(value),)).fetchone()
            return stored

        yield through


class TestStoredValues:
    @settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
    @given(values)
    def test_a_value_comes_back_with_the_same_hash(self, through_jsonb, value):
        assert canonical_bytes(through_jsonb(value)) == canonical_bytes(value)

    @pytest.mark.parametrize("number", [1.0, 1e21, 1.5e300, 1e300, 5e-324, -0.0, 2**53 + 1, 10**40, 0.1 + 0.2, 1e-7])
    def test_numbers_at_the_edges_too(self, through_jsonb, number):
        assert fingerprint(through_jsonb({"n": number})) == fingerprint({"n": number})


class TestStoredSnapshots:
    def test_a_snapshot_comes_back_with_its_fingerprint_and_as_the_same_spec(self, through_jsonb):
        source = WrittenSource(
            {
                "source": "demo",
                "endpoints": {
                    "works": {
                        "http": {
                            "baseUrl": "https://api.example.org",
                            "queryTemplate": {"zz": "${page.offset}", "a": "${window.from}", "é": "蜜蜂"},
                        },
                        "pagination": {"type": "OFFSET"},
                        "window": {
                            "supportsUpdatedSince": True,
                            "watermarkKey": "updated_at",
                            "earliest": "2001-02-03T04:05:06.7Z",
                            "safetyLag": "90m",
                        },
                        "rateLimit": {"qps": 3.0, "burst": 2},
                        "response": {"itemsPath": "$.items", "idPath": ["$.a", "$.b"], "updatedAtPath": "$.updated"},
                    }
                },
            }
        )
        compiled = compile_spec(source, "works", Operation.HARVEST)
        stored = through_jsonb(compiled.snapshot)
        assert fingerprint(stored) == compiled.spec_fingerprint
        assert Spec.read(stored) == compiled.spec
        assert Spec.read(stored).snapshot() == compiled.snapshot
