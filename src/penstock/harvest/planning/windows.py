"""Which stretch of time a plan is for, and what of it is still to do. Pure: a cursor and a clock go in.

Invariant: a plan never reaches beyond now less the safety lag, and never asks for what is stored or being fetched,
except the overlap right below the watermark, which each harvest reads again on purpose.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from penstock.harvest.cursors import Cursor
from penstock.harvest.planning.slicing import Grid
from penstock.harvest.slices import Span
from penstock.harvest.spec import Spec
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError, Sentence


@dataclass(frozen=True, slots=True)
class Wish:
    """What the trigger says of time, and what the clocks say."""

    since: datetime | None
    until: datetime | None
    now: datetime
    clock_behind: timedelta = timedelta(0)  # of the source against ours


@dataclass(frozen=True, slots=True)
class Stretch:
    """The window of a plan."""

    window: Span
    origin: datetime  # where its cursor begins, if it is new
    rereads: Span | None = None  # stored already, and wanted again


def safe_end(spec: Spec, wish: Wish) -> datetime:
    """What is older than this no longer changes under our hands."""
    lags = [spec.window.safety_lag] + ([spec.detail.window.safety_lag] if spec.detail else [])
    return Grid.of(spec.window).floor(wish.now - max(lags) - max(wish.clock_behind, timedelta(0)))


def harvest_stretch(spec: Spec, wish: Wish, cursor: Cursor | None) -> Stretch | Sentence:
    """From the watermark to the safe end; a sentence when there is nothing to do."""
    end = safe_end(spec, wish)
    if wish.until is not None:
        end = min(end, Grid.of(spec.window).floor(wish.until))
    if cursor is None or cursor.origin is None:
        return _first_stretch(spec, wish, end)
    watermark = cursor.instant or cursor.origin
    _check_since(wish, cursor.origin, watermark)
    if end <= watermark:
        return Sentence(
            zh=f"没有可采集的内容：{_shown(watermark)} 之前的已全部入库，安全延迟之外没有更新的时间窗。",
            en=f"Nothing to do: everything up to {_shown(watermark)} is stored, and what is newer is not yet safe.",
        )
    grid = Grid.of(spec.window)
    start = max(grid.step_floor(cursor.origin), grid.floor(watermark - spec.window.overlap))
    return Stretch(Span(start, end), cursor.origin, Span(start, watermark) if start < watermark else None)


def _first_stretch(spec: Spec, wish: Wish, end: datetime) -> Stretch | Sentence:
    start = Grid.of(spec.window).floor(wish.since or spec.window.earliest or wish.now - spec.window.initial)
    if start < end:
        return Stretch(Span(start, end), start)
    if wish.since is not None or wish.until is not None:
        raise _invalid(
            "the window is empty", "since 必须早于 until 与当前时间减去安全延迟",
            "since must be earlier than until, and than now less the safety lag", since=start, until=end,
        )  # fmt: skip
    return Sentence(
        zh=f"没有可采集的内容：最早可采集时间 {_shown(start)} 尚未早于安全延迟。",
        en=f"Nothing to do: the harvest begins at {_shown(start)}, and nothing after it is safe yet.",
    )


def _check_since(wish: Wish, origin: datetime, watermark: datetime) -> None:
    if wish.since is None:
        return
    if wish.since < origin:
        raise _invalid(
            "since is earlier than the first harvest", "更早的历史请用 backfill",
            "use backfill for history before the first harvest", since=wish.since, origin=origin,
        )  # fmt: skip
    if wish.since > watermark:
        raise _invalid(
            "since is later than the watermark and would leave a gap", "请不带 since 运行，从水位继续",
            "leave since away: the harvest goes on from the watermark", since=wish.since, watermark=watermark,
        )  # fmt: skip


def backfill_stretch(spec: Spec, wish: Wish, harvest: Cursor | None) -> Stretch:
    """From `since` to `until`, or to where the harvest has begun, or to where it has come."""
    grid, most = Grid.of(spec.window), safe_end(spec, wish)
    since = wish.since or spec.window.earliest
    if since is None:
        raise _invalid("a backfill needs a beginning", "请给出 since", "say since when", until=wish.until)
    start = grid.floor(since)
    if wish.since is wish.until is None and harvest is not None and harvest.origin is not None:
        _check_older(start, harvest.origin)
    end = grid.ceil(wish.until) if wish.until is not None else grid.step_ceil(_default_until(start, harvest, most))
    end = min(end, most)
    if start >= end:
        raise _invalid("the window is empty", "since 必须早于 until", "since must be earlier than until",
                       since=start, until=end)  # fmt: skip
    return Stretch(Span(start, end), end)


def _check_older(start: datetime, origin: datetime) -> None:
    """Reading again what the harvest has stored must be asked for."""
    if start >= origin:
        raise _invalid(
            "the harvest has begun at the source's earliest record", "没有更早的历史；如需重读某一时段，请给出 since",
            "nothing is older; to read a stretch again, say since when", earliest=start, origin=origin,
        )  # fmt: skip


def _default_until(start: datetime, harvest: Cursor | None, most: datetime) -> datetime:
    if harvest is None or harvest.origin is None:
        return most
    return harvest.origin if start < harvest.origin else harvest.instant or harvest.origin


def to_do(window: Span, rereads: Span | None, stored: Iterable[Span], busy: Iterable[Span]) -> list[Span]:
    """What of the window is neither stored nor being fetched, in order."""
    kept = list(stored)
    if rereads is not None:
        kept = minus(kept, [rereads])
    return minus(minus([window], kept), busy)


def on_steps(spans: Iterable[Span], grid: Grid, window: Span) -> list[Span]:
    """The same within the window, on steps that the source knows.

    What is stored or being fetched may end between two of them: when the source could be asked for smaller ones.
    """
    asked = [part for span in spans for part in common(grid.widened(span), [window])]
    return minus([window], minus([window], asked))


def minus(spans: Iterable[Span], taken: Iterable[Span]) -> list[Span]:
    """Both may be in any order and overlap; the result is in order."""
    left: list[Span] = []
    holes = sorted(taken)
    for span in sorted(spans):
        start = span.start
        for hole in holes:
            if hole.end <= start or hole.start >= span.end:
                continue
            if hole.start > start:
                left.append(Span(start, hole.start))
            start = max(start, hole.end)
            if start >= span.end:
                break
        if start < span.end:
            left.append(Span(start, span.end))
    return left


def common(span: Span, spans: Sequence[Span]) -> list[Span]:
    """The parts of the span that lie in the others."""
    pairs = ((max(span.start, each.start), min(span.end, each.end)) for each in spans)
    return [Span(start, end) for start, end in pairs if start < end]


def _shown(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _invalid(reason: str, advice_zh: str, advice_en: str, **facts: datetime | None) -> PenstockError:
    shown = {name: moment.astimezone(UTC).isoformat() for name, moment in facts.items() if moment is not None}
    return PenstockError(
        error_codes.HARVEST_WINDOW_INVALID, reason=reason, advice={"zh": advice_zh, "en": advice_en}, **shown
    )
