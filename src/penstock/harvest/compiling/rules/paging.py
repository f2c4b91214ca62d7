"""Rule 2: the kind of pagination has the paths and variables that it needs, and none of another kind."""

from collections.abc import Iterator
from datetime import timedelta

from penstock.harvest.compiling.problems import Case, Complaint, Found, Part, Rule
from penstock.harvest.compiling.templates import mention
from penstock.harvest.spec import PageType, Pagination

# What only one kind of pagination knows. Two kinds at once cannot both be meant.
_OWN = {
    "nextTokenPath": {PageType.TOKEN},
    "initialToken": {PageType.TOKEN},
    "nextUrlPath": {PageType.URL},
    "initialUrl": {PageType.URL},
    "base1": {PageType.PAGE},
}
# Without its variable in a template every request would ask for the first page again.
_VARIABLE = {PageType.OFFSET: "page.offset", PageType.PAGE: "page.no", PageType.TOKEN: "page.token"}


def _check(case: Case) -> Found:
    for part in case.parts:
        pagination = part.sections.pagination
        found = [*_sizes(pagination)]
        if pagination.type is not None:
            found += [*_needs(pagination), *_excludes(pagination)]
        if not part.by_id:
            found += _pages(part)
        for complaint in found:
            yield part, complaint


def _sizes(pagination: Pagination) -> Iterator[Complaint]:
    size = pagination.page_size
    for key, limit in (("maxPageSize", pagination.max_page_size), ("ceiling", pagination.ceiling)):
        if limit is not None and size > limit:
            yield Complaint(
                "pagination.pageSize",
                f"pageSize {size} 超过 {key} {limit}",
                f"pageSize {size} is more than {key} {limit}",
            )
    if pagination.initial_offset < 0:
        yield Complaint("pagination.initialOffset", "不能小于 0", "must not be less than 0")
    for key, span in (("timeStep", pagination.time_step), ("tokenTtl", pagination.token_ttl)):
        if span is not None and span <= timedelta(0):
            yield Complaint(f"pagination.{key}", "必须大于 0", "must be more than 0")


def _needs(pagination: Pagination) -> Iterator[Complaint]:
    if pagination.type is PageType.TOKEN and not pagination.next_token_path:
        yield Complaint("pagination.nextTokenPath", "TOKEN 分页必须有 nextTokenPath", "TOKEN needs nextTokenPath")
    if pagination.type is PageType.URL and not pagination.next_url_path:
        yield Complaint("pagination.nextUrlPath", "URL 分页必须有 nextUrlPath", "URL needs nextUrlPath")
    if pagination.type is PageType.PAGE and pagination.base1 is None:
        yield Complaint(
            "pagination.base1",
            "PAGE 分页必须说明第一页是 1 还是 0",
            "PAGE needs base1: is the first page 1 (true) or 0 (false)?",
        )


def _excludes(pagination: Pagination) -> Iterator[Complaint]:
    said = pagination.model_dump(by_alias=True)
    for key, kinds in _OWN.items():
        if said[key] is not None and pagination.type not in kinds:
            kind = next(iter(kinds))
            yield Complaint(
                f"pagination.{key}",
                f"{key} 属于 {kind} 分页，与 {pagination.type} 互斥",
                f"{key} belongs to {kind} and excludes {pagination.type}",
            )
    if pagination.initial_offset and pagination.type is not PageType.OFFSET:
        yield Complaint(
            "pagination.initialOffset",
            f"initialOffset 属于 OFFSET 分页，与 {pagination.type} 互斥",
            f"initialOffset belongs to OFFSET and excludes {pagination.type}",
        )


def _pages(part: Part) -> Iterator[Complaint]:
    pagination, window = part.sections.pagination, part.sections.window
    if pagination.type is None:
        yield Complaint("pagination.type", "缺少分页类型", "say how pages follow each other")
    elif pagination.type is PageType.TIME:
        ordered = pagination.order_by is not None and window.monotonic
        if not (window.supports_updated_since or ordered):
            yield Complaint(
                "pagination.type",
                "TIME 分页需要 supportsUpdatedSince，或 orderBy 与 monotonic",
                "TIME needs window.supportsUpdatedSince, or orderBy and window.monotonic",
            )
    else:
        variable = _VARIABLE.get(pagination.type)
        if variable is not None and not mention(part.sections, variable):
            yield Complaint(
                "http.queryTemplate",
                f"没有模板使用 {variable}，每次都会取到第一页",
                f"no template uses {variable}: every request would fetch the first page",
            )


PAGING = Rule(2, "pagination", "分页类型与所需路径一致", "the kind of pagination has what it needs", _check)
