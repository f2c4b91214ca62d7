"""A rule is tried on a short text."""

import pytest
from tests.support.rule_places import HERE
from tests.support.scripted_model import SUBJECT, DictMemo, ReadingModel, Text, Told

from penstock.extraction.markdown_page import page_of_markdown
from penstock.extraction.ports import Extract, Rule
from penstock.extraction.processors.by_rules import RulesProcessor
from penstock.extraction.processors.llm import LlmProcessor
from penstock.extraction.processors.skip import SkipProcessor
from penstock.extraction.settings import EtlSettings
from penstock.extraction.trying import Bench, try_rule
from penstock.kernel.errors import PenstockError
from penstock.pdf.pages.model import BlockKind

LINE = {
    "type": "object",
    "properties": {"code": {"type": "string"}, "name": {"type": "string"}, "qty": {"type": "integer"}},
}
SCHEMA = {"type": "object", "properties": {"number": {"type": "string"}, "lines": {"type": "array", "items": LINE}}}
TEXT = """\
<!-- page 1 -->
# Invoice INV-1

Number: INV-1

| Code | Name | Qty |
| :--- | --- | ---: |
| C1 | a \\| b | 3 |
"""


def rule(mode):
    return Rule(2, 1, "r", mode, SCHEMA)


async def refused(code, awaitable):
    with pytest.raises(PenstockError) as failure:
        await awaitable
    assert failure.value.code.code == code


class TestTrying:
    async def test_each_mode_is_tried_as_it_would_run(self):
        model = ReadingModel()
        processors = {
            each.name: each
            for each in (SkipProcessor(), RulesProcessor(HERE), LlmProcessor(model, HERE, EtlSettings()))
        }
        assert (await try_rule(rule("skip"), TEXT, Bench(processors, HERE))).data is None
        by_rules = await try_rule(rule("rules"), TEXT, Bench(processors, HERE))
        assert by_rules.data == {"number": "INV-1", "lines": [{"code": "C1", "name": "a | b", "qty": 3}]}
        assert by_rules.places == {}
        assert (await try_rule(rule("llm"), TEXT, Bench(processors, HERE), merchant_id="m9")).data["number"] == "INV-1"
        assert model.asked[0].merchant_id == "m9"

    async def test_nothing_is_remembered_of_a_trial(self):
        memo, model = DictMemo(), ReadingModel()
        processors = {"llm": LlmProcessor(model, HERE, EtlSettings(), lambda _subject: memo)}
        for _ in range(2):
            await try_rule(rule("llm"), TEXT, Bench(processors, HERE))
        assert memo.kept == {}
        assert [ask.subject_type for ask in model.asked] == ["etl_trial"] * 2

    async def test_a_long_text_is_refused(self):
        await refused("ETL_TEXT_TOO_LONG", try_rule(rule("skip"), "x" * 20_001, Bench({"skip": SkipProcessor()}, HERE)))

    async def test_a_mode_that_is_not_installed_is_named(self):
        await refused("ETL_PROVIDER_UNKNOWN", try_rule(rule("magic"), "x", Bench({"skip": SkipProcessor()}, HERE)))

    async def test_a_processor_of_somebody_else_is_checked(self):
        class Careless:
            name = "careless"

            async def process(self, rule, manuscript, subject, progress):
                return Extract({"number": 3})

        await refused("ETL_RESULT_INVALID", try_rule(rule("careless"), "x", Bench({"careless": Careless()}, HERE)))


class TestMarkdownWithoutPages:
    def test_headings_lists_tables_and_lines_are_told_apart(self):
        page = page_of_markdown(TEXT + "- one\n2. two\n\n**bold** words")
        assert [(block.kind, block.text) for block in page.blocks] == [
            (BlockKind.HEADING, "Invoice INV-1"),
            (BlockKind.PARAGRAPH, "Number: INV-1"),
            (BlockKind.TABLE, ""),
            (BlockKind.LIST_ITEM, "one"),
            (BlockKind.LIST_ITEM, "two"),
            (BlockKind.PARAGRAPH, "bold words"),
        ]
        assert (page.tables[0].rows, page.tables[0].columns) == (2, 3)

    async def test_the_mode_rules_reads_the_markdown_where_nobody_gave_pages(self):
        extract = await RulesProcessor(HERE).process(rule("rules"), Text(TEXT), SUBJECT, Told())
        assert extract.data["lines"] == [{"code": "C1", "name": "a | b", "qty": 3}]
        assert extract.places == {}
