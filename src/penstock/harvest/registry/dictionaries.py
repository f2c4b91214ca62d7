"""The code space: every code that stands in a `reg_*` or `ing_*` table, with its names for people.

Seeded whenever a source is applied, so that codes of a newer release are there before something uses them. Rows that
an operator changed or switched off stay so. Aliases: the code in lower case, and what others call it.
"""

from collections.abc import Mapping

from penstock.harvest.registry import dictionary_store
from penstock.harvest.registry.dictionary_store import Dictionary, Item
from penstock.kernel.db import Tx


def _d(code: str, zh: str, en: str, *items: Item) -> Dictionary:
    return Dictionary(code, zh, en, items)


DICTIONARIES = (
    _d("http_method", "HTTP 方法", "HTTP method",
       Item("GET", "读取", "Read"), Item("POST", "提交", "Send")),
    _d("ing_operation", "采集操作", "Operation",
       Item("HARVEST", "增量采集", "Harvest", ("incremental",)), Item("BACKFILL", "历史回填", "Backfill"),
       Item("UPDATE", "刷新", "Update", ("refresh",))),
    _d("ing_cursor_type", "游标类型", "Cursor type",
       Item("TIME", "时间", "Time"), Item("ID", "编号", "Id"), Item("TOKEN", "令牌", "Token")),
    _d("ing_namespace_scope", "游标命名空间", "Cursor namespace",
       Item("GLOBAL", "全局", "Global"), Item("EXPR", "按表达式", "By expression"), Item("CUSTOM", "自定义", "Custom")),
    _d("ing_direction", "游标方向", "Cursor direction",
       Item("FORWARD", "向前", "Forward"), Item("BACKFILL", "回填", "Backfill")),
    _d("ing_slice_strategy", "切片方式", "Way of slicing",
       Item("TIME", "时间窗", "Window"), Item("PAGE", "分页", "Pages"), Item("ID", "编号", "Ids"),
       Item("SCAN", "顺序扫描", "Scan")),
    _d("ing_trigger_type", "触发方式", "Trigger",
       Item("MANUAL", "人工", "By hand"), Item("SCHEDULED", "定时", "Scheduled"),
       Item("RESLICE", "再切片", "Re-slice")),
    _d("ing_scheduler", "触发来源", "Triggered by",
       Item("CLI", "命令行", "Command line"), Item("API", "接口", "API"), Item("SCHEDULE", "定时计划", "Schedule")),
    _d("ing_fault", "隔离原因", "Reason of quarantine",
       Item("NO_ID", "没有编号", "No id"), Item("BAD_UPDATED_AT", "更新时间无效", "Time of update not readable"),
       Item("FIELD_MISSING", "缺少字段", "A field is missing"), Item("NOT_READABLE", "无法读取", "Not readable"),
       Item("NO_DETAIL", "没有详情", "No details")),
    _d("reg_auth_type", "鉴权方式", "Authentication",
       Item("NONE", "无", "None"), Item("API_KEY", "API 密钥", "API key", ("apikey",)),
       Item("BEARER", "持有者令牌", "Bearer token"), Item("OAUTH2", "OAuth 2.0 客户端", "OAuth 2.0 client"),
       Item("CUSTOM", "自定义签名", "Signing hook")),
    _d("reg_pagination_type", "分页方式", "Pagination",
       Item("OFFSET", "偏移", "Offset"), Item("PAGE", "页号", "Page number"),
       Item("TOKEN", "令牌", "Token", ("cursor",)), Item("URL", "下一页地址", "Next address"),
       Item("TIME", "时间", "Time")),
    _d("reg_endpoint_role", "端点用途", "Role of an endpoint",
       Item("SEARCH", "检索", "Search"), Item("DETAIL", "详情", "Details"), Item("METRICS", "指标", "Metrics")),
    _d("reg_param_location", "参数位置", "Place of a parameter",
       Item("QUERY", "查询参数", "Query"), Item("HEADER", "请求头", "Header"), Item("BODY", "请求体", "Body"),
       Item("PATH", "路径", "Path")),
    _d("reg_field_kind", "字段类别", "Kind of field",
       Item("RESPONSE", "响应路径", "Path into the answer"), Item("OUTPUT", "输出字段", "Mapped field")),
    _d("reg_response_format", "响应格式", "Format of answers", Item("JSON", "JSON", "JSON"), Item("XML", "XML", "XML")),
)  # fmt: skip


async def seed(tx: Tx) -> None:
    """Idempotent."""
    await dictionary_store.insert(tx, DICTIONARIES)


async def known_codes(tx: Tx) -> Mapping[str, frozenset[str]]:
    """The codes in use of each type, aliases included: ours, but for those switched off, and those that were added."""
    codes = {each.code: {word for item in each.items for word in (item.code, *item.aliases)} for each in DICTIONARIES}
    for row in await dictionary_store.items(tx):
        known = codes.setdefault(row["type_code"], set())
        words = {row["item_code"], *row["aliases"]}
        codes[row["type_code"]] = known | words if row["is_active"] else known - words
    return {code: frozenset(known) for code, known in codes.items()}
