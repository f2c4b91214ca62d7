"""The schema that editors use says what the reader does."""

import json
import re

import yaml
from jsonschema import Draft202012Validator
from tests.support.sources import WORKS

from penstock.harvest.registry.dictionaries import DICTIONARIES
from penstock.harvest.registry.schema import schema_text, source_schema
from penstock.harvest.spec import Sections


def refused(text: str) -> list[str]:
    values = json.loads(json.dumps(yaml.safe_load(text), default=str))
    return [error.json_path for error in Draft202012Validator(source_schema()).iter_errors(values)]


class TestSchema:
    def test_it_is_a_schema(self):
        Draft202012Validator.check_schema(json.loads(schema_text()))

    def test_it_takes_a_good_file(self):
        assert refused(WORKS) == []

    def test_it_refuses_what_the_reader_refuses(self):
        assert refused(WORKS.replace("pageSize: 1000", "pageSize: 0")) == ["$.endpoints.list.pagination.pageSize"]
        assert refused(WORKS.replace("safetyLag: 30m", "safetyLag: soon")) == ["$.endpoints.list.window.safetyLag"]
        assert refused(WORKS.replace("cMax", "cmax")) == ["$.endpoints.list.planning"]
        assert refused(WORKS.replace("source: works", "source: Works")) == ["$.source"]

    def test_every_section_is_in_it_with_what_it_means(self):
        made = source_schema()
        endpoint = made["$defs"]["Endpoint"]["properties"]
        assert {info.alias for info in Sections.model_fields.values()} <= set(endpoint)
        pagination = made["$defs"]["Pagination"]["properties"]
        assert pagination["maxPageSize"]["description"] == "The provider's limit"
        assert made["properties"]["source"]["description"]

    def test_nothing_in_a_group_must_be_there(self):
        made = source_schema()["$defs"]
        assert [name for name, group in made.items() if "required" in group] == [
            "CredentialEntry", "OutputField", "RequestParam", "Schedule",
        ]  # fmt: skip


class TestDictionaries:
    def test_they_have_every_code_that_a_file_may_have(self):
        codes = {each.code: [item.code for item in each.items] for each in DICTIONARIES}
        made = source_schema()["$defs"]
        for group, key, dictionary in (
            ("Http", "method", "http_method"), ("Auth", "type", "reg_auth_type"),
            ("RequestParam", "location", "reg_param_location"), ("Endpoint", "role", "reg_endpoint_role"),
            ("Response", "format", "reg_response_format"),
        ):  # fmt: skip
            assert made[group]["properties"][key]["enum"] == codes[dictionary]
        assert made["PageType"]["enum"] == codes["reg_pagination_type"]
        assert made["CursorType"]["enum"] == codes["ing_cursor_type"]
        assert made["Operation"]["enum"] == codes["ing_operation"]

    def test_each_code_has_names_in_both_languages_and_aliases_of_its_own(self):
        for dictionary in DICTIONARIES:
            aliases = [alias for item in dictionary.items for alias in item.aliases]
            assert len(aliases) == len(set(aliases))
            assert all(item.zh and item.en and re.fullmatch("[A-Z0-9_]+", item.code) for item in dictionary.items)
