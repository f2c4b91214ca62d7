"""Which server a command talks to, and as whom: `--server`, `--token-file`, `--role`, `--merchant`, `--data`.

Where a `penstock up` runs on this machine nothing need be named. No option takes a token itself: other users of the
machine could read it in the list of processes. It comes from a file, PENSTOCK_TOKEN or a prompt. A token made here
from the data directory's secret is shown to this machine only: sent elsewhere, it would open our server to whoever
answers there.
"""

import functools
import inspect
import sys
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
from penstock.cli.screen import Refusal, text
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
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        readable=False,
        allow_dash=True,
        help="File with your token, - for standard input \\[PENSTOCK_TOKEN, else one made here, for this machine].",
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
    "token_file": (TokenFile, None),
    "role": (AsRole, Role.ADMIN),
    "merchant": (OfMerchant, "local"),
    "data": (Data, None),
}


@dataclass(frozen=True, slots=True)
class Named:
    """What the options say."""

    server: str | None
    token_file: Path | None
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
    given = _read(named.token_file) if named.token_file else settings.token.get_secret_value()
    if not given and not here:
        given = _asked_for(address)
    if given:
        return Remote(address, Token(given.strip, made_here=False), here=here)
    return Remote(address, Token(_made_here(named), made_here=True), here=True)


def _read(file: Path) -> str:
    """The token in a file, or on standard input."""
    try:
        found = sys.stdin.read() if str(file) == "-" else file.read_text()
    except (OSError, UnicodeDecodeError) as wrong:
        raise Refusal(
            f"--token-file {file} cannot be read: {wrong}.", f"无法读取 --token-file {file}：{wrong}。"
        ) from wrong
    if not found.strip():
        raise Refusal(f"--token-file {file} is empty.", f"--token-file {file} 是空的。")
    return found


def _asked_for(address: str) -> str:
    """The token that a person types at a prompt, unseen; refused where nobody can be asked."""
    if sys.stdin.isatty() and sys.stderr.isatty():
        asked = text(f"Token for {address}", f"访问 {address} 的令牌")
        return str(typer.prompt(asked, hide_input=True, err=True))
    raise Refusal(
        f"No token for {address}: name a file with --token-file, or set PENSTOCK_TOKEN. On the server's machine"
        " `penstock token --role uploader` makes one.",
        f"缺少访问 {address} 的令牌：请用 --token-file 指定文件，或设置 PENSTOCK_TOKEN。在服务器上可用"
        " penstock token --role uploader 生成。",
    )


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
