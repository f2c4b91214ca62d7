"""`penstock harvest init URL`: look at an API once and write a first source file."""

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer
from lxml import etree
from rich.text import Text

from penstock.cli import screen
from penstock.cli.harvest.first_file import code_of, first_file, oai_file
from penstock.cli.harvest.guessing import OAI, Guess, guess_json, guess_xml
from penstock.cli.harvest.rehearsal import is_local
from penstock.cli.screen import Refusal, printable
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

if TYPE_CHECKING:
    from penstock.harvest.calling import Answer

_MOST_BYTES = 16 * 1024 * 1024


def register(app: typer.Typer) -> None:
    app.command(
        "init", epilog="Example: penstock harvest init 'https://api.example.org/works?rows=100' --output works.yaml"
    )(init)


def init(
    url: Annotated[str, typer.Argument(metavar="URL", help="A page of results, as a browser would ask for it.")],
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Else it is printed.", show_default=False)
    ] = None,
    source: Annotated[
        str | None, typer.Option(metavar="CODE", help="The source's code; else by the host.", show_default=False)
    ] = None,
) -> None:
    """Ask an API once and write a first source file: a draft, with TODO where the answer did not tell.

    Give an address with its paging and time parameters, if you know them: they become templates.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise Refusal(f"{url} is no address: write https://…", f"{url} 不是有效地址：请写作 https://…")
    if parts.scheme == "http" and not is_local(url):
        raise Refusal("Only https is asked, and http on this machine.", "只支持 https；http 仅限本机。")
    if output is not None and output.exists():
        raise Refusal(f"{output} is there already: choose another name.", f"{output} 已存在：请另选文件名。")
    text = asyncio.run(_draft(url, source or code_of(url)))
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text, encoding="utf-8")
    _say_what_is_left(text, output)


async def _draft(url: str, code: str) -> str:
    from penstock.harvest.calling import Transport

    transport = Transport(allow_private=True)
    try:
        answer = await _get(transport, url)
        guess = _guess(answer)
        if guess.kind != "oai":
            return first_file(url, code, guess)
        return oai_file(url, code, _granularity((await _get(transport, _identify(url))).body))
    finally:
        await transport.close()


async def _get(transport: Any, url: str) -> "Answer":
    from penstock.harvest.calling import Request
    from penstock.harvest.spec import Http, Sections

    http = Http(base_url=url, allow_http=True, follow_redirects=True, max_body_bytes=_MOST_BYTES)
    try:
        answer: Answer = await transport.send(Sections(http=http), Request("GET", url), correlation_id="init")
    except PenstockError as failure:
        if failure.code is not error_codes.SOURCE_UNAVAILABLE:
            raise
        why = failure.details.get("reason")
        raise Refusal(
            f"It does not answer ({why}). Check the address, and try again.",
            f"对方没有回答（{why}）。请检查地址后重试。",
        ) from None
    if answer.status >= 400:
        sample = printable(answer.body[:200].decode(errors="replace"))
        raise Refusal(f"It answered with status {answer.status}: {sample}", f"对方返回状态 {answer.status}：{sample}")
    return answer


def _guess(answer: "Answer") -> Guess:
    try:
        return guess_json(json.loads(answer.body))
    except ValueError:
        pass
    try:
        return guess_xml(answer.body)
    except etree.XMLSyntaxError:
        raise Refusal(
            "The answer is neither JSON nor XML; is this the address of an API, or of a page for people?",
            "返回的内容既不是 JSON 也不是 XML；这是 API 地址，还是给人看的网页？",
        ) from None


def _identify(url: str) -> str:
    return url.partition("?")[0] + "?verb=Identify"


def _granularity(body: bytes) -> str | None:
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    try:
        found: str | None = etree.fromstring(body, parser).findtext(f".//{{{OAI}}}granularity")
    except etree.XMLSyntaxError:
        return None
    return found


def problems_of(text: str) -> list[str]:
    """What `apply` would refuse, as sentences."""
    from penstock.harvest.compiling.compile import check_source
    from penstock.harvest.compiling.problems import Terms
    from penstock.harvest.expressions import check_template
    from penstock.harvest.registry.document import try_source
    from penstock.harvest.registry.source import RegisteredSource

    document, problems = try_source(text.encode(), "draft")
    if document is None:
        return [each.in_language(screen.language()) for each in problems]
    source = RegisteredSource.of(document.canonical(), version=1, origins=document.origins)
    found = check_source(source, Terms(check_template=check_template))
    return [each[f"message_{screen.language()}"] for each in found]


def _say_what_is_left(text: str, output: Path | None) -> None:
    console = screen.console(stderr=True)
    todos, problems = text.count("TODO"), problems_of(text)
    where = output or screen.text("the draft", "草稿")
    console.print(Text(screen.text(f"{where}: {todos} TODOs to look at.", f"{where}：有 {todos} 处 TODO 需要确认。")))
    for each in problems:
        console.print(Text(f"  {printable(each)}", style="yellow"), soft_wrap=True)
    if output is not None:
        hint = screen.text("Check it with", "检查：")
        console.print(Text(f"{hint} penstock harvest apply {output} --dry-run", style="dim"))
