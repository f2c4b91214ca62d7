"""`penstock harvest apply`: source files into the registry, all of them or none."""

import asyncio
import getpass
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.text import Text

from penstock.cli import screen
from penstock.cli.harvest.files import files_in, open_database, read_files, sources_directory
from penstock.cli.options import AsJson, Data
from penstock.cli.screen import Refusal, printable
from penstock.kernel.errors import PenstockError

if TYPE_CHECKING:
    from penstock.harvest.registry.apply import Applied, Change, Diff
    from penstock.harvest.registry.document import SourceDocument
    from penstock.kernel.db import Tx

_LONG = 200


def register(app: typer.Typer) -> None:
    app.command("apply", epilog="Example: penstock harvest apply sources/crossref.yaml --dry-run")(apply)


def apply(  # noqa: PLR0913, PLR0917  one parameter for each option
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="Source files.", show_default=False)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All files in PENSTOCK_HARVEST_SOURCES (sources).")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Check source files, show what changes, and put it into the registry.

    If one file is wrong, nothing is written for any. Plans that run already are not touched.
    """
    read = read_files(_chosen(files or [], everything=everything))
    if read.problems:
        _refuse([each.as_dict() for each in read.problems], as_json=as_json)
    documents = sorted(read.documents.values(), key=lambda each: each.source)  # two at once lock in one order
    asked = not (yes or dry_run)
    if asked and (as_json or not sys.stdin.isatty()):
        raise Refusal("Nobody can be asked here: say --yes or --dry-run.", "此处无法询问：请加 --yes 或 --dry-run。")
    try:
        diffs = asyncio.run(_preview(data, documents))
    except PenstockError as refused:
        if "problems" not in refused.details:
            raise
        _refuse(refused.details["problems"], as_json=as_json)
    changed = [document for document, diff in zip(documents, diffs, strict=True) if diff.changes]
    if not as_json:
        _show(diffs)
    if dry_run or not changed:
        applied: Sequence[Diff | Applied] = diffs
    elif asked and not typer.confirm(screen.text("Apply?", "是否应用？")):
        raise typer.Exit(1)
    else:
        applied = asyncio.run(_apply(data, documents, diffs))
    if as_json:
        screen.print_json({"dry_run": dry_run, "sources": [_as_json(each) for each in applied]})
    elif changed:
        _conclude(applied, dry_run=dry_run)


def _chosen(files: list[Path], *, everything: bool) -> list[Path]:
    if files and everything:
        raise Refusal("Name files or say --all, not both.", "请指定文件或使用 --all，不能同时使用。")
    if files:
        return files
    directory = sources_directory()
    if not everything:
        raise Refusal(
            f"Which files? Name them, or say --all for those in {directory}.",
            f"请指定要应用的文件，或用 --all 应用 {directory} 中的全部文件。",
        )
    found = files_in(directory)
    if not found:
        raise Refusal(
            f"There is no source file in {directory}; PENSTOCK_HARVEST_SOURCES names another directory.",
            f"{directory} 中没有数据源文件；可用 PENSTOCK_HARVEST_SOURCES 指定其他目录。",
        )
    return found


def _refuse(problems: Sequence[Mapping[str, Any]], *, as_json: bool) -> NoReturn:
    """Of a file, or of settings that do not fit together: those say themselves where they come from."""
    if as_json:
        screen.print_json({"problems": [*problems]})
    else:
        console = screen.console(stderr=True)
        for each in problems:
            where, said = _told(each, screen.language())
            console.print(Text.assemble((printable(where), "bold"), f": {printable(said)}"), soft_wrap=True)
        count = len(problems)
        said = f"{count} problem{'s' if count > 1 else ''}; nothing was applied."
        console.print(screen.text(said, f"共 {count} 处问题；未作任何更改。"), style="red")
    raise typer.Exit(1)


def _told(problem: Mapping[str, Any], language: str) -> tuple[str, str]:
    """Where, as `file:line key`, and what, with the rule; a file's own problems are told in another way."""
    said, key = problem[f"message_{language}"], problem["key"]
    if "file" in problem:
        where = f"{problem['file']}:{problem['line']}:{problem['column']} {key}".rstrip()
        return where, f"{said} ({problem['rule']})"
    origin = problem["origin"]
    for colon in (": ", "："):
        said = said.removeprefix(f"{origin}{colon}{key}{colon}")
    file, _, place = origin.partition(" ")
    return f"{file} {place}.{key}" if place else f"{file} {key}", said


