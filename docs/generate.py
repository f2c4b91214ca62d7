"""Writes the pages of docs/ that are made from code; `--check` says which are out of date and changes nothing."""

import sys
from pathlib import Path

from penstock.api.http_status import status_of
from penstock.bootstrap import GROUPS
from penstock.documents.states import JOB, PAGE
from penstock.harvest.registry.schema import schema_text
from penstock.harvest.states import PLAN, RUN, SLICE, TASK
from penstock.kernel.error_codes import REGISTRY
from penstock.kernel.settings import SettingsGroup, display
from penstock.kernel.statemachine import Machine, diagram
from penstock.kernel.workers import WORKER
from penstock.uploads.tus.states import UPLOAD

DOCS = Path(__file__).parent
MACHINES = (WORKER, UPLOAD, JOB, PAGE, PLAN, SLICE, TASK, RUN)
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


def pages() -> dict[Path, str]:
    made = {
        DOCS / "errors.md": errors(),
        DOCS / "settings.md": settings(),
        DOCS / "source.schema.json": schema_text(),
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
