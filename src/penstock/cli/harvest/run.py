"""`penstock harvest run SOURCE`: everything that is new, fetched and stored here and now."""

import typer

from penstock.cli.harvest.asking import RECORDS, Params, Records, Since, Standin, Until, read_moment, read_params
from penstock.cli.harvest.carrying import Wish, carry_out
from penstock.cli.harvest.reaching import OfEndpoint, SourceCode
from penstock.cli.options import AsJson, Data


def register(app: typer.Typer) -> None:
    app.command("run", epilog="Example: penstock harvest run crossref --standin")(run)


def run(  # noqa: PLR0913  one parameter for each option
    source: SourceCode,
    *,
    endpoint: OfEndpoint = None,
    since: Since = None,
    until: Until = None,
    param: Params = None,
    standin: Standin = False,
    records: Records = RECORDS,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Fetch everything that is new, and store it.

    What an earlier run left in the queue comes first. Ctrl-C stops after the batch in hand; the same command goes on.
    --since counts for the first harvest only: later ones go on from where the last one ended.
    """
    carry_out(
        Wish(
            source, data, endpoint, since=read_moment(since, "--since"), until=read_moment(until, "--until"),
            params=read_params(param), standin=records if standin else None, as_json=as_json,
        )
    )  # fmt: skip
