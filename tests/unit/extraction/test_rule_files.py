"""Rules as files for the command line."""

from pathlib import Path

import pytest

from penstock.extraction.rules import load_rule
from penstock.kernel.errors import PenstockError

INVOICE = """\
name: invoice
description: 发票
json_schema:
  type: object
  properties:
    number: {type: string, title: 发票号码}
    total: {type: number}
  required: [number]
system_prompt: |
  Read the invoice.
"""


def written(tmp_path: Path, text: str, name: str = "invoice.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def problems(path: Path) -> list[tuple]:
    with pytest.raises(PenstockError) as failure:
        load_rule(path)
    assert failure.value.code.code == "ETL_RULE_INVALID"
    return [(each["line"], each["key"]) for each in failure.value.details["problems"]]


class TestReadingRuleFiles:
    def test_a_file_is_a_rule(self, tmp_path):
        rule = load_rule(written(tmp_path, INVOICE))
        assert (rule.name, rule.postprocess_mode, rule.rule_id) == ("invoice", "llm", 0)
        assert rule.json_schema["properties"]["number"]["title"] == "发票号码"

    def test_without_a_name_it_is_called_as_its_file(self, tmp_path):
        assert load_rule(written(tmp_path, "postprocess_mode: skip\n", "plain.yaml")).name == "plain"

    def test_json_is_read_too(self, tmp_path):
        assert load_rule(written(tmp_path, '{"postprocess_mode": "skip", "name": "j"}', "x.json")).name == "j"

    def test_each_problem_has_its_line_and_key(self, tmp_path):
        text = INVOICE.replace("{type: number}", "{type: numbr}").replace("[number]", "[number, 3]")
        assert problems(written(tmp_path, text)) == [
            (7, "json_schema.properties.total.type"), (8, "json_schema.required.1"),
        ]  # fmt: skip

    def test_an_example_that_does_not_fit_the_schema_is_named(self, tmp_path):
        text = INVOICE + "examples:\n  - text: No. A-7\n    result: {number: A-7, total: 1}\n"
        assert load_rule(written(tmp_path, text)).examples == [
            {"text": "No. A-7", "result": {"number": "A-7", "total": 1}}
        ]
        assert problems(written(tmp_path, text.replace("total: 1}", "total: x}"))) == [(13, "examples.0.result.total")]

    def test_a_key_that_does_not_exist_is_named(self, tmp_path):
        assert problems(written(tmp_path, INVOICE + "colour: red\n")) == [(11, "colour")]

    def test_what_is_no_rule_is_said_to_be_none(self, tmp_path):
        assert problems(written(tmp_path, "- a\n- b\n")) == [(1, "")]
        assert problems(written(tmp_path, "name: [a\n"))[0][0] == 2
        assert problems(written(tmp_path, "name: a\n")) == [(1, "json_schema")]
        assert problems(tmp_path / "absent.yaml") == [(1, "")]

    def test_a_schema_may_be_as_deep_as_schemas_may(self, tmp_path):
        deep = "type: string"
        for _ in range(14):
            deep = f"properties: {{a: {{{deep}}}}}"
        assert load_rule(written(tmp_path, f"json_schema: {{{deep}}}\n")).name == "invoice"
