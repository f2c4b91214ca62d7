"""From a wish on the command line to a harvest that has ended, and what is said about it in the end."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from penstock.cli import screen
from penstock.cli.harvest import rehearsal
from penstock.cli.harvest.desk import open_desk
from penstock.harvest.spec import Operation
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

if TYPE_CHECKING:
    from penstock.cli.harvest.run_screen import Nothing
    from penstock.cli.harvest.running import Ended
    from penstock.harvest.desk import HarvestDesk
    from penstock.harvest.planning import Candidates, Trigger


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked for on the command line. `standin`: so many records of a stand-in; none: the real service."""

    source: str
    data: Path | None
    endpoint: str | None = None
    operation: Operation = Operation.HARVEST
    since: datetime | None = None
    until: datetime | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    candidates: "Candidates | None" = None
    run: Mapping[str, Any] = field(default_factory=dict)
    signal_ids: tuple[str, ...] = ()  # to be looked at again, whatever their age
    standin: int | None = None
    as_json: bool = False

    def trigger(self, run: Mapping[str, Any]) -> "Trigger":
        from penstock.harvest.planning import Trigger

        return Trigger(
            self.source, self.endpoint, self.operation, self.since, self.until, self.params, {**self.run, **run},
            candidates=self.candidates,
        )  # fmt: skip


def carry_out(wish: Wish) -> None:
    """Exit code 0: all is stored. 1: something failed. 130: stopped by Ctrl-C."""
    ended = asyncio.run(_carry_out(wish))
    if wish.as_json:
        screen.print_json(as_json(wish, ended))
    else:
        conclude(wish, ended)
    if ended.exit_code:
        raise typer.Exit(ended.exit_code)


async def _carry_out(wish: Wish) -> "Ended":
    from penstock.cli.harvest.run_screen import view_for
    from penstock.cli.harvest.running import Harvest

    title = f"{wish.source}{f'/{wish.endpoint}' if wish.endpoint else ''} {wish.operation}"
    async with open_desk(wish.data) as desk:
        view = view_for(title, quiet=wish.as_json)
        async with pointed(desk, wish, view) as trigger:
            stop = asyncio.Event()
            with view, _interrupts(stop, view):
                return await Harvest(desk, trigger, view, stop).run()


@asynccontextmanager
async def pointed(desk: "HarvestDesk", wish: Wish, view: "Nothing") -> "AsyncIterator[Trigger]":
    """The trigger, pointed at the real service or at a stand-in that serves as long as this is open."""
    if wish.standin is None:
        await desk.source(wish.source)  # one that is not known is said first
        await rehearsal.refuse_mixing(desk, wish.source, is_standin=await _asks_here(desk, wish))
        await _raise_signals(desk, wish)
        yield wish.trigger({})
        return
    async with rehearsal.stage(desk, wish.source, wish.standin) as stage:
        view.say(_introduction(wish, stage), "dim")
        await _raise_signals(desk, wish)
        yield await _fitting(desk, wish, stage)


async def _asks_here(desk: "HarvestDesk", wish: Wish) -> bool:
    return rehearsal.is_local((await desk.compile(wish.trigger({}))).spec.http.base_url)


async def _fitting(desk: "HarvestDesk", wish: Wish, stage: rehearsal.Stage) -> "Trigger":
    """Only a run that fetches by id may say something of the linked endpoint, and it must."""
    trigger = wish.trigger(stage.run)
    if wish.operation is not Operation.UPDATE:
        return trigger
    try:
        compiled = await desk.compile(by_id := wish.trigger(stage.run_by_id))
    except PenstockError as refused:
        if refused.code is not error_codes.SPEC_INVALID:
            raise
        return trigger
    return by_id if compiled.spec.detail is not None else trigger


async def _raise_signals(desk: "HarvestDesk", wish: Wish) -> None:
    from penstock.cli.harvest.apply import who
    from penstock.harvest.planning import Reason, raise_signals
    from penstock.harvest.planning.signals import MOST_AT_ONCE
    from penstock.harvest.records import endpoint_of

    if not wish.signal_ids:
        return
    async with desk.database.transaction() as tx:
        endpoint = await endpoint_of(tx, wish.source, wish.endpoint)
        for first in range(0, len(wish.signal_ids), MOST_AT_ONCE):
            some = wish.signal_ids[first : first + MOST_AT_ONCE]
            await raise_signals(tx, wish.source, endpoint, some, Reason("REQUESTED", who()))


def _introduction(wish: Wish, stage: rehearsal.Stage) -> str:
    told = screen.text(
        f"Stand-in of {wish.source} at {stage.url}: {wish.standin:,} made-up records of {rehearsal.DAYS} days, asked"
        f" {rehearsal.RATE} times a second (the real service is asked at its own, slower rate).",
        f"{wish.source} 的替身位于 {stage.url}：{rehearsal.DAYS} 天内 {wish.standin:,} 条虚构记录，每秒请求"
        f" {rehearsal.RATE} 次（真实服务按其自身较慢的速率请求）。",
    )
    if stage.applied_from is not None:
        told += "\n" + screen.text(
            f"{wish.source} was not applied yet: {stage.applied_from} is now, without its schedules, which would call"
            " the real service.",
            f"此前未应用 {wish.source}：现已应用 {stage.applied_from}，但不含会调用真实服务的计划任务。",
        )
    return told


