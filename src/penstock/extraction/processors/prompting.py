"""What a language model is asked. Whoever changes a text changes `VERSION`: remembered answers are of one version."""

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.extraction.ports import Rule
from penstock.kernel import json
from penstock.llm.ports import Prompt

VERSION = "1"

_EXTRACT = """\
You turn a document into JSON. The document is markdown that was read from a PDF, a scan or a photo: letters may be \
misread, tables are pipes or HTML, and comments such as <!-- page 3 --> tell the page.
Rules:
- Take every value from the document. What the document does not say is left out, or null where the schema allows it.
- Copy names, numbers and codes as they are written; write numbers without thousands separators and currency signs, \
and dates as the schema's format asks (YYYY-MM-DD for a date).
- A list has one element for each row or entry of the document, in its order, none left out and none merged.
- Property names are those of the schema."""
_PART = """
You see only a part of the document; other parts are worked on separately and everything is put together afterwards. \
Give what this part says and nothing else; leave out what it does not say. What stands in a comment that begins with \
"context:" was repeated for orientation."""
_SUMMARISE = """\
You shorten a part of a document so that another reader can fill in a JSON form from it. The document is markdown that \
was read from a PDF, a scan or a photo.
Rules:
- Keep every fact that the form could need, word for word: names, numbers, codes, dates, units, amounts, each row of \
each table, and which belongs to which. Keep the marks of pages.
- Leave out what the form has no place for: greetings, boilerplate, repeated headers. Add nothing and explain nothing.
- Answer in plain text.
The form, as a JSON Schema:
{schema}"""
_FROM_SUMMARIES = """
What you are given are short forms of the parts of one document, in their order."""
_WISHES = """
What the owner of this rule asks for besides:
{wishes}"""


def _with_wishes(text: str, rule: Rule) -> str:
    wishes = (rule.system_prompt or "").strip()
    return text + _WISHES.format(wishes=wishes) if wishes else text


def _pairs(rule: Rule) -> Sequence[tuple[str, str]]:
    return [(each["text"], json.dumps(each["result"])) for each in rule.examples]


def whole(rule: Rule, text: str) -> Prompt:
    return Prompt("etl-direct", VERSION, _with_wishes(_EXTRACT, rule), text, _pairs(rule))


def part(rule: Rule, text: str) -> Prompt:
    return Prompt("etl-chunk", VERSION, _with_wishes(_EXTRACT + _PART, rule), text, _pairs(rule))


def summary(rule: Rule, text: str) -> Prompt:
    schema: Mapping[str, Any] = rule.json_schema or {}
    return Prompt("etl-summary", VERSION, _with_wishes(_SUMMARISE.format(schema=json.dumps(schema)), rule), text)


def from_summaries(rule: Rule, text: str) -> Prompt:
    return Prompt("etl-summaries", VERSION, _with_wishes(_EXTRACT + _FROM_SUMMARIES, rule), text, _pairs(rule))
