"""The reader of expressions against CEL's own: what the engine runs, the reader has seen, and what it allows ends."""

import contextlib
import re
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.harvest import cel, cel_tokens
from penstock.harvest.expressions import LONGEST_EXPRESSION, Template, check_template
from penstock.harvest.functions import FUNCTIONS
from penstock.kernel.errors import PenstockError

_SECONDS = 1.0  # measured: under 0.1; a busy machine takes its time
_TRICKS = [
    '"', "'", '"""', "'''", "\\", '\\"', "//", "\n", "\r", "\f", " ", "r", "R", "b", "br", "B", "`", "${", "}", "{",
    "(", ")", "[", "]", ",", ".", "+", "1", "1.", "0x", "u", "e", "a", "?", ":", '"a"', "'b'", 'r"\\"', "map",
    ".map(zz, zz)", "[1].map(zz, 1)", "ids", "page.no", "size(", "has(", "/*", "*/", "#", "\u00a0", "\u2028", "é",
    "\\u0022", "\\x22", "\\042", "in", "&&", "||", "==",
]  # fmt: skip


class TestSameReading:
    @settings(max_examples=300, deadline=None)
    @given(st.lists(st.sampled_from(_TRICKS), max_size=14).map("".join))
    def test_what_the_engine_takes_for_code_is_code_for_the_reader(self, code):
        try:
            tokens, end = cel_tokens.read(code + "}", 0)
            program = cel.compile(code[:end])
        except (cel_tokens.Unfit, ValueError):
            return
        ours = {token.text for token in tokens if token.kind == "name"}
        assert {name.lstrip(".") for name in program.variables()} <= ours  # .a is a, looked up from the root
        assert {name for name in program.functions() if re.fullmatch(r"[A-Za-z]\w*", name)} <= ours

    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.sampled_from(_TRICKS), max_size=6).map("".join), st.lists(st.sampled_from(_TRICKS)).map("".join))
    def test_a_loop_is_refused_whatever_stands_around_it(self, before, after):
        code = f"{before}[1, 2].map(zz, zz){after}"
        try:
            program = cel.compile(code)
        except ValueError:
            return
        if "zz" in program.variables():
            assert check_template(f"${{{code}}}") is not None


def _often(part: str, times: int, between: str = " + ") -> str:
    return between.join([part] * min(times, LONGEST_EXPRESSION // (len(part) + len(between))))


_WORST = {  # each at its limits: expression, parameters, number of ids
    "one text, read often": (_often("param.q", 50), {"q": "a" * 20_000}, 0),
    "a list, read once": ("ids", {}, 8_700),
    "a list, read often": (_often("ids", 50), {}, 170),
    "a text that grows": (_often('replace(param.q,"a",param.q)', 16), {"q": "a" * 700}, 0),
    "much that is encoded": (_often("urlEncode(param.q)", 7), {"q": "\u3000" * 131_000}, 0),
    "JSON that is read often": (_often('jsonPath(param.q,"$[0]")', 15), {"q": "[" + "1," * 30_000 + "1]"}, 0),
    "texts searched": (
        _often("param.q.contains(param.p)", 16, " || "),
        {"q": "a" * 20_000, "p": "a" * 10_000 + "b"},
        0,
    ),
}


def _context(params: dict, ids: int) -> dict:
    page = {"token": "\u3000" * 1_000, "no": 1}
    return {"now": datetime(2026, 1, 1, tzinfo=UTC), "param": params, "ids": ["é" * 20] * ids, "page": page}


class TestBounds:
    @pytest.mark.parametrize("name", _WORST)
    def test_the_worst_that_is_allowed_ends_soon(self, name):
        code, params, ids = _WORST[name]
        assert check_template(f"${{{code}}}", [*FUNCTIONS]) is None
        assert _seconds(code, _context(params, ids)) < _SECONDS

    @settings(max_examples=60, deadline=None)
    @given(st.data())
    def test_whatever_is_allowed_ends_soon(self, data):
        leaf = st.sampled_from(["param.q", "param.p", "param.j", "ids", "page.token", "page.no", "'a'", '"$[0]"', "1"])
        code = data.draw(
            st.recursive(
                leaf,
                lambda inner: (
                    st.tuples(inner, st.sampled_from(["+", "==", "in", "&&", "<", "?"]), inner).map(_binary)
                    | st.tuples(st.sampled_from(sorted(FUNCTIONS)), st.lists(inner, max_size=3)).map(_call)
                    | st.lists(inner, max_size=4).map(lambda each: f"[{', '.join(each)}]")
                ),
                max_leaves=60,
            )
        )
        size = data.draw(st.sampled_from([10, 1_000, 6_000, 300_000]))
        params = {"q": "a" * size, "p": "a" * size + "b", "j": "[" + "1," * (size // 4) + "1]"}
        assert _seconds(code, _context(params, size // 100)) < _SECONDS


def _binary(parts: tuple[str, str, str]) -> str:
    left, sign, right = parts
    return f"({left} == {right} ? {left} : {right})" if sign == "?" else f"({left} {sign} {right})"


def _call(parts: tuple[str, list[str]]) -> str:
    return f"{parts[0]}({', '.join(parts[1])})"


def _seconds(code: str, context: dict) -> float:
    began = time.process_time()
    with contextlib.suppress(PenstockError):
        Template.parse(f"${{{code}}}", [*FUNCTIONS]).render(context)
    return time.process_time() - began
