"""The one-time sign-in link: `penstock up` prints one, `penstock sign-in` another."""

import asyncio
from datetime import timedelta

import psycopg
import typer
from psycopg.rows import dict_row

from penstock.cli.options import Data
from penstock.cli.places import find_servers, need_database
from penstock.cli.screen import Refusal
from penstock.kernel.identity import Caller, Role, make_sign_in_code

_CALLER = Caller(user_id="admin", merchant_id="local", role=Role.ADMIN)
_LASTS = timedelta(hours=1)


def register(app: typer.Typer) -> None:
    app.command("sign-in", epilog="Example: penstock sign-in --data ~/penstock-data")(sign_in)


def sign_in(data: Data = None) -> None:
    """Print a new link that signs a browser in as administrator, once, within an hour."""
    servers, database_url = find_servers(data), need_database(data)
    code = sign_in_code(database_url)
    if code is None:
        raise Refusal(
            "The database does not answer; `penstock doctor` says more.", "数据库没有应答；请运行 penstock doctor。"
        )
    here = (servers.holder.address, servers.holder.port) if servers.holder else None
    host, port = here or (servers.settings.host, servers.settings.port)
    typer.echo(f"http://{host}:{port}/sign-in?code={code}")


def sign_in_code(database_url: str) -> str | None:
    """A code that works once; None when the database has gone away since, which is no reason to stop."""
    try:
        return asyncio.run(_make(database_url))
    except psycopg.OperationalError:
        return None


async def _make(database_url: str) -> str:
    async with await psycopg.AsyncConnection.connect(database_url, row_factory=dict_row, connect_timeout=5) as tx:
        return await make_sign_in_code(tx, _CALLER, _LASTS)