async def _preview(data: Path | None, documents: "Sequence[SourceDocument]") -> "list[Diff]":
    from penstock.harvest.desk import check
    from penstock.harvest.registry.apply import preview

    async with open_database(data) as database, database.transaction() as tx:
        for document in documents:
            await _refuse_mixing(tx, document)
        return [await preview(tx, document, check=check) for document in documents]


async def _refuse_mixing(tx: "Tx", document: "SourceDocument") -> None:
    """A schedule harvests the real service, and records of its stand-in may be here already."""
    from penstock.cli.harvest.rehearsal import is_local
    from penstock.harvest import overview

    said = document.canonical()
    addresses = [each.get("http", {}).get("baseUrl", "") for each in (said["defaults"], *said["endpoints"].values())]
    known = await overview.last_base_url(tx, document.source) if document.schedules else None
    if known is not None and is_local(known[0]) and not any(map(is_local, addresses)):
        raise Refusal(
            f"This database holds made-up records of the stand-in of {document.source} ({known[0]}); the schedule in"
            " the file would mix records of the real service with them. Use another data directory (--data).",
            f"此数据库中是 {document.source} 替身的虚构记录（{known[0]}），文件中的计划任务会混入真实记录。"
            "请使用另一个数据目录（--data）。",
        )


async def _apply(data: Path | None, documents: "Sequence[SourceDocument]", shown: "Sequence[Diff]") -> "list[Applied]":
    """One transaction for all. What is applied is what was shown, or nothing."""
    from penstock.harvest.desk import check
    from penstock.harvest.registry.apply import apply as apply_document

    async with open_database(data) as database, database.transaction() as tx:
        applied = [await apply_document(tx, document, who(), check=check) for document in documents]
        if [each.changes for each in applied] != [each.changes for each in shown]:
            raise Refusal(
                "Somebody else applied something meanwhile; nothing was changed. Run it again.",
                "期间有其他人应用了更改；未作任何修改。请重新运行。",
            )
        return applied


def who() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # an account without a name
        return "unknown"


def _show(diffs: "Sequence[Diff]") -> None:
    console = screen.console()
    for diff in diffs:
        before = screen.text("new", "新增") if diff.version == 0 else f"v{diff.version}"
        title = Text.assemble((diff.provenance_code, "bold"), f" ({before})")
        if not diff.changes:
            console.print(title.append(screen.text(": nothing changes", "：没有变化"), style="dim"))
            continue
        console.print(title)
        columns = [screen.text("Key", "键"), screen.text("Before", "之前"), screen.text("After", "之后")]
        console.print(screen.table(columns, [_row(each) for each in diff.changes]))


def _row(change: "Change") -> list[str | Text]:
    style = "green" if change.before is None else "red" if change.after is None else "yellow"
    return [
        Text(printable(change.path), style=style), Text(_short(change.before), style="red"),
        Text(_short(change.after), style="green"),
    ]  # fmt: skip


def _short(value: Any) -> str:
    from penstock.kernel import json

    if value is None:
        return ""
    said = printable(value if isinstance(value, str) else json.dumps(value))
    return said if len(said) <= _LONG else f"{said[:_LONG]}…"


def _conclude(applied: "Sequence[Diff | Applied]", *, dry_run: bool) -> None:
    console = screen.console()
    if dry_run:
        console.print(screen.text("Nothing was applied (--dry-run).", "未作任何更改（--dry-run）。"), style="dim")
        return
    for each in applied:
        if each.changes:
            said = screen.text(
                f"{each.provenance_code} is now at version {each.version}.",
                f"{each.provenance_code} 现为版本 {each.version}。",
            )
            console.print(said, style="green")


def _as_json(each: "Diff | Applied") -> Mapping[str, Any]:
    changes = [change.as_dict() for change in each.changes]
    return {"source": each.provenance_code, "version": each.version, "changes": changes}
