"""What a harvest under way looks like: drawn anew in a terminal, lines elsewhere, nothing beside JSON. On stderr."""

import time
from datetime import UTC, datetime
from typing import Any, Self

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from penstock.cli import screen
from penstock.cli.harvest.running import Standing
from penstock.cli.screen import printable
from penstock.harvest.overview import Trouble
from penstock.kernel import error_codes
from penstock.kernel.errors import ErrorCode

_LINE_SECONDS = 5.0
_PHASES = {
    "begin": ("looking", "检查中"),
    "left": ("going on with what was left", "继续先前留下的任务"),
    "plan": ("planning what is missing", "正在规划缺少的部分"),
    "work": ("harvesting", "采集中"),
}
REASONS = {
    "rate": ("the rate limit", "速率限制"),
    "cooldown": ("the source wants a pause", "来源要求暂停"),
    "stand-in stopped": ("its stand-in is stopped", "替身未运行"),
}


def view_for(title: str, *, quiet: bool) -> "Nothing":
    if quiet:
        return Nothing(title)
    return Drawn(title) if screen.console(stderr=True).is_terminal else Lines(title)


class Nothing:
    """For programs."""

    def __init__(self, title: str) -> None:
        self.title = title

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...
    def say(self, said: str, style: str = "") -> None: ...
    def show(self, standing: Standing) -> None: ...
    def trouble(self, trouble: Trouble) -> None: ...
    def stopping(self) -> None: ...


class Lines(Nothing):
    """For logs: a line now and then, and each trouble."""

    def __init__(self, title: str) -> None:
        super().__init__(title)
        self._console = screen.console(stderr=True)
        self._said, self._phase = 0.0, ""

    def say(self, said: str, style: str = "") -> None:
        self._console.print(Text(said, style=style))

    def show(self, standing: Standing) -> None:
        is_new = standing.phase != self._phase
        if not is_new and time.monotonic() - self._said < _LINE_SECONDS:
            return
        self._said, self._phase = time.monotonic(), standing.phase
        told = [screen.text(*_PHASES[standing.phase])]
        if standing.progress.tasks:
            told += [windows_line(standing), items_line(standing), rate_line(standing), *notes(standing)]
        self.say(f"{self.title}: {'; '.join(told)}")

    def trouble(self, trouble: Trouble) -> None:
        self.say(f"{self.title}: {trouble_line(trouble)}", "yellow")

    def stopping(self) -> None:
        said = screen.text(
            "Stopping: what is in hand is finished or given back (Ctrl-C again leaves at once).",
            "正在停止：手头的批次会完成或归还（再按 Ctrl-C 立即退出）。",
        )
        self.say(said, "dim")


class Drawn(Lines):
    """For people."""

    def __init__(self, title: str) -> None:
        super().__init__(title)
        self._live = Live(Text(""), console=self._console, auto_refresh=False, transient=True)
        self._drawn = 0.0

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, standing: Standing) -> None:
        if time.monotonic() - self._drawn < 0.1:
            return
        self._drawn = time.monotonic()
        self._live.update(_picture(self.title, standing), refresh=True)


def _picture(title: str, standing: Standing) -> RenderableType:
    progress = standing.progress
    head = Text.assemble((printable(title), "bold"), "  ", (screen.text(*_PHASES[standing.phase]), "dim"))
    if standing.plans:
        head.append(f"  {plan_line(standing)}", style="dim")
    if not progress.tasks:
        return _short(head)
    bar = Table.grid(padding=(0, 2))
    bar.add_column(width=30)
    bar.add_column(no_wrap=True)
    drawn = ProgressBar(total=max(1, progress.tasks), completed=progress.done, width=30)
    bar.add_row(drawn, Text(f"{windows_line(standing)}  {rate_line(standing)}"))
    lines = [Text(items_line(standing)), *(Text(each, style="yellow") for each in notes(standing))]
    return Group(_short(head), bar, *(_short(each) for each in lines))


def _short(line: Text) -> Text:
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def plan_line(standing: Standing) -> str:
    progress = standing.progress
    number = standing.plan_id or max(standing.plans)
    if progress.window_from is None or progress.window_to is None:
        return screen.text(f"plan {number}", f"计划 {number}")
    span = f"{moment(progress.window_from)} – {moment(progress.window_to)} UTC"
    return screen.text(f"plan {number}, {span}", f"计划 {number}，{span}")


