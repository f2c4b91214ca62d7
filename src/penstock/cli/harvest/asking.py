"""Options of commands that ask a source for something, and how they are read."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from penstock.cli.screen import Refusal
from penstock.harvest.durations import read_duration

Since = Annotated[
    str | None, typer.Option(metavar="TIME", help="2026-01-31, 2026-01-31T12:00Z, or 7d (ago).", show_default=False)
]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="As --since; not included.", show_default=False)]
Params = Annotated[
    list[str] | None, typer.Option("--param", metavar="KEY=VALUE", help="What is asked for.", show_default=False)
]
Standin = Annotated[
    bool, typer.Option("--standin", help="Harvest a local stand-in with made-up records instead of the real service.")
]
Records = Annotated[
    int, typer.Option(min=1, max=1_000_000, help="With --standin: how many records it has; the same in later runs.")
]
RECORDS = 20_000


def read_moment(text: str | None, option: str, now: datetime | None = None) -> datetime | None:
    """A date, a time (UTC where it does not say), or how long ago."""
    if text is None:
        return None
    try:
        return (now or datetime.now(UTC)) - read_duration(text)
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise Refusal(
            f"{option} {text} is no time: write 2026-01-31, 2026-01-31T12:00:00Z, or 7d for seven days ago.",
            f"{option} {text} 不是有效时间：请写作 2026-01-31、2026-01-31T12:00:00Z，或 7d（七天前）。",
        ) from None


def check_text(text: str, option: str) -> None:
    """A terminal may hand over bytes that are no text, and no table can hold those."""
    try:
        text.encode()
    except UnicodeEncodeError:
        shown = text.encode(errors="replace").decode()
        raise Refusal(f"{option} {shown} is not UTF-8 text.", f"{option} {shown} 不是 UTF-8 文本。") from None


def read_params(given: Sequence[str] | None) -> dict[str, str]:
    read: dict[str, str] = {}
    for each in given or ():
        check_text(each, "--param")
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise Refusal(f"--param {each}: write KEY=VALUE.", f"--param {each}：请写作 KEY=VALUE。")
        if key in read:
            raise Refusal(f"--param {key} is given twice.", f"--param {key} 重复给出。")
        read[key] = value
    return read
