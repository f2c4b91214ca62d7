"""Writes the pages of docs/ that are made from code; `--check` says which are out of date and changes nothing."""

import json
import sys
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from penstock.api.http_status import status_of
from penstock.bootstrap import GROUPS
from penstock.documents.states import JOB, PAGE
from penstock.extraction.states import TASK as ETL_TASK
from penstock.harvest.durations import iso_text
from penstock.harvest.registry.document import CredentialEntry, Endpoint, Schedule, SecretPlace, SourceDocument
from penstock.harvest.registry.schema import schema_text
from penstock.harvest.spec import OAuth2, OutputField, RequestParam, Sections, TwoPhase
from penstock.harvest.states import PLAN, RUN, SLICE, TASK
from penstock.kernel.error_codes import REGISTRY
from penstock.kernel.settings import SettingsGroup, display
from penstock.kernel.statemachine import Machine, diagram
from penstock.kernel.workers import WORKER
from penstock.uploads.direct.states import DIRECT_UPLOAD, VIDEO
from penstock.uploads.tus.states import UPLOAD

DOCS = Path(__file__).parent
MACHINES = (WORKER, UPLOAD, JOB, PAGE, PLAN, SLICE, TASK, RUN, ETL_TASK, DIRECT_UPLOAD, VIDEO)
_WORDS = {str: "text", int: "number", float: "number", bool: "yes or no", timedelta: "duration", datetime: "time"}
_MADE = "<!-- Made from code by `make docs`; do not edit. -->"


def errors() -> str:
    lines = [
        "# Error codes", "", _MADE, "",
        "Every refusal is `{code, message, remedy, severity, details, request_id}`.",
        "Codes never change with the language.",
        "",
        "| code | HTTP | severity | retry | message | what to do | 说明 | 处理办法 |",
        "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    lines += [
        f"| `{row.code}` | {status_of(row)} | {row.severity} | {'yes' if row.retryable else 'no'} | {row.message.en} |"
        f" {row.remedy.en} | {row.message.zh} | {row.remedy.zh} |"
        for row in sorted(REGISTRY.values(), key=lambda row: row.code)
    ]
    return "\n".join(lines) + "\n"


def settings() -> str:
    lines = [
        "# Settings", "", _MADE, "",
        "From the environment, or from `penstock.toml` (or the file named by `PENSTOCK_CONFIG`) under the same names.",
        "Durations read `30`, `1.5s`, `10m`, `6h` or `90d`. `penstock config` shows what is in force and where from.",
    ]  # fmt: skip
    for group in GROUPS.values():
        lines += ["", f"## {group.__name__.removesuffix('Settings')}", "", _first_line(group), ""]
        lines += ["| name | default | meaning |", "|---|---|---|"]
        for field, info in group.model_fields.items():
            default = display(info.default)
            lines.append(f"| `{group.variable(field)}` | {f'`{default}`' if default else ''} | {info.description} |")
    return "\n".join(lines) + "\n"


def _first_line(group: type[SettingsGroup]) -> str:
    return (group.__doc__ or "").strip().split("\n")[0]


def states(machine: Machine) -> str:
    rows = [
        f"| {t.source or '(new)'} | {t.target} | {', '.join(sorted(t.by))} | `{machine.entity}.{t.target.lower()}` |"
        f" {t.notice or ''} |"
        for t in machine.transitions
    ]
    return "\n".join(
        [
            f"# States of a {machine.entity}", "", _MADE, "", "```mermaid", diagram(machine), "```", "",
            "| from | to | made by | event | shown to people as |", "|---|---|---|---|---|", *rows, "",
        ]
    )  # fmt: skip


def source_format() -> str:
    """Everything that a source file may say, from the models that read it."""
    lines = [
        "# Format of source files", "", _MADE, "",
        "One YAML file for each source, in `sources/`; [your first source](first-source.md) explains one.",
        "[source.schema.json](source.schema.json) is the same for editors.",
        "Durations read `10m`, `1d`, `PT10M` or `P1D`. Unknown keys are refused.",
        "",
        "A value is looked for in this order: this run, the endpoint, the endpoint's `defaults`, the source's",
        "`defaults`, the platform's defaults below. `penstock harvest explain SOURCE` shows where each came from.",
    ]  # fmt: skip
    own = ("source", "name", "description", "defaults", "credentials", "endpoints", "schedules")
    lines += _table("The file", SourceDocument, own)
    lines += _table("credentials", CredentialEntry) + _table("Where a secret is", SecretPlace)
    lines += _table("endpoints", Endpoint, ("role", "is_default", "linked_endpoint", "defaults"))
    lines += _table("schedules", Schedule)
    lines += ["", "# Sections", "", "Of an endpoint, of `defaults`, and of a run."]
    nested = {"auth": {"oauth2": OAuth2}, "batching": {"twoPhase": TwoPhase},
              "mapping": {"requestParams[]": RequestParam, "outputFields[]": OutputField}}  # fmt: skip
    for name, info in Sections.model_fields.items():
        section = next((kind for kind in _kinds(info.annotation) if _is_model(kind)), None)
        key = info.alias or name
        lines += (
            _table(key, section) if section else ["", f"## {key}", "", f"{_type(info.annotation)}. {info.description}."]
        )
        for inner, model in nested.get(key, {}).items():
            lines += _table(f"{key}.{inner}", model)
    return "\n".join(lines) + "\n"


def _table(title: str, model: type[BaseModel], only: tuple[str, ...] = ()) -> list[str]:
    said = [model.__doc__.strip().split("\n\n")[0], ""] if model.__doc__ else []
    rows = [
        f"| `{info.alias or name}` | {_type(info.annotation)} | {_default(info)} | {_escaped(info.description or '')} |"
        for name, info in model.model_fields.items()
        if not only or name in only
    ]
    return ["", f"## {title}", "", *said, "| key | what | default | meaning |", "|---|---|---|---|", *rows]


def _kinds(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _type(annotation: Any) -> str:
    """In words: a number, a duration, one of …"""
    return " or ".join(dict.fromkeys(_word(kind) for kind in _kinds(annotation) if kind is not NoneType))


def _word(kind: Any) -> str:
    kind = getattr(kind, "__origin__", kind) if hasattr(kind, "__metadata__") else kind
    origin, inner = get_origin(kind), get_args(kind)
    if origin is tuple:
        return f"list of {_type(inner[0])}"
    if origin is dict:
        return f"map to {_type(inner[1])}"
    if origin is Literal or (isinstance(kind, type) and issubclass(kind, StrEnum)):
        return ", ".join(f"`{each}`" for each in (inner or kind))
    return "section" if _is_model(kind) else _WORDS[kind]


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "*required*"
    value = info.get_default(call_default_factory=True)
    if value in (None, "", (), {}) or isinstance(value, BaseModel):
        return ""
    if isinstance(value, timedelta):
        return f"`{iso_text(value)}`"
    if isinstance(value, bool):
        return "yes" if value else "no"
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"`{_escaped(shown)}`"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def pages() -> dict[Path, str]:
    made = {
        DOCS / "errors.md": errors(),
        DOCS / "settings.md": settings(),
        DOCS / "source.schema.json": schema_text(),
        DOCS / "source-format.md": source_format(),
    }
    for machine in MACHINES:
        made[DOCS / "states" / f"{machine.entity}.md"] = states(machine)
    return made


def main() -> int:
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.relative_to(DOCS.parent)} is out of date: run `make docs` and commit it")  # noqa: T201  told to the person who ran it
        return 1 if stale else 0
    for path, text in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
