"""Templates with CEL in them: what they give, what they refuse."""

from datetime import UTC, datetime

import pytest

from penstock.harvest.expressions import Template, check_template
from penstock.harvest.spec import Expr
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

CONTEXT = {
    "now": datetime(2026, 5, 5, 6, 7, 8, tzinfo=UTC),
    "window": {"from": datetime(2026, 1, 2, tzinfo=UTC), "to": datetime(2026, 1, 3, 4, 5, 6, tzinfo=UTC)},
    "page": {"no": 1, "offset": 0, "size": 50, "token": None, "url": None},
    "ids": ["11", "12"],
    "param": {"q": "a b/c", "json": '{"a": {"b": [3]}}'},
}


def rendered(text, **expr):
    return Template.parse(text, expr=Expr(**expr)).render(CONTEXT)


def refusal(text, **expr):
    with pytest.raises(PenstockError) as caught:
        rendered(text, **expr)
    assert caught.value.code is error_codes.EXPRESSION_FAILED
    assert caught.value.__cause__ is None
    return caught.value.details["reason"]


class TestRendering:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("plain", "plain"),
            ("", ""),
            ("p=${page.no}&s=${page.size}", "p=1&s=50"),
            ("${window.from}", "2026-01-02T00:00:00Z"),
            ('${formatDateTime(window.to, "%Y/%m/%d")}', "2026/01/03"),
            ('${formatDateTime(window.to - duration("6s"), "%H:%M:%S")}', "04:05:00"),
            ('${coalesce(page.token, "*")}', "*"),
            ('${concat("a", page.token, page.no)}', "a1"),
            ('${join(ids, "|")}', "11|12"),
            ("${ids}", "11,12"),
            ("${urlEncode(param.q)}", "a%20b%2Fc"),
            ('${jsonPath(param.json, "$.a.b[0]")}', "3"),
            ('${formatDateTime(now(), "%d.%m.")}', "05.05."),
            ('${size(ids) > 1 ? "many" : "one"}', "many"),
            ("${string(page.size * 2)}", "100"),
            ("$${page.no} costs $5", "${page.no} costs $5"),
            ("${'}'}", "}"),
            ('${{"a": "x"}.a}', "x"),
            ('[${has(param.nope) ? param.nope : "none"}]', "[none]"),
        ],
    )
    def test_a_template_gives_text(self, text, expected):
        assert rendered(text) == expected

    def test_a_single_expression_keeps_its_type_for_json(self):
        assert Template.parse("${ids}").value(CONTEXT) == ["11", "12"]
        assert Template.parse("${page.size}").value(CONTEXT) == 50
        assert Template.parse("n${page.size}").value(CONTEXT) == "n50"
        assert Template.parse("${window.from}").value(CONTEXT) == "2026-01-02T00:00:00Z"

    def test_a_template_is_parsed_once(self):
        assert Template.parse("${page.no}") is Template.parse("${page.no}")

    def test_the_same_context_can_be_used_again(self):
        before = {name: dict(value) if isinstance(value, dict) else value for name, value in CONTEXT.items()}
        rendered("${param.nope}${param.none}")
        assert before == CONTEXT


class TestNull:
    def test_a_template_that_is_one_null_is_null(self):
        assert rendered("${page.token}") is None
        assert rendered("${param.nope}") is None

    def test_null_inside_a_text_is_empty(self):
        assert rendered("a${page.token}b") == "ab"

    def test_null_inside_a_text_fails_where_the_source_wants_that(self):
        assert "page.token" in refusal("a${page.token}b", null_policy="fail")


class TestRefusing:
    @pytest.mark.parametrize(
        ("text", "word"),
        [
            ("${", "closing"),
            ("${page.no", "closing"),
            ("${1 +}", "Syntax"),
            ("${}", "Syntax"),
            ("${os.environ}", "unknown name os"),
            ("${plan.id}", "unknown name plan; known are window, page, ids, param"),
            ("${slice.bounds}", "unknown name slice"),
            ("${window.until}", "unknown name window.until"),
            ("${page.number}", "unknown name page.number"),
            ('${open("x")}', "open"),
            ('${"abc".reverse()}', "reverse"),
            ("${ids.map(i, i + i)}", "map"),
            ("${ids.map(page, ids.map(page, page))}", "map"),
            ("${ids. // hidden\n map(page, page)}", "comments"),
            ("${ids.exists(ids, true)}", "exists"),
            ("${ids.existsOne(page, true)}", "existsOne"),
            ('${size(\n// """\n[1].map(v, 1)\n// """\n)}', "comments"),
            ("${size([1].\fmap(page, 1))}", "character"),
            ('${r"\\" + ids.map(page, "x")[0] + "\\""}', "map"),
            ('${"""a" + ids.map(page, "x")[0] + "b"""}', "triple quotes"),
            ("${b'abc'}", "bytes"),
            ("${br'\\' + 'a'}", "bytes"),
            ('${param.q.matches("a")}', "matches"),
            ("${page{no: 1}.no}", "unknown name no"),
            ("${" + "page.no + " * 51 + "1}", "at most 50"),
            ("${" + "(" * 500 + "1" + ")" * 500 + "}", ""),
            ("${" + "1 + " * 2000 + "1}", "characters"),
            ("x" * 10_000, "characters"),
        ],
    )
    def test_a_bad_template_is_told_before_use_and_at_use(self, text, word):
        assert word in check_template(text)
        assert word in refusal(text)

    @pytest.mark.parametrize(
        "text",
        [
            "${1 / 0}",
            "${ids[9]}",
            "${9223372036854775807 + 1}",
            '${formatDateTime("yesterday", "%Y")}',
            "${formatDateTime(1, 2)}",
            "${formatDateTime()}",
            '${jsonPath(param.json, "$[")}',
            '${jsonPath(param.q, "$.a")}',
            "${join(1)}",
            "${window}",
            '${"a" + 1}',
            '${jsonPath(param.json, "$..b")}',
            '${jsonPath(param.json, "$.a[*]")}',
        ],
    )
    def test_a_failure_at_use_has_a_reason_and_prints_nothing(self, text, capfd):
        assert check_template(text) is None
        assert refusal(text)
        assert capfd.readouterr() == ("", "")

    def test_only_allowed_functions_may_be_called(self):
        assert check_template("${now()}", ["coalesce"]) == "the function now is not allowed; allowed are coalesce"
        assert check_template("${size(ids) == 2 && string(1) == '1'}", []) is None

    def test_a_function_that_does_not_exist_cannot_be_allowed(self):
        assert check_template("${system('ls')}", ["system"]) == "the function system is not allowed; allowed are none"

    def test_replacing_is_there_for_sources_that_ask_for_it(self):
        text = '(SRC:${replace(replace(join(ids, "|"), "1", "x"), "|", ") OR (")})'
        assert "replace" in check_template(text)
        assert Template.parse(text, ["join", "replace"]).render(CONTEXT) == "(SRC:xx) OR (x2)"
        grow = '${replace(replace(replace(param.q, "a", param.q), "a", param.q), "a", param.q)}'
        with pytest.raises(PenstockError) as caught:
            Template.parse(grow, ["replace"]).render(CONTEXT | {"param": {"q": "a" * 5_000}})
        assert "at most" in caught.value.details["reason"]

    def test_a_result_beyond_all_measure_is_refused(self):
        context = CONTEXT | {"param": {"q": "a" * 600_000}}
        with pytest.raises(PenstockError) as caught:
            Template.parse("${param.q}${param.q}").render(context)
        assert "longer" in caught.value.details["reason"]
