"""Rule 3: the stretches of time that are asked for fit the source's steps, filters and order."""

from collections.abc import Iterator
from datetime import timedelta

from penstock.harvest.compiling.problems import Case, Complaint, Found, Part, Rule
from penstock.harvest.compiling.templates import mention
from penstock.harvest.spec import CursorType, PageType, Window

UNITS = {
    "sec": timedelta(seconds=1),
    "min": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
}


def _check(case: Case) -> Found:
    if case.main.by_id:  # records that we have are fetched without a window
        return
    window = case.main.sections.window
    for complaint in (*_widths(window), *_signs(window), *_filter(case.main)):
        yield case.main, complaint
    if not window.watermark_key:
        yield case.main, Complaint("window.watermarkKey", "缺少水位键", "say which time moves forward, e.g. updated_at")


def _widths(window: Window) -> Iterator[Complaint]:
    if window.max_window < window.min_window:
        yield Complaint("window.maxWindow", "maxWindow 小于 minWindow", "maxWindow is less than minWindow")
    if window.min_window < window.granularity:
        yield Complaint("window.minWindow", "minWindow 小于 granularity", "minWindow is less than granularity")
    if window.max_window % UNITS[window.align]:
        yield Complaint(
            "window.align",
            f"窗口宽度 maxWindow 不是对齐单位 {window.align} 的整数倍",
            f"maxWindow is not a whole number of what align says ({window.align})",
        )


def _signs(window: Window) -> Iterator[Complaint]:
    for key, span in (("safetyLag", window.safety_lag), ("overlap", window.overlap)):
        if span < timedelta(0):
            yield Complaint(f"window.{key}", "不能为负", "must not be negative")
    for key, span in (("granularity", window.granularity), ("initial", window.initial)):
        if span <= timedelta(0):
            yield Complaint(f"window.{key}", "必须大于 0", "must be more than 0")


def _filter(part: Part) -> Iterator[Complaint]:
    window = part.sections.window
    if window.supports_updated_since:
        if not mention(part.sections, "window"):
            yield Complaint(
                "window.supportsUpdatedSince",
                "没有模板使用 window.from 或 window.to",
                "no template uses window.from or window.to",
            )
        return
    by_time = window.cursor_type is CursorType.TIME
    if by_time and not window.client_filter and not _is_read_whole(part):
        yield Complaint(
            "window.clientFilter",
            "源不支持 updatedSince，必须由客户端过滤",
            "the source cannot filter by time: clientFilter is needed",
        )
    if not window.monotonic or (by_time and not part.sections.pagination.order_by):
        yield Complaint(
            "window.monotonic",
            "源不支持 updatedSince，必须有稳定单调的排序（orderBy 与 monotonic）",
            "the source cannot filter by time: its order must be stable (pagination.orderBy and monotonic)",
        )
    if window.client_filter and part.sections.response.updated_at_from == "WINDOW":
        yield Complaint(
            "window.clientFilter",
            "客户端过滤需要记录自己的更新时间，updatedAtFrom 不能是 WINDOW",
            "clientFilter needs the time of each item: updatedAtFrom must not be WINDOW",
        )


def _is_read_whole(part: Part) -> bool:
    """By stretches of pages, everything each time: pages must not move under the reader."""
    return part.sections.window.monotonic and part.sections.pagination.type in {PageType.PAGE, PageType.OFFSET}


WINDOWS = Rule(3, "window", "时间窗支持与排序一致", "windows fit the source's filters and order", _check)
