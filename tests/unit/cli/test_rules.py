"""`penstock rules`: kept by name, versioned by change, each merchant its own."""

import io
import json
import sys
from pathlib import Path

import pytest
import yaml

RULE = """\
name: parcel
postprocess_mode: rules
json_schema:
  type: object
  required: [weight]
  properties:
    weight: {type: number}
    sender: {type: string}
"""


@pytest.fixture
def kept(database_url, monkeypatch) -> None:
    monkeypatch.setenv("PENSTOCK_DATABASE_URL", database_url)
    Path("parcel.yaml").write_text(RULE)


def listed(run, *more: str) -> list[dict]:
    code, out, error = run("rules", "--json", *more)
    assert code == 0, error
    return json.loads(out)


@pytest.mark.usefixtures("kept")
class TestKeeping:
    def test_a_file_is_a_new_rule_then_nothing_then_a_new_version(self, run):
        assert "is new" in run("rules", "apply", "parcel.yaml")[1]
        assert "says this already" in run("rules", "apply", "parcel.yaml")[1]
        Path("parcel.yaml").write_text(RULE.replace("required: [weight]", "required: [weight, sender]"))
        assert "is now at version 2" in run("rules", "apply", "parcel.yaml")[1]
        built_in, mine = listed(run)
        assert (built_in["rule_id"], built_in["is_system"]) == (1, True)
        assert (mine["name"], mine["version"], mine["json_schema"]["required"]) == ("parcel", 2, ["weight", "sender"])

    def test_under_another_name_it_is_another_rule(self, run):
        run("rules", "apply", "parcel.yaml")
        code, out, _ = run("rules", "apply", "parcel.yaml", "--name", "包裹", "--json")
        assert (code, json.loads(out)["name"], json.loads(out)["changed"]) == (0, "包裹", True)
        assert [each["name"] for each in listed(run)] == ["default", "parcel", "包裹"]
        assert "包裹" in run("rules")[1]

    def test_a_merchant_sees_its_own(self, run):
        run("rules", "apply", "parcel.yaml", "--merchant", "acme")
        assert [each["name"] for each in listed(run)] == ["default"]
        (_, mine) = listed(run, "--merchant", "acme")
        code, _, error = run("rules", "show", str(mine["rule_id"]))
        assert (code, "ETL_RULE_NOT_FOUND" in error) == (1, True)

    def test_what_show_prints_is_a_file_that_says_the_same(self, run):
        run("rules", "apply", "parcel.yaml")
        number = str(listed(run)[1]["rule_id"])
        shown = run("rules", "show", number)[1]
        assert yaml.safe_load(shown) == yaml.safe_load(RULE)
        Path("again.yaml").write_text(shown)
        assert "says this already" in run("rules", "apply", "again.yaml")[1]
        assert json.loads(run("rules", "show", number, "--json")[1])["version"] == 1

    def test_one_that_is_deleted_is_gone_and_its_name_free(self, run):
        run("rules", "apply", "parcel.yaml")
        (_, mine) = listed(run)
        assert "is removed" in run("rules", "delete", str(mine["rule_id"]))[1]
        assert [each["name"] for each in listed(run)] == ["default"]
        assert "is new" in run("rules", "apply", "parcel.yaml")[1]
        for number, code in ((mine["rule_id"], "ETL_RULE_NOT_FOUND"), (1, "ETL_RULE_BUILT_IN")):
            ended, _, error = run("rules", "delete", str(number))
            assert (ended, code in error) == (1, True)

    def test_a_number_can_be_tried(self, run):
        run("rules", "apply", "parcel.yaml")
        number = str(listed(run)[1]["rule_id"])
        assert json.loads(run("rules", "try", number, "--text", "Weight: 2.5")[1]) == {"weight": 2.5}

    def test_the_name_of_a_file_in_the_directory_of_rules_is_enough(self, run, monkeypatch):
        Path("shelf").mkdir()
        Path("parcel.yaml").rename("shelf/parcel.yaml")
        monkeypatch.setenv("ETL_RULES_DIR", "shelf")
        assert "is new" in run("rules", "apply", "parcel")[1]


class TestTrying:
    @pytest.fixture(autouse=True)
    def _file(self, tmp_path) -> None:
        Path("parcel.yaml").write_text(RULE)

    def test_it_needs_no_servers_and_says_how_on_request(self, run):
        code, out, error = run("rules", "try", "parcel.yaml", "--text", "Weight: 3\nSender: Ann", "--json")
        assert (code, error) == (0, "")
        made = json.loads(out)
        assert made["data"] == {"weight": 3, "sender": "Ann"}
        assert made["metadata"]["strategy"] == "rules"

    def test_what_is_wrong_is_said_in_the_terminals_language(self, run, monkeypatch):
        monkeypatch.setenv("LANG", "zh_CN.UTF-8")
        monkeypatch.setenv("COLUMNS", "300")
        Path("wrong.yaml").write_text(RULE + "colour: red\n")
        said = run("rules", "try", "wrong.yaml", "--text", "Weight: 3")[2]
        assert "规则无效（ETL_RULE_INVALID）：wrong.yaml:" in said
        assert "colour: 没有这个键；可用的键：" in said
        said = run("rules", "try", "parcel.yaml", "--text", "nothing")[2].strip()
        assert "（ETL_RESULT_INVALID）：/weight 缺失。" in said
        assert said.endswith("。")

    def test_a_text_may_come_from_a_pipe(self, run, monkeypatch):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\ufeffWeight: 4".encode())))
        assert json.loads(run("rules", "try", "parcel.yaml", "--file", "-")[1]) == {"weight": 4}

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ((), "Say either --text or --file"),
            (("--text", "x", "--file", "y"), "Say either --text or --file"),
            (("--text", "nothing of the kind"), "/weight is missing"),
            (("--text", "x" * 30_000), "ETL_TEXT_TOO_LONG"),
            (("--file", "missing.md"), "missing.md cannot be read"),
            (("--file", "picture.png"), "`penstock etl` reads PDFs and pictures"),
            (("--file", "pages.json"), "These pages cannot be read"),
        ],
    )
    def test_what_cannot_be_tried_is_refused(self, run, arguments, said):
        Path("picture.png").write_bytes(b"\x89PNG\r\n\x1a\n")
        Path("pages.json").write_text('[\n{"number":"one"}]')
        code, out, error = run("rules", "try", "parcel.yaml", *arguments)
        assert (code, out) == (1, "")
        assert said in " ".join(error.split())


class TestWithoutADatabase:
    @pytest.mark.parametrize("arguments", [(), ("show", "2"), ("apply", "parcel.yaml")])
    def test_it_is_said_what_to_do(self, run, arguments):
        Path("parcel.yaml").write_text(RULE)
        code, _, error = run("rules", *arguments)
        assert code == 1
        assert "start `penstock up`" in " ".join(error.split())
