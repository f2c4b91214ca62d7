"""Each file breaks one rule; its head says with which words it is refused."""

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

import pytest
from tests.support.source_files import WrittenSource

from penstock.harvest.compiling.compile import compile_spec
from penstock.harvest.compiling.problems import Terms
from penstock.harvest.compiling.rules import RULES
from penstock.harvest.spec import Operation
from penstock.kernel.errors import PenstockError

FILES = sorted((Path(__file__).parent / "failing").glob("*.yaml"))


def said_at_the_top(path: Path, word: str) -> list[str]:
    return re.findall(rf"^# {word}: (.+)$", path.read_text(), re.MULTILINE)


def refused(path: Path) -> list[dict]:
    operation = Operation(next(iter(said_at_the_top(path, "operation")), "HARVEST"))
    run = json.loads(next(iter(said_at_the_top(path, "run")), "{}"))
    with pytest.raises(PenstockError) as failure:
        compile_spec(WrittenSource.read(path), "works", operation, run)
    assert failure.value.code.code == "SPEC_INVALID"
    return failure.value.details["problems"]


class TestNineRules:
    @pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
    def test_a_file_that_breaks_a_rule_is_refused_in_these_words(self, path: Path):
        problems = refused(path)
        assert [problem["message_en"] for problem in problems] == said_at_the_top(path, "expect")
        assert {problem["number"] for problem in problems} == {int(path.name[:2])}

    @pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
    def test_the_words_name_the_place_the_key_and_the_rule_in_both_languages(self, path: Path):
        for problem in refused(path):
            assert path.name in problem["origin"] or problem["origin"] == "this run"
            for message in (problem["message_zh"], problem["message_en"]):
                assert message.startswith(problem["origin"])
                assert problem["key"] in message
                assert problem["rule"] in message
            assert re.search(r"[\u4e00-\u9fff]", problem["message_zh"])

    def test_no_rule_is_without_a_file(self):
        assert [rule.number for rule in RULES] == list(range(1, 10))
        assert {int(path.name[:2]) for path in FILES} == {rule.number for rule in RULES}
        assert len({rule.name for rule in RULES}) == 9

    def test_a_file_that_only_lacks_its_fault_compiles(self, demo):
        """So that each of the files fails for what it shows and for nothing else."""
        assert compile_spec(demo(), "works", Operation.HARVEST).spec.endpoint_name == "works"


class TestCollecting:
    def test_all_problems_come_at_once(self, demo):
        source = demo(
            works={
                "http": {"baseUrl": "http://api.example.org"},
                "pagination": {"type": "PAGE", "pageSize": "x"},
                "window": {"watermarkKey": None},
                "rateLimit": {"qps": 9, "providerQps": 1},
            }
        )
        with pytest.raises(PenstockError) as failure:
            compile_spec(source, "works", Operation.HARVEST)
        found = {(problem["number"], problem["key"]) for problem in failure.value.details["problems"]}
        assert {
            (2, "pagination.pageSize"),
            (2, "pagination.base1"),
            (3, "window.watermarkKey"),
            (6, "rateLimit.qps"),
            (9, "http.baseUrl"),
        } <= found

    def test_a_value_of_the_wrong_kind_is_not_complained_of_twice(self, demo):
        with pytest.raises(PenstockError) as failure:
            compile_spec(demo(works={"pagination": {"type": "CURSOR"}}), "works", Operation.HARVEST)
        assert [problem["key"] for problem in failure.value.details["problems"]] == ["pagination.type"]

    @pytest.mark.parametrize(
        "section", [{"http": None}, {"http": 5}, {"pagination": []}, {"params": "x"}, {"http": {"queryTemplate": None}}]
    )
    def test_a_section_that_is_none_is_refused_and_not_a_crash(self, demo, section):
        with pytest.raises(PenstockError) as failure:
            compile_spec(demo(works=section), "works", Operation.HARVEST)
        assert failure.value.code.code == "SPEC_INVALID"

    def test_a_place_inside_a_list_is_named_and_its_origin_is_the_list(self, demo):
        source = demo(works={"mapping": {"outputFields": [{"name": "a", "expr": "$.a"}, {"name": "b"}]}})
        with pytest.raises(PenstockError) as failure:
            compile_spec(source, "works", Operation.HARVEST)
        (problem,) = failure.value.details["problems"]
        assert (problem["key"], problem["origin"]) == ("mapping.outputFields.1.expr", "demo.yaml endpoints.works")

    @pytest.mark.parametrize("key", ["safetyLag", "overlap"])
    def test_a_run_cannot_make_a_lag_negative(self, demo, key):
        with pytest.raises(PenstockError) as failure:
            compile_spec(demo(), "works", Operation.HARVEST, {"window": {key: timedelta(minutes=-5)}})
        assert [problem["key"] for problem in failure.value.details["problems"]] == [f"window.{key}"]


class TestDictionaries:
    CODES: ClassVar = {
        "http_method": {"GET"},
        "reg_auth_type": {"NONE"},
        "reg_endpoint_role": {"SEARCH"},
        "reg_pagination_type": {"OFFSET"},
        "ing_cursor_type": {"TIME"},
        "ing_namespace_scope": {"EXPR"},
        "ing_operation": {"HARVEST"},
    }

    def test_codes_that_the_dictionaries_know_pass(self, demo):
        terms = Terms({kind: frozenset(codes) for kind, codes in self.CODES.items()})
        assert compile_spec(demo(), "works", Operation.HARVEST, {}, terms)

    @pytest.mark.parametrize("kind", sorted(CODES))
    def test_a_code_that_is_in_no_dictionary_is_refused(self, demo, kind):
        terms = Terms({other: frozenset(codes if other != kind else ()) for other, codes in self.CODES.items()})
        with pytest.raises(PenstockError) as failure:
            compile_spec(demo(), "works", Operation.HARVEST, {}, terms)
        (problem,) = failure.value.details["problems"]
        assert problem["number"] == 7
        assert kind in problem["message_en"]


class TestTemplates:
    def test_whoever_can_read_templates_is_asked_with_the_allowed_functions(self, demo):
        asked = []

        def strict(text, allowed):
            asked.append((text, tuple(allowed)))
            return "no" if "window" in text else None

        source = demo(works={"expr": {"allowedFunctions": ["now"]}})
        with pytest.raises(PenstockError) as failure:
            compile_spec(source, "works", Operation.HARVEST, {}, Terms(check_template=strict))
        assert [problem["key"] for problem in failure.value.details["problems"]] == ["http.queryTemplate.since"]
        assert ("${page.size}", ("now",)) in asked

    @pytest.mark.parametrize("text", ["${'}'}", "${{'a': 1}.a}", 'a${1}b${"}"}', "$ {", "}", "${'it\\'s }'}"])
    def test_braces_in_text_and_maps_do_not_end_an_expression(self, demo, text):
        source = demo(works={"http": {"queryTemplate": {"q": text}}})
        assert compile_spec(source, "works", Operation.HARVEST)
