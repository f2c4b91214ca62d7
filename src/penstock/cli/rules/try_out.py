"""`penstock rules try`: a rule on a short text, or on pages that `penstock etl` has read; nothing is stored."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.etl.outputs import PAGES_BEGIN
from penstock.cli.etl.rule_choice import MERCHANT, Merchant, caller_of, is_number, numbered_rule, read_rule
from penstock.cli.interruptible import run_interruptibly
from penstock.cli.options import AsJson, Data
from penstock.cli.screen import Refusal, be_quiet, printable
from penstock.kernel.errors import PenstockError

if TYPE_CHECKING:
    from penstock.extraction.ports import Extract, Rule
    from penstock.extraction.trying import Bench

_MOST_BYTES = 256 << 20


def register(app: typer.Typer) -> None:
    app.command("try", epilog="Example: penstock rules try invoice.yaml --file invoice.md")(try_rule)


def try_rule(  # noqa: PLR0913, PLR0917  one parameter for each option
    rule: Annotated[
        str, typer.Argument(metavar="FILE|ID", help="A rule file, or a rule's number.", show_default=False)
    ],
    text: Annotated[str | None, typer.Option(metavar="TEXT", help="The text itself.", show_default=False)] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A text or markdown file, - for stdin, or what `penstock etl --pages` wrote: then the result is that"
            " of the document.",
            show_default=False,
        ),
    ] = None,
    merchant: Merchant = MERCHANT,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show what a rule makes of a short text, such as the NAME.md of `penstock etl`. Nothing is stored.

    Prints the data as JSON; with --json also how it was made.
    """
    from penstock.cli.etl.carrying import as_text

    given = _given(text, file)
    made = run_interruptibly(_tried(rule, given, merchant, data))
    told = {"data": made.data, "metadata": dict(made.metadata)}
    sys.stdout.write(as_text(told if as_json else made.data))


def _given(text: str | None, file: Path | None) -> str:
    if (text is None) == (file is None):
        raise Refusal("Say either --text or --file.", "请给出 --text 或 --file 之一。")
    if file is None:
        return (text or "").encode(errors="replace").decode()
    shown = printable(str(file))
    try:
        if str(file) == "-":
            content = sys.stdin.buffer.read(_MOST_BYTES)
        else:
            with file.open("rb") as opened:
                content = opened.read(_MOST_BYTES)
    except OSError as failure:
        why = failure.strerror or str(failure)
        raise Refusal(f"{shown} cannot be read: {why}.", f"无法读取 {shown}：{why}。") from failure
    said = _as_text(content)
    if said is None:
        raise Refusal(
            f"{shown} is no UTF-8 text; `penstock etl` reads PDFs and pictures.",
            f"{shown} 不是 UTF-8 文本；PDF 与图片请用 penstock etl。",
        )
    return said


def _as_text(content: bytes) -> str | None:
    from penstock.extraction.media import HEAD, media_type_of

    try:
        media_type_of(content[:HEAD])
    except PenstockError:  # no document: then it may be a text
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError:
            return None
    return None


async def _tried(said: str, text: str, merchant: str, data: Path | None) -> "Extract":
    from penstock.cli.etl.makers import maker_for
    from penstock.extraction.trying import Bench
    from penstock.extraction.trying import try_rule as try_on

    be_quiet()
    rule = await _chosen(said, merchant, data)
    async with maker_for(rule, data, _no_pages) as (maker, sandbox):
        bench = Bench({rule.postprocess_mode: maker}, sandbox)
        if text.startswith(PAGES_BEGIN):
            return await _on_pages(rule, text, bench, merchant)
        return await try_on(rule, text, bench, merchant_id=merchant)


async def _chosen(said: str, merchant: str, data: Path | None) -> "Rule":
    from penstock.cli.harvest.files import open_database

    caller = caller_of(merchant)
    if not is_number(said):
        return read_rule(said)
    async with open_database(data) as database:
        return await numbered_rule(database, said, caller)


async def _on_pages(rule: "Rule", text: str, bench: "Bench", merchant: str) -> "Extract":
    import msgspec

    from penstock.extraction.trying import try_on_pages
    from penstock.pdf.pages.model import Page

    try:
        pages = msgspec.json.decode(text, type=list[Page])
    except (msgspec.DecodeError, RecursionError) as wrong:
        raise Refusal(
            f"These pages cannot be read ({wrong}); write them again with `penstock etl --pages`.",
            f"无法读取页面数据（{wrong}）；请用 penstock etl --pages 重新生成。",
        ) from None
    return await try_on_pages(rule, pages, bench, merchant_id=merchant)


async def _no_pages(path: Path, media_type: str) -> int:  # noqa: ARG001  a text has no file
    return 1
