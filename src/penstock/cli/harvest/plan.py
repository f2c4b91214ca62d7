"""`penstock harvest plan SOURCE`: what would be fetched, or queue it for the executors."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from penstock.cli import screen
from penstock.cli.harvest.asking import RECORDS, Params, Records, Since, Standin, Until, read_moment, read_params
from penstock.cli.harvest.carrying import Wish, pointed
from penstock.cli.harvest.desk import open_desk
from penstock.cli.harvest.reaching import OfEndpoint, SourceCode
from penstock.cli.options import AsJson, Data
from penstock.harvest.spec import Operation

if TYPE_CHECKING:
    from penstock.harvest.planning import Outcome, Preview, PreviewSlice

_SHOWN = 40
_DEGRADATIONS = {
    "noCount": ("the source gives no numbers: estimates come from experience", "来源不提供总数：估计来自经验"),
    "orderNotStated": ("the order of the answers is not stated", "未声明结果的排序"),
    "noWindows": ("the source has no windows of time: everything is read", "来源不支持时间窗：会读取全部"),
    "hasNextByPageSize": ("the last page is known only by being short", "只能由不满的一页判断结束"),
    "clientFilter": (
        "the source cannot filter by time: we drop what is outside",
        "来源不能按时间过滤：由我们丢弃窗外内容",
    ),
}


def register(app: typer.Typer) -> None:
    app.command("plan", epilog="Example: penstock harvest plan crossref --since 2026-01-01 --dry-run")(plan)


def plan(  # noqa: PLR0913  one parameter for each option
    source: SourceCode,
    *,
    operation: Annotated[Operation, typer.Option(case_sensitive=False, help="What kind of work.")] = Operation.HARVEST,
    since: Since = None,
    until: Until = None,
    endpoint: OfEndpoint = None,
    param: Params = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the slices, and queue nothing.")] = False,
    standin: Standin = False,
    records: Records = RECORDS,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Queue what is missing, for the executors; or show what that would be, with estimates.

    Estimates may cost the source a few requests.
    """
    wish = Wish(
        source, data, endpoint, operation, read_moment(since, "--since"), read_moment(until, "--until"),
        read_params(param), standin=records if standin else None, as_json=as_json,
    )  # fmt: skip
    if standin and not dry_run:
        raise screen.Refusal(
            "A stand-in serves as long as a command runs: use `penstock harvest run --standin`, or add --dry-run.",
            "替身只在命令运行期间提供服务：请用 penstock harvest run --standin，或加 --dry-run。",
        )
    if dry_run:
        seen = asyncio.run(_preview(wish))
        screen.print_json(preview_json(seen)) if as_json else _show(seen)
    else:
        asyncio.run(queue(wish))


async def _preview(wish: Wish) -> "Preview":
    from penstock.cli.harvest.run_screen import view_for

    async with open_desk(wish.data) as desk, pointed(desk, wish, view_for(wish.source, quiet=True)) as trigger:
        return await desk.planner.preview(trigger)


async def queue(wish: Wish) -> None:
    """Plan it and leave it to the executors."""
    from penstock.cli.harvest.run_screen import view_for

    async with open_desk(wish.data) as desk, pointed(desk, wish, view_for(wish.source, quiet=True)) as trigger:
        outcome = await desk.planner.plan(trigger)
    if wish.as_json:
        screen.print_json(_outcome_json(outcome))
    else:
        _say(wish, outcome)


def _outcome_json(outcome: "Outcome") -> dict[str, Any]:
    return {
        "plan": outcome.plan_id, "status": outcome.status, "slices": outcome.slices, "tasks": outcome.tasks,
        "remarks": dict(outcome.remarks),
        "sentence": outcome.sentence and outcome.sentence.in_language(screen.language()),
    }  # fmt: skip


def _say(wish: Wish, outcome: "Outcome") -> None:
    console = screen.console()
    if outcome.plan_id is None:
        console.print(Text(outcome.sentence.in_language(screen.language()) if outcome.sentence else ""))
        return
    said = screen.text(
        f"Plan {outcome.plan_id}: {outcome.tasks:,} tasks are queued.",
        f"计划 {outcome.plan_id}：已有 {outcome.tasks:,} 个任务入队。",
    )
    console.print(Text.assemble(("✓ ", "green"), said))
    hint = screen.text(
        f"  Executors work on it; `penstock harvest status {wish.source}` shows how far they are.",
        f"  由执行器处理；可用 penstock harvest status {wish.source} 查看进度。",
    )
    console.print(Text(hint, style="dim"))