@contextmanager
def _interrupts(stop: asyncio.Event, view: "Nothing") -> Iterator[None]:
    """The first Ctrl-C asks, the second does not wait for the answer."""
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if stop.is_set():
            view.__exit__()  # the terminal gets its cursor back
            sys.stderr.flush()
            os._exit(130)
        stop.set()

    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, on_signal)
    try:
        yield
    finally:
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(each)


# --- in the end --------------------------------------------------------------------------------------------
def as_json(wish: Wish, ended: "Ended") -> dict[str, Any]:
    standing, progress = ended.standing, ended.standing.progress
    window = (progress.window_from, progress.window_to)
    return {
        "source": wish.source,
        "operation": str(wish.operation),
        "outcome": {0: "done", 1: "failed", 130: "interrupted"}[ended.exit_code],
        "sentence": ended.sentence and ended.sentence.in_language(screen.language()),
        "plan": standing.plan_id,
        "plans": sorted(standing.plans),
        "window": None if None in window else [each.isoformat() for each in window if each],
        "tasks": {"total": progress.tasks, "done": progress.done, "failed": progress.failed},
        "items": {
            "new": progress.inserted, "changed": progress.updated, "unchanged": progress.skipped,
            "quarantined": progress.quarantined,
        },
        "requests": progress.requests,
        "seconds": round(standing.seconds, 3),
        "waited": round(standing.waited, 3),
        "waits_for": ended.waits_for,
        "errors": [
            {"code": each.code, "message": each.message, "from": each.window_from and each.window_from.isoformat()}
            for each in ended.troubles
        ],
    }  # fmt: skip


def conclude(wish: Wish, ended: "Ended") -> None:
    from penstock.cli.harvest.run_screen import items_line, plan_line, rate_line

    console, standing = screen.console(), ended.standing
    if ended.is_interrupted:
        console.print(Text(_stopped(standing), style="yellow"))
    elif ended.exit_code:
        console.print(Text("✗ " + _failed(wish, ended), style="red"))
    else:
        console.print(Text.assemble(("✓ ", "green"), _done(ended)))
    if standing.plans:
        console.print(Text(f"  {plan_line(standing)}"), soft_wrap=True)
        console.print(Text(f"  {items_line(standing)}; {rate_line(standing)}"), soft_wrap=True)
    if not ended.exit_code and standing.items:
        hint = f"penstock harvest records {wish.source}"
        console.print(Text("  " + screen.text(f"`{hint}` shows them.", f"可用 {hint} 查看。"), style="dim"))


def _done(ended: "Ended") -> str:
    """Nothing new is the usual end of a second run: it is said in so many words."""
    standing, progress = ended.standing, ended.standing.progress
    took = screen.text(f"Done in {standing.seconds:.1f} s.", f"完成，用时 {standing.seconds:.1f} s。")
    if progress.inserted + progress.updated + progress.quarantined:
        return took
    new = screen.text("Nothing new.", "没有新内容。")
    said = ended.sentence.in_language(screen.language()) if ended.sentence and not standing.items else ""
    return f"{new} {said or took}"


def _stopped(standing: Any) -> str:
    progress = standing.progress
    if not progress.tasks:
        return screen.text(
            "Stopped before anything was fetched. The same command begins again.",
            "已停止，尚未采集任何内容。再次运行同一命令即可重新开始。",
        )
    return screen.text(
        f"Stopped with {progress.done:,} of {progress.tasks:,} windows done. What is stored stays;"
        " the same command goes on from here.",
        f"已停止，完成 {progress.done:,}/{progress.tasks:,} 个时间窗。已入库的保留；再次运行同一命令即可继续。",
    )


def _failed(wish: Wish, ended: "Ended") -> str:
    from penstock.cli.harvest.run_screen import code_of, what_happened

    if ended.waits_for == rehearsal.STANDIN_GONE:
        return screen.text(
            "Not finished: another command with --standin has ended and holds the source. Run the same command again.",
            "尚未完成：另一个带 --standin 的命令已结束，并暂停了该数据源。请再次运行同一命令。",
        )
    if ended.waits_for and not ended.troubles:
        return screen.text(
            f"Not finished: the rest waits for {ended.waits_for}. Run the same command later.",
            f"尚未完成：其余部分在等待 {ended.waits_for}。请稍后再次运行同一命令。",
        )
    failed = ended.standing.progress.failed
    said = screen.text(f"{failed:,} {'window' if failed == 1 else 'windows'} failed.", f"{failed:,} 个时间窗失败。")
    if ended.troubles:
        last = ended.troubles[-1]
        code, language = code_of(last.code), screen.language()
        said += f" {what_happened(last.code, last.message)}."
        if code is not None:
            said += f" {code.remedy.in_language(language)}."
    return said + screen.text(
        f" Then run the same command again: it takes up what failed (`penstock harvest status {wish.source}`).",
        f"之后再次运行同一命令，会重新采集失败的部分（penstock harvest status {wish.source}）。",
    )
