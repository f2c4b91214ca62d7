"""The mode rules: a document is mapped to the schema without a model."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.page_drafts import PageDraft
from tests.support.rule_places import HERE
from tests.support.scripted_model import SUBJECT, Text, Told

from penstock.extraction.coercion import coerced
from penstock.extraction.field_map import LabelIndex, likeness, wanted_of, words
from penstock.extraction.ports import Rule
from penstock.extraction.processors.by_rules import RulesProcessor
from penstock.extraction.processors.skip import SkipProcessor
from penstock.extraction.rule_match import Findings, within
from penstock.kernel.errors import PenstockError

INVOICE = {
    "type": "object",
    "properties": {
        "invoice_no": {"type": "string", "title": "发票号码"},
        "issued": {"type": "string", "format": "date", "title": "开票日期"},
        "total": {"type": "number", "title": "合计"},
        "paid": {"type": ["boolean", "null"]},
        "buyer": {"type": "object", "properties": {"name": {"type": "string", "title": "购买方"}}},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
    },
    "required": ["invoice_no"],
    "$defs": {
        "line": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "title": "货物名称"},
                "qty": {"type": "integer", "title": "数量"},
                "unit_price": {"type": "number", "title": "单价"},
            },
            "required": ["name"],
        }
    },
}


def rule(schema=INVOICE, **options) -> Rule:
    return Rule(2, 1, "r", "rules", schema, options=options)


async def made(*drafts: PageDraft, schema=INVOICE, told=None, **options):
    text = Text("", [draft.page for draft in drafts])
    return await RulesProcessor(HERE).process(rule(schema, **options), text, SUBJECT, told or Told())


def only(**properties):
    return {"type": "object", "properties": properties}


async def value_of(schema, *lines, **options):
    draft = PageDraft()
    for line in lines:
        draft.line(*([line] if isinstance(line, str) else line))
    return (await made(draft, schema=only(v=schema), **options)).data.get("v")


class TestAnInvoice:
    async def test_labels_and_tables_become_the_schema_with_a_place_for_each_value(self):
        draft = (
            PageDraft(2)
            .heading("增值税发票")
            .line("发票号码：0012345", "开票日期：2024年1月31日")
            .line("购买方：", "上海某某公司")
            .table(
                [
                    ("货物名称", "数量", "单价"),
                    ("钢笔", "1,200", "￥3.50"),
                    ("墨水", "5 瓶", "12"),
                    ("合计", "", "¥4,260.00"),
                ]
            )
            .line("Paid: yes")
        )
        extract = await made(draft)
        assert extract.data == {
            "invoice_no": "0012345",
            "issued": "2024-01-31",
            "total": 4260,
            "paid": True,
            "buyer": {"name": "上海某某公司"},
            "lines": [{"name": "钢笔", "qty": 1200, "unit_price": 3.5}, {"name": "墨水", "qty": 5, "unit_price": 12}],
        }
        assert extract.places["/issued"][0].text == "开票日期：2024年1月31日"
        assert extract.places["/lines/1/qty"][0].spans == ("s13",)
        assert {place.page for places in extract.places.values() for place in places} == {2}
        assert len(extract.places) == 11

    async def test_the_same_in_english_by_names_alone(self):
        draft = (
            PageDraft()
            .line("Invoice No.: INV-7")
            .line("Invoice #", "ignored")
            .line("Total: USD 1,234.50")
            .table([("Name", "Qty", "Unit Price"), ("Pen", "2", "$1.25")])
        )
        data = (await made(draft)).data
        assert (data["invoice_no"], data["total"]) == ("INV-7", 1234.5)
        assert data["lines"] == [{"name": "Pen", "qty": 2, "unit_price": 1.25}]

    async def test_what_is_required_and_not_there_is_named(self):
        with pytest.raises(PenstockError) as failure:
            await made(PageDraft().line("Total: 5"))
        assert failure.value.code.code == "ETL_RESULT_INVALID"
        assert failure.value.details["errors"] == [
            {"path": "/invoice_no", "message": "is missing", "message_zh": "缺失"}
        ]

    async def test_progress_counts_the_pages(self):
        told = Told()
        await made(PageDraft(1).line("Invoice No: 1"), PageDraft(2), told=told)
        assert told.steps == [(2, 2)]

    async def test_a_long_document_is_looked_at_in_parts_as_if_it_were_in_one(self):
        rows = [[(f"Pen {page}-{n}", str(n), "1.5") for n in range(3)] for page in range(150)]
        pages = [PageDraft(page + 1).line(f"Seite: {page}").table(rows[page]) for page in range(150)]
        pages[0] = PageDraft(1).line("Total:  7").table([("Name", "Qty", "Unit Price"), *rows[0]])
        pages[149].line("Invoice No: LAST", "发票号码：0012345").line("Total: 12345678901234567890123.5")
        told = Told()
        extract = await made(*pages, told=told)
        assert told.steps == [(64, 150), (128, 150), (150, 150)]
        findings = Findings(wanted_of(INVOICE, {}))
        for page in pages:
            findings.look_at(page.page)
        assert (extract.data, extract.places) == findings.result()
        assert len(extract.data["lines"]) == 450
        assert extract.data["invoice_no"] == "LAST"


class TestLabels:
    @pytest.mark.parametrize(
        "lines",
        [
            ["Due Date: 2024-01-31"],
            ["due date ： 31 Jan 2024"],
            [["Due date", "2024/1/31"]],
            [["Due date:", "2024-01-31"]],
            ["Due date:", "2024-01-31"],
            ["Ref: 7 Due date: 2024-01-31 Time: 10:30"],
            ["dueDate: 2024-01-31"],
            ["Due Dat: 2024-01-31"],
            [["Ref", "x", "Due Date: 2024-01-31."]],
        ],
    )
    async def test_a_value_stands_after_beside_or_under_its_label(self, lines):
        schema = only(due_date={"type": "string", "format": "date"})
        draft = PageDraft()
        for line in lines:
            draft.line(*([line] if isinstance(line, str) else line))
        assert (await made(draft, schema=schema)).data == {"due_date": "2024-01-31"}

    async def test_a_heading_is_the_label_of_what_is_under_it(self):
        draft = PageDraft().heading("Summary").line("One line.").line("Another.").heading("Else").line("Other")
        data = (await made(draft, schema=only(summary={"type": "string"}))).data
        assert data == {"summary": "One line. Another."}

    async def test_a_cell_is_the_label_of_the_one_beside_it(self):
        draft = PageDraft().table([("Weight", "3.5 kg"), ("Colour", "red")], header_rows=0)
        data = (await made(draft, schema=only(colour={"type": "string"}, weight={"type": "number"}))).data
        assert data == {"colour": "red", "weight": 3.5}

    async def test_a_label_is_not_the_value_of_another(self):
        schema = only(name={"type": "string"}, colour={"type": "string"})
        assert (await made(PageDraft().line("Name", "Colour"), schema=schema)).data == {}

    async def test_a_label_with_a_colon_is_believed_more_than_one_without(self):
        assert await value_of({"type": "string"}, ["V", "maybe"], "V: surely") == "surely"

    async def test_of_equals_the_first_is_taken(self):
        assert await value_of({"type": "integer"}, "V: 1", "V: 2") == 1

    async def test_other_labels_are_given_by_the_rule(self):
        fields = {"/v": {"label": ["Gross weight", "毛重"]}}
        assert await value_of({"type": "number"}, "毛重：１２．５ kg", fields=fields) == 12.5

    async def test_the_form_of_a_value_is_given_by_the_rule(self):
        fields = {"/v": {"regex": "[A-Z]{2}-[0-9]+"}}
        assert await value_of({"type": "string"}, "please quote AB-123, always", fields=fields) == "AB-123"
        assert await value_of({"type": "string"}, "CD-1", "V: no. AB-123/7", fields=fields) == "AB-123"

    async def test_which_of_day_and_month_is_first_is_given_by_the_rule(self):
        schema = {"type": "string", "format": "date"}
        assert await value_of(schema, "V: 3/4/2024") is None
        assert await value_of(schema, "V: 3/4/2024", fields={"/v": {"order": "mdy"}}) == "2024-03-04"

    def test_short_words_are_not_taken_for_each_other(self):
        assert likeness(words("No"), words("Number")) == 1
        assert likeness("qty", "city") == 0
        assert likeness(words("invoiceNumber"), words("Invoice No.")) == 1
        assert likeness(words("Ship date"), words("Due date")) == 0

    @settings(max_examples=50, deadline=None)
    @given(st.text(alphabet="ab: ：/\t12", max_size=40))
    async def test_whatever_a_line_says_it_is_read(self, text):
        await value_of({"type": "string"}, text or "x")


class TestTables:
    ROWS = only(rows={"type": "array", "items": only(code={"type": "string"}, qty={"type": "integer"})})

    async def rows(self, *drafts, **options):
        return (await made(*drafts, schema=self.ROWS, **options)).data.get("rows")

    async def test_a_table_goes_on_over_pages_with_and_without_its_header(self):
        pages = (
            PageDraft(1).table([("Code", "Qty"), ("A", "1")]),
            PageDraft(2).table([("B", "2"), ("C", "3")], header_rows=0),
            PageDraft(3).table([("Code", "Qty"), ("D", "4")]),
        )
        assert [row["code"] for row in await self.rows(*pages)] == ["A", "B", "C", "D"]

    async def test_a_table_of_something_else_is_left_alone(self):
        pages = PageDraft(1).table([("Code", "Qty"), ("A", "1")]), PageDraft(3).table([("x", "2")]), PageDraft(4)
        assert await self.rows(*pages) == [{"code": "A", "qty": 1}]
        assert await self.rows(PageDraft(1).table([("Code", "Colour"), ("A", "1")])) is None

    async def test_headers_of_the_rule_are_used(self):
        draft = PageDraft().table([("料号", "个数", "备注"), ("A", "1", "")])
        fields = {"/rows": {"table": {"料号": "code", "个数": "qty"}}}
        assert await self.rows(draft, fields=fields) == [{"code": "A", "qty": 1}]

    async def test_a_title_above_the_header_and_empty_rows_are_passed_over(self):
        draft = PageDraft().table(
            [("Items", ""), ("Code", "Qty"), ("", ""), ("A", "1"), ("Code", "Qty"), ("B", "2"), ("Total", "3")]
        )
        assert await self.rows(draft) == [{"code": "A", "qty": 1}, {"code": "B", "qty": 2}]

    async def test_a_cell_that_is_not_of_its_kind_is_left_out(self):
        assert await self.rows(PageDraft().table([("Code", "Qty"), ("A", "many")])) == [{"code": "A"}]


class TestKinds:
    @pytest.mark.parametrize(
        ("text", "schema", "value"),
        [
            ("1,234.50 元", {"type": "number"}, 1234.5),
            ("12 pcs", {"type": "integer"}, 12),
            ("3 of 7", {"type": "integer"}, None),
            ("12.5", {"type": "integer"}, None),
            ("13%", {"type": "number"}, 13),
            ("是", {"type": "boolean"}, True),
            ("2024年1月31日 10:30", {"type": "string", "format": "date-time"}, "2024-01-31T10:30:00Z"),
            ("a、b；c", {"type": "array", "items": {"type": "string"}}, ["a", "b", "c"]),
            ("-", {"type": "string"}, None),
            ("RED", {"enum": ["red", "blue"]}, "red"),
            ("green", {"enum": ["red"]}, None),
            ("3", {"type": "integer", "enum": [3]}, 3),
            ("x", {"type": "object"}, None),
            (" a\n b ", {"type": "string"}, "a b"),
            ("否", {"type": ["null", "boolean"]}, False),
        ],
    )
    def test_a_text_becomes_the_kind_that_is_asked_for(self, text, schema, value):
        assert coerced(text, schema) == value

    def test_a_form_is_found_within_a_text_in_linear_time(self):
        assert within("[0-9]{4}", "in 2024 or 2025") == "2024"
        assert within("a+", "xaaay") == "aaa"
        assert within("(a+)+b", "a" * 5000) is None
        assert within("^x", "yx") is None


class TestSchemasThatGoOn:
    async def test_a_schema_within_itself_is_left_at_some_depth(self):
        inner = {f"p{n}": {"$ref": "#"} for n in range(20)}
        schema = {"type": "object", "properties": {"name": {"type": "string"}, **inner}}
        assert (await made(PageDraft().line("Name: x"), schema=schema)).data["name"] == "x"


class TestSkipping:
    async def test_nothing_is_made_of_the_document(self):
        extract = await SkipProcessor().process(rule(None), Text("# x"), SUBJECT, Told())
        assert (extract.data, extract.places) == (None, {})


_labels = st.lists(st.text("abcd ", min_size=1, max_size=9), min_size=1, max_size=6)


class TestManyLabels:
    @settings(max_examples=200, deadline=None)
    @given(_labels, st.text("abcd ", max_size=9))
    def test_an_index_finds_what_comparing_each_would(self, labels, said):
        index = LabelIndex(enumerate(labels))
        expected = {at: like for at, label in enumerate(labels) if (like := likeness(said, label))}
        assert index.alike(said) == index.alike(said) == expected
