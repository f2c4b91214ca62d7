"""The JSON Schema (draft 2020-12) of source files, for editors; made from the models that read them.

A file that starts with `# yaml-language-server: $schema=…` is completed and checked while it is written.
"""

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from penstock.harvest.registry.document import SourceDocument

_DURATION = r"^(P(\d+W)?(\d+D)?(T(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?|\d+(\.\d+)?\s*(ms|s|m|h|d|w))$"


class _ForEditors(GenerateJsonSchema):
    """Durations may be short (`10m`), which the format "duration" does not allow; templates may be numbers."""

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        made = super().dict_schema(schema)
        if made.get("additionalProperties") == {"anyOf": [{"type": "string"}, {"type": "null"}]}:
            made["additionalProperties"] = {"type": ["string", "number", "null"]}
        return made

    def timedelta_schema(self, schema: core_schema.TimedeltaSchema) -> JsonSchemaValue:  # noqa: ARG002  as inherited
        return {"type": "string", "pattern": _DURATION, "examples": ["10m", "PT10M", "1d"]}


def source_schema() -> dict[str, Any]:
    made = SourceDocument.model_json_schema(by_alias=True, schema_generator=_ForEditors)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Penstock source",
        **{key: value for key, value in _tidy(made).items() if key != "title"},
    }


def schema_text() -> str:
    return json.dumps(source_schema(), indent=2, ensure_ascii=False) + "\n"


def _tidy(part: Any, *, names: bool = False) -> Any:
    """Without titles that repeat the key, and defaults that say nothing; `names`: keys here are people's."""
    if isinstance(part, list):
        return [_tidy(each) for each in part]
    if not isinstance(part, dict):
        return part
    kept = part if names else {key: value for key, value in part.items() if not _says_nothing(key, value)}
    return {key: _tidy(value, names=key in {"properties", "$defs"} and not names) for key, value in kept.items()}


def _says_nothing(key: str, value: Any) -> bool:
    return key == "title" or (key == "default" and value in (None, {}, []))