def windows_line(standing: Standing) -> str:
    progress = standing.progress
    said = screen.text(f"{progress.done:,}/{progress.tasks:,} windows", f"时间窗 {progress.done:,}/{progress.tasks:,}")
    if progress.failed:
        said += screen.text(f", {progress.failed:,} failed", f"，失败 {progress.failed:,}")
    left = seconds_left(standing)
    return said if left is None else said + screen.text(f"  ETA {lasting(left)}", f"  预计剩余 {lasting(left)}")


def rate_line(standing: Standing) -> str:
    rate = standing.items / max(standing.seconds, 0.5)
    return screen.text(f"{rate:,.0f} items/s", f"每秒 {rate:,.0f} 条")


def items_line(standing: Standing) -> str:
    progress = standing.progress
    requests = max(progress.requests, standing.own.requests)
    return screen.text(
        f"{_number(standing.items, 'item')}: {progress.inserted:,} new, {progress.updated:,} changed,"
        f" {progress.skipped:,} unchanged, {progress.quarantined:,} quarantined; {_number(requests, 'request')}",
        f"条目 {standing.items:,}：新增 {progress.inserted:,}，更新 {progress.updated:,}，未变 {progress.skipped:,}，"
        f"隔离 {progress.quarantined:,}；请求 {requests:,} 次",
    )


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def notes(standing: Standing) -> list[str]:
    """Who or what we wait for."""
    progress, told = standing.progress, []
    if standing.waited >= 1:
        told.append(screen.text(
            f"requests have waited {lasting(standing.waited)} in all for the rate limit",
            f"各请求为速率限制共等待 {lasting(standing.waited)}",
        ))  # fmt: skip
    if progress.resting_until is not None and progress.now is not None:
        left = lasting((progress.resting_until - progress.now).total_seconds())
        why = reason(progress.resting_reason)
        told.append(screen.text(f"resting for another {left}: {why}", f"暂停中，剩余 {left}：{why}"))
    if others := standing.elsewhere:
        tasks, names = sum(others.values()), ", ".join(printable(name or "?") for name in sorted(others))
        said = screen.text(
            f"{tasks} {'task is' if tasks == 1 else 'tasks are'} held by {names}", f"{tasks} 个任务由 {names} 持有"
        )
        if progress.held_until is not None and progress.now is not None and not progress.queued:
            left = lasting(max(0.0, (progress.held_until - progress.now).total_seconds()))
            said += screen.text(f"; if it has died, they come free within {left}", f"；若其已退出，将在 {left} 内释放")
        told.append(said)
    elif progress.next_at is not None and progress.now is not None and progress.next_at > progress.now:
        left = lasting((progress.next_at - progress.now).total_seconds())
        told.append(screen.text(f"the next attempt is in {left}", f"{left} 后再次尝试"))
    return told


def seconds_left(standing: Standing) -> float | None:
    """By estimates where the source gives numbers, else by windows; nothing before there is experience."""
    progress = standing.progress
    left = progress.tasks - progress.done - progress.failed
    done = progress.done - standing.done_before
    if left <= 0 or standing.seconds < 1:
        return None
    if progress.expected and standing.items:
        return progress.expected * standing.seconds / standing.items
    return left * standing.seconds / done if done > 0 else None


def trouble_line(trouble: Trouble) -> str:
    """What happened, and what follows from it."""
    code = code_of(trouble.code)
    said = what_happened(trouble.code, trouble.message)
    where = f"{moment(trouble.window_from)}: " if trouble.window_from else ""
    if trouble.status == "FAILED":
        remedy = f" {code.remedy.in_language(screen.language())}" if code else ""
        follows = screen.text(f"given up.{remedy}", f"已放弃。{remedy}")
    else:
        follows = screen.text("it is tried again", "将再次尝试")
    return f"{where}{said}; {follows}"


def what_happened(name: str, circumstances: str) -> str:
    """The sentence of a code, and what is special about this case."""
    code, more = code_of(name), printable(circumstances)
    if code is None:
        return f"{more or name} ({name})" if more else name
    return f"{code.message.in_language(screen.language())} ({', '.join(filter(None, (name, more)))})"


def code_of(name: str) -> ErrorCode | None:
    found: Any = getattr(error_codes, name, None)
    return found if isinstance(found, ErrorCode) else None


def reason(name: str | None) -> str:
    if name is None:
        return "?"
    if code := code_of(name):
        return code.message.in_language(screen.language())
    return screen.text(*REASONS.get(name, (name, name)))


def moment(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def lasting(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.0f} h"
