"""`penstock harvest update SOURCE`: records that we have, fetched again by id."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.harvest.asking import RECORDS, Records, Standin, check_text
from penstock.cli.harvest.carrying import Wish, carry_out
from penstock.cli.harvest.reaching import OfEndpoint, SourceCode
from penstock.cli.options import AsJson, Data
from penstock.cli.screen import Refusal
from penstock.harvest.durations import iso_text, read_duration
from penstock.harvest.planning.trigger import Candidates
from penstock.harvest.schedule_params import CandidateKind
from penstock.harvest.spec import Operation


def register(app: typer.Typer) -> None:
    app.command("update", epilog="Example: penstock harvest update crossref --stale 30d --limit 1000")(update)


def update(  # noqa: PLR0913  one parameter for each option
    source: SourceCode,
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="These records.", show_default=False)] = None,
    *,
    stale: Annotated[
        str | None, typer.Option(metavar="TIME", help="Not looked at for so long, oldest first: 30d.")
    ] = None,
    expression: Annotated[bool, typer.Option("--expression", help="Stored by other rules than today's.")] = False,
    signals: Annotated[bool, typer.Option("--signals", help="Reported to need it, or in quarantine.")] = False,
    ids_file: Annotated[
        Path | None, typer.Option("--ids", metavar="FILE", help="Records named in a file, one id in a line.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="So many at the most.", show_default=False)] = None,
    endpoint: OfEndpoint = None,
    standin: Standin = False,
    records: Records = RECORDS,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Fetch records again that are stored already: by age, by rules, by signals, or by id."""
    named = (*(ids or ()), *_from_file(ids_file))
    for each in ids or ():
        check_text(each, "ID")
    if sum((stale is not None, expression, signals, bool(ids or ids_file))) > 1:
        raise Refusal(
            "Choose one: --stale, --expression, --signals, or ids.",
            "请只选一种：--stale、--expression、--signals 或标识。",
        )
    if (ids or ids_file) and not named:
        raise Refusal(f"{ids_file} names no id.", f"{ids_file} 中没有标识。")
    kind = (
        CandidateKind.EXPRESSION if expression
        else CandidateKind.SIGNALS if signals or named
        else CandidateKind.STALE
    )  # fmt: skip
    run = {} if stale is None else {"planning": {"staleAfter": _age(stale)}}
    carry_out(
        Wish(
            source, data, endpoint, Operation.UPDATE, candidates=Candidates(kind, limit), run=run, signal_ids=named,
            standin=records if standin else None, as_json=as_json,
        )
    )  # fmt: skip


def _age(text: str) -> str:
    try:
        return iso_text(read_duration(text))
    except ValueError:
        raise Refusal(f"--stale {text}: write 30d or 12h.", f"--stale {text}：请写作 30d 或 12h。") from None


def _from_file(path: Path | None) -> list[str]:
    if path is None:
        return []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as wrong:
        raise Refusal(f"{path} cannot be read: {wrong}.", f"无法读取 {path}：{wrong}。") from wrong
    return [line.strip() for line in lines if line.strip()]
