"""Which server a command talks to, and as whom: the options `--server`, `--token`, `--role`, `--merchant`, `--data`.

Where a `penstock up` runs on this machine nothing need be named. A token made here from the data directory's
secret is shown to this machine only: sent elsewhere, it would open our server to whoever answers there.
"""

import functools
import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from penstock.cli.options import Data
from penstock.cli.places import find_servers, identity_settings
from penstock.cli.screen import Refusal
from penstock.embedded.ports import is_loopback
from penstock.kernel.client import ClientSettings
from penstock.kernel.clock import SystemClock
from penstock.kernel.identity import Caller, Identity, Role
from penstock.kernel.settings import SettingsFile

if TYPE_CHECKING:
    from penstock.cli.remote import Remote

_LASTS = timedelta(hours=1)
_PANEL = "Server and caller"

AtServer = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="The server \\[PENSTOCK_SERVER, else the one on this machine].",
        rich_help_panel=_PANEL,
    ),
]
WithToken = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TOKEN",
        help="Who you are \\[PENSTOCK_TOKEN, else made here, for a server on this machine].",
        rich_help_panel=_PANEL,
    ),
]
AsRole = Annotated[
    Role,
    typer.Option("--role", metavar="ROLE", help="Role of a token made here, such as uploader.", rich_help_panel=_PANEL),
]
OfMerchant = Annotated[
    str, typer.Option("--merchant", metavar="ID", help="Merchant of a token made here.", rich_help_panel=_PANEL)
]
_OPTIONS: dict[str, tuple[Any, Any]] = {
    "server": (AtServer, None),
    "token": (WithToken, None),
    "role": (AsRole, Role.ADMIN),
    "merchant": (OfMerchant, "local"),
    "data": (Data, None),
}


@dataclass(frozen=True, slots=True)
class Named:
    """What the options say."""

    server: str | None
    token: str | None
    role: Role
    merchant: str
    data: Path | None


def at_server(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that name a server and a caller, and hand it the `Remote` they mean."""
    own = inspect.signature(command)
    mine = [parameter for name, parameter in own.parameters.items() if name != "remote"]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in _OPTIONS.items()
    ]

    @functools.wraps(command)
    def connected(**given: Any) -> None:
        remote = connect(Named(**{name: given.pop(name) for name in _OPTIONS}))
        try:
            command(remote=remote, **given)
        finally:
            remote.close()

    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in mine]
    connected.__signature__ = own.replace(parameters=[*parameters, *added])  # type: ignore[attr-defined]
    connected.__annotations__ = {parameter.name: parameter.annotation for parameter in [*parameters, *added]}
    return connected


def connect(named: Named) -> "Remote":
    from penstock.cli.remote import Remote, Token

    settings = SettingsFile.find().load(
        ClientSettings, **({"server": named.server.rstrip("/")} if named.server is not None else {})
    )
    address = settings.server or _address_here(named.data)
    here = not settings.server or is_loopback(urlsplit(address).hostname or "")
    given = named.token or settings.token.get_secret_value()
    if given:
        return Remote(address, Token(given.strip, made_here=False), here=here)
    if not here:
        raise Refusal(
            f"No token for {address}: name one with --token or PENSTOCK_TOKEN. On the server's machine"
            " `penstock token --role uploader` makes one.",
            f"缺少访问 {address} 的令牌：请用 --token 或 PENSTOCK_TOKEN 指定。在服务器上可用"
            " penstock token --role uploader 生成。",
        )
    return Remote(address, Token(_made_here(named), made_here=True), here=True)


def _address_here(data: Path | None) -> str:
    servers = find_servers(data)
    host, port = ("127.0.0.1", servers.settings.port)
    if servers.holder is not None:
        host, port = servers.holder.address, servers.holder.port
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _made_here(named: Named) -> Callable[[], str]:
    """Tokens from our own secret; a long upload outlives its first."""
    try:
        caller = Caller("admin" if named.role is Role.ADMIN else "script", named.merchant, named.role)
    except ValueError as wrong:
        raise Refusal(f"No token for that caller: {wrong}.", f"无法为该用户生成令牌：{wrong}。") from wrong
    identity = Identity(identity_settings(named.data), SystemClock())
    kept = ("", 0.0)

    def token() -> str:
        nonlocal kept
        if time.monotonic() >= kept[1]:
            kept = (identity.issue(caller, _LASTS), time.monotonic() + _LASTS.total_seconds() / 2)
        return kept[0]

    return token
