"""Rule 8: direction, cursor and namespace fit the operation, so that no operation moves another's watermark."""

from penstock.harvest.compiling.problems import Case, Complaint, Found, Rule
from penstock.harvest.spec import CursorType, Operation, PageType

_SCANS = frozenset({PageType.TOKEN, PageType.URL})


def _check(case: Case) -> Found:
    for complaint in (*_cursor(case), *_namespace(case)):
        yield case.main, complaint
    if case.main.role == "DETAIL" and case.operation is not Operation.UPDATE:
        yield (
            case.main,
            Complaint(
                "role",
                f"DETAIL 端点只能按 ID 获取，不能用于 {case.operation}",
                f"a DETAIL endpoint answers for given ids only: not for {case.operation}",
            ),
        )


def _cursor(case: Case) -> list[Complaint]:
    cursor = case.main.sections.window.cursor_type
    if case.operation is Operation.BACKFILL and cursor is not CursorType.TIME:
        return [
            Complaint(
                "window.cursorType",
                "BACKFILL 只能沿时间向过去推进",
                "BACKFILL goes back in time: cursorType must be TIME",
            )
        ]
    pages = case.main.sections.pagination.type
    if case.operation is Operation.HARVEST and cursor is CursorType.TOKEN and pages not in _SCANS:
        return [
            Complaint(
                "window.cursorType",
                "TOKEN 游标需要 TOKEN 或 URL 分页，否则无法前进",
                "a TOKEN cursor moves forward only with TOKEN or URL pagination",
            )
        ]
    return []


def _namespace(case: Case) -> list[Complaint]:
    window = case.main.sections.window
    said = case.main.merged.origins.get("window.namespace")
    if case.operation is not Operation.HARVEST and said is not None and said.level == "run":
        return [
            Complaint(
                "window.namespace",
                f"{case.operation} 使用自己的命名空间，不能指定",
                f"{case.operation} has a namespace of its own: it cannot be chosen",
            )
        ]
    if case.operation is Operation.HARVEST and window.namespace == "GLOBAL" and case.main.sections.params:
        return [
            Complaint(
                "window.namespace",
                "带 params 的端点不能共用 GLOBAL 水位，否则会漏数",
                "an endpoint with params cannot share the GLOBAL watermark: records would be left out",
            )
        ]
    others = [] if window.namespace != "GLOBAL" else _others_with_global(case)
    if case.operation is Operation.HARVEST and others:
        return [
            Complaint(
                "window.namespace",
                f"端点 {others[0]} 也使用 GLOBAL 水位：一个端点读过的时间窗会被另一个当作已入库，造成漏数",
                f"{others[0]} uses the GLOBAL watermark too: what one of them has read would count as stored for both",
            )
        ]
    return []


def _others_with_global(case: Case) -> list[str]:
    """Other endpoints to search that say GLOBAL at any level."""
    source = case.source
    return [
        name
        for name, endpoint in source.endpoints.items()
        if name != case.main.endpoint_name and endpoint.role == "SEARCH"
        if any(level.sections.get("window", {}).get("namespace") == "GLOBAL" for level in source.levels(name))
    ]


OPERATIONS = Rule(8, "operation", "命名空间与方向符合操作类型", "cursor and namespace fit the operation", _check)
