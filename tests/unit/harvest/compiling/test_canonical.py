"""Equal values are written in one way, in every process and by every Python."""

import json
import math
import os
import shutil
import subprocess
import sys
from datetime import datetime
from enum import StrEnum
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.unit.harvest.compiling.canonical_vectors import VECTORS, WHOLE

from penstock.harvest.compiling.canonical import canonical_bytes, fingerprint, namespace_key

SOURCES = Path(__file__).parents[4] / "src"
PROGRAM = Path(__file__).with_name("canonical_vectors.py")

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)


def shuffled(value, order):
    if isinstance(value, dict):
        keys = list(value)
        order.shuffle(keys)
        return {key: shuffled(value[key], order) for key in keys}
    return [shuffled(each, order) for each in value] if isinstance(value, list) else value


def vectors_by(python: str, seed: str) -> dict:
    told = subprocess.run(
        [python, str(PROGRAM), str(SOURCES)],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        check=True,
        timeout=60,
    )
    return json.loads(told.stdout)


class TestWriting:
    @pytest.mark.parametrize(("value", "written"), VECTORS, ids=lambda value: repr(value)[:30])
    def test_a_value_is_written_as_it_always_was(self, value, written):
        assert canonical_bytes(value) == written.encode()

    def test_the_hash_of_all_of_them_is_what_it_always_was(self):
        assert fingerprint([value for value, _ in VECTORS]) == WHOLE

    def test_names_of_an_enumeration_are_written_as_their_text(self):
        kind = StrEnum("kind", {"A": "a"})
        assert canonical_bytes({kind.A: kind.A}) == b'{"a":"a"}'

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "\ud800", "a\x00", datetime(2026, 1, 1)])  # noqa: DTZ001
    def test_what_cannot_be_compared_or_stored_is_refused(self, value):
        with pytest.raises(ValueError, match=r"number|surrogate|stored|zone"):
            canonical_bytes([value])

    @pytest.mark.parametrize("value", [{1, 2}, b"bytes", {1: "a"}, object()])
    def test_what_has_no_one_order_or_form_is_refused(self, value):
        with pytest.raises(TypeError):
            canonical_bytes(value)


class TestEqualValues:
    @given(values, st.randoms(use_true_random=False))
    def test_the_order_of_keys_does_not_count(self, value, order):
        assert fingerprint(shuffled(value, order)) == fingerprint(value)

    @given(values)
    def test_reading_json_back_changes_nothing(self, value):
        assert canonical_bytes(json.loads(canonical_bytes(value))) == canonical_bytes(value)

    @given(values, values)
    def test_different_values_are_written_differently(self, one, other):
        assume(one != other)
        assert fingerprint(one) != fingerprint(other)

    @given(st.integers(-(2**53), 2**53))
    def test_a_whole_number_is_the_same_as_a_float(self, number):
        assert canonical_bytes(float(number)) == canonical_bytes(number)


class TestOtherProcesses:
    @pytest.mark.parametrize("seed", ["0", "1", "4242"])
    def test_a_process_with_another_hash_seed_writes_the_same(self, seed):
        assert vectors_by(sys.executable, seed) == {"written": [written for _, written in VECTORS], "whole": WHOLE}

    @pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
    def test_another_python_writes_the_same(self, version):
        python = shutil.which(f"python{version}")
        if python is None or subprocess.run([python, "-V"], capture_output=True, check=False).returncode:
            pytest.skip(f"no Python {version} here; the fixed vectors above stand for it")
        assert vectors_by(python, "random") == {"written": [written for _, written in VECTORS], "whole": WHOLE}


class TestNamespaces:
    class Asked:
        def __init__(self, **params: str) -> None:
            self.endpoint_name, self.params = "works", params

    def test_without_parameters_it_is_the_endpoint(self):
        assert namespace_key(self.Asked()) == "works"

    def test_the_order_of_parameters_does_not_count_but_their_values_do(self):
        assert (
            namespace_key(self.Asked(b="2", a="1"))
            == 'works?{"a":"1","b":"2"}'
            == namespace_key(self.Asked(a="1", b="2"))
        )
        assert namespace_key(self.Asked(a="1", b="3")) != namespace_key(self.Asked(a="1", b="2"))