# --- dry run -----------------------------------------------------------------------------------------------
def preview_json(seen: "Preview") -> dict[str, Any]:
    return {
        "strategy": seen.strategy,
        "window": None if seen.window is None else [seen.window.start.isoformat(), seen.window.end.isoformat()],
        "namespace": seen.namespace,
        "slices": [
            {"slice_no": each.slice_no, "requests": each.requests, **each.spec.stored()} for each in seen.slices
        ],
        "is_cut_short": seen.is_cut_short,
        "seconds": seconds_of(seen),
        "remarks": dict(seen.remarks),
        "sentence": seen.sentence and seen.sentence.in_language(screen.language()),
    }


def seconds_of(seen: "Preview") -> float:
    """At the source's rate, were there nothing else to do."""
    limit = seen.spec.rate_limit
    return sum(each.requests for each in seen.slices) / (limit.qps * limit.pace)


def _show(seen: "Preview") -> None:
    from penstock.cli.harvest.run_screen import lasting, moment

    console = screen.console()
    if seen.sentence is not None:
        console.print(Text(seen.sentence.in_language(screen.language())))
        return
    if seen.window is not None:
        span = f"{moment(seen.window.start)} – {moment(seen.window.end)} UTC"
        screen.print_labelled(console, screen.text("Window", "时间窗"), span)
    requests = sum(each.requests for each in seen.slices)
    items = sum(each.spec.total_estimated or 0 for each in seen.slices)
    screen.print_labelled(console, screen.text("Items", "条目"), screen.text(f"about {items:,}", f"约 {items:,}"))
    rate = f"{seen.spec.rate_limit.qps:g}"
    took = lasting(seconds_of(seen))
    screen.print_labelled(
        console,
        screen.text("Requests", "请求"),
        screen.text(f"about {requests:,}: {took} at {rate} a second", f"约 {requests:,} 次：每秒 {rate} 次需 {took}"),
    )
    for name in seen.remarks.get("degradation", ()):
        said = screen.text(*_DEGRADATIONS.get(name, (name, name)))
        screen.print_labelled(console, screen.text("Note", "注意"), said)
    columns = [
        screen.text("Slice", "切片"), screen.text("What", "内容"), screen.text("Items", "条目"),
        screen.text("Requests", "请求"),
    ]  # fmt: skip
    console.print(screen.table(columns, [_row(each) for each in seen.slices[:_SHOWN]]))
    more = len(seen.slices) - _SHOWN
    if more > 0 or seen.is_cut_short:
        said = screen.text(
            f"… and {max(more, 1):,} more (--json shows all)", f"…… 另有 {max(more, 1):,} 个（--json 显示全部）"
        )
        console.print(Text(said, style="dim"))


def _row(each: "PreviewSlice") -> list[str | Text]:
    estimated = each.spec.total_estimated
    return [
        str(each.slice_no), what_of(each), "?" if estimated is None else f"{estimated:,}", f"{each.requests:,}",
    ]  # fmt: skip


def what_of(each: "PreviewSlice") -> str:
    from penstock.cli.harvest.run_screen import moment

    bounds = each.spec.bounds
    if bounds.time is not None:
        return f"{moment(bounds.time.from_)} – {moment(bounds.time.to)}"
    if bounds.page is not None:
        return screen.text(
            f"pages {bounds.page.from_page + 1}–{bounds.page.to_page}",
            f"第 {bounds.page.from_page + 1}–{bounds.page.to_page} 页",
        )
    if bounds.id is not None:
        count = bounds.id.end - bounds.id.start
        first, last = screen.printable(bounds.id.from_), screen.printable(bounds.id.to)
        return screen.text(f"{count:,} ids, {first} … {last}", f"{count:,} 个标识，{first} … {last}")
    return screen.text("everything", "全部")
