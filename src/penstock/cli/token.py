"""`penstock token`: a JWT for scripts, signed with the secret of the data directory."""

import re
import sys
from datetime import timedelta
from typing import Annotated

import typer

from penstock.cli import screen
from penstock.cli.options import Data
from penstock.cli.places import identity_settings
from penstock.kernel.clock import SystemClock
from penstock.kernel.identity import Caller, Identity, Role

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def register(app: typer.Typer) -> None:
    app.command(
        "token",
        epilog='Example: curl -H "Authorization: Bearer $(penstock token --role admin)" localhost:8000/api/v1/me',
    )(token)


def token(  # noqa: PLR0913, PLR0917  one parameter for each option
    role: Annotated[Role, typer.Option(help="What the caller may do.")],
    merchant: Annotated[str, typer.Option(help="The merchant the caller belongs to.")] = "local",
    user: Annotated[str, typer.Option(help="The caller's name.")] = "script",
    ttl: Annotated[str, typer.Option(help="How long it is valid: 30m, 12h, 7d.")] = "1h",
    act_for: Annotated[
        str, typer.Option(metavar="IDS", help="Merchants for which it may also create jobs: m-1,m-2.")
    ] = "",
    data: Data = None,
) -> None:
    """Print an access token for scripts, and nothing else."""
    try:
        caller = Caller(user, merchant, role, act_for=_listed(act_for))
    except ValueError as wrong:
        raise screen.Refusal(f"No token for that caller: {wrong}.", f"无法为该用户生成令牌：{wrong}。") from wrong
    sys.stdout.write(Identity(identity_settings(data), SystemClock()).issue(caller, duration(ttl)) + "\n")


def _listed(text: str) -> tuple[str, ...]:
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def duration(text: str, option: str = "--ttl") -> timedelta:
    """`90s`, `30m`, `12h`, `7d`; at least a second, at most a year."""
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", text.strip())
    lasting = timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else timedelta(0)
    if not timedelta(seconds=1) <= lasting <= timedelta(days=366):
        raise screen.Refusal(
            f"{option} {text} is not a duration between 1s and 366d: write a number and one of s, m, h, d,"
            " such as 12h.",
            f"{option} {text} 不是 1s 到 366d 之间的时长：请写数字加 s、m、h、d，例如 12h。",
        )
    return lasting
