"""`penstock harvest backfill SOURCE`: old windows, towards the past."""

import asyncio
from typing import Annotated

import typer

from penstock.cli import screen
from penstock.cli.harvest.asking import RECORDS, Params, Records, Since, Standin, Until, read_moment, read_params
from penstock.cli.harvest.carrying import Wish, carry_out
from penstock.cli.harvest.plan import queue
from penstock.cli.harvest.reaching import OfEndpoint, SourceCode
from penstock.cli.options import AsJson, Data
from penstock.harvest.spec import Operation


def register(app: typer.Typer) -> None:
    app.command("backfill", epilog="Example: penstock harvest backfill crossref --since 2025-01-01 --no-follow")(
        backfill
    )


def backfill(  # noqa: PLR0913  one parameter for each option
    source: SourceCode,
    *,
    since: Since = None,
    until: Until = None,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Do it here and now, or leave it to the executors.")
    ] = True,
    endpoint: OfEndpoint = None,
    param: Params = None,
    standin: Standin = False,
    records: Records = RECORDS,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Fetch what is older than the first harvest, the newest windows first.

    Without --until it ends where the harvest began; with a later --since, where the harvest has come. What a
    backfill has stored is not asked for again; what only a harvest has stored is.
    """
    if standin and not follow:
        raise screen.Refusal(
            "A stand-in serves as long as this command runs: leave --no-follow away.",
            "替身只在本命令运行期间提供服务：请去掉 --no-follow。",
        )
    wish = Wish(
        source, data, endpoint, Operation.BACKFILL, read_moment(since, "--since"), read_moment(until, "--until"),
        read_params(param), standin=records if standin else None, as_json=as_json,
    )  # fmt: skip
    if follow:
        carry_out(wish)
    else:
        asyncio.run(queue(wish))
