"""Codes of the harvest."""

from penstock.kernel.error_codes.table import CRITICAL as _C
from penstock.kernel.error_codes.table import ERROR as _E
from penstock.kernel.error_codes.table import WARNING as _W
from penstock.kernel.error_codes.table import row as _row
from penstock.kernel.errors import Kind

# fmt: off
# --- harvest ------------------------------------------------------------------------------------------------
SOURCE_FILE_INVALID = _row("SOURCE_FILE_INVALID", Kind.INVALID, _E,
    "数据源文件有误", "The source file is not valid",
    "请按 details.problems 中的文件、行与键修改", "Correct the file, line and key named in details.problems")
SOURCE_UNKNOWN = _row("SOURCE_UNKNOWN", Kind.NOT_FOUND, _W,
    "没有这个数据源", "There is no such source",
    "请用 penstock harvest sources 查看已有数据源，或先 apply", "See penstock harvest sources, or apply its file first")
ENDPOINT_UNKNOWN = _row("ENDPOINT_UNKNOWN", Kind.NOT_FOUND, _W,
    "该数据源没有这个端点", "The source has no such endpoint",
    "请查看 details.endpoints", "See details.endpoints")
SPEC_INVALID = _row("SPEC_INVALID", Kind.INVALID, _E,
    "数据源配置未通过一致性检查", "The source's settings do not fit together",
    "请按 details.problems 修改数据源文件并重新 apply", "Correct what details.problems names in the source file and apply it again")
CREDENTIAL_MISSING = _row("CREDENTIAL_MISSING", Kind.BROKEN, _C,
    "找不到凭据", "A credential cannot be found",
    "请设置 reference 所指的环境变量或文件", "Set the environment variable or file that reference names")
EXPRESSION_FAILED = _row("EXPRESSION_FAILED", Kind.INVALID, _E,
    "模板表达式求值失败", "An expression in a template failed",
    "请修改 details.template 所示的表达式", "Correct the expression shown in details.template")
HARVEST_WINDOW_INVALID = _row("HARVEST_WINDOW_INVALID", Kind.INVALID, _W,
    "时间窗无效", "The window of time is not valid",
    "请检查 since 与 until；更早的历史请用 backfill", "Check since and until; for older history use backfill")
HARVEST_UPDATE_IMPOSSIBLE = _row("HARVEST_UPDATE_IMPOSSIBLE", Kind.INVALID, _W,
    "该端点无法按 ID 重新获取记录", "This endpoint cannot fetch records by id",
    "请用 linkedEndpoint 指明按 ID 取记录的 DETAIL 端点，或在其模板中使用 ids",
    "Name a DETAIL endpoint that fetches by id in its linkedEndpoint, or use ids in its own templates")
PLAN_UNKNOWN = _row("PLAN_UNKNOWN", Kind.NOT_FOUND, _W,
    "没有这个计划", "There is no such plan",
    "请用 penstock harvest plans 查看已有计划", "See penstock harvest plans")
SIGNALS_INVALID = _row("SIGNALS_INVALID", Kind.INVALID, _W,
    "信号列表无效", "The list of signals is not valid",
    "每次 1 至 10000 个非空的记录 ID", "Send 1 to 10,000 ids of records, none of them empty")
RECORD_FILTER_INVALID = _row("RECORD_FILTER_INVALID", Kind.INVALID, _W,
    "记录筛选条件无效", "The filter for records is not valid",
    "请参考 expected 与 example 的写法", "Write it as expected and example show")
SOURCE_UNAVAILABLE = _row("SOURCE_UNAVAILABLE", Kind.UNAVAILABLE, _W,
    "数据源暂时不可用", "The source does not answer properly right now",
    "系统会自动重试", "It is tried again by itself", retryable=True)
SOURCE_REFUSED = _row("SOURCE_REFUSED", Kind.INVALID, _E,
    "数据源拒绝了请求", "The source refused the request",
    "请对照其回答检查参数与模板", "Check parameters and templates against what it answered")
SOURCE_AUTH_FAILED = _row("SOURCE_AUTH_FAILED", Kind.DENIED, _C,
    "数据源拒绝了凭据", "The source does not accept our credentials",
    "请更新凭据；在此之前该来源不会再执行", "Renew the credential; until then this source is not worked on")
SOURCE_ANSWER_INVALID = _row("SOURCE_ANSWER_INVALID", Kind.BROKEN, _E,
    "无法理解数据源的回答", "The source's answer cannot be read",
    "请对照 sample 检查 response 部分的路径", "Compare sample with the paths of the response section")
SOURCE_TRUNCATED = _row("SOURCE_TRUNCATED", Kind.UNAVAILABLE, _W,
    "数据源截断了结果，且时间窗已无法再切分", "The source cuts the results short, and the window cannot be made smaller",
    "请用 params 缩小查询，或调小 granularity 与 minWindow",
    "Narrow the question (params), or make granularity and minWindow smaller", retryable=True)
SOURCE_SHORT = _row("SOURCE_SHORT", Kind.UNAVAILABLE, _W,
    "数据源给出的记录少于它声明的总数，且时间窗已无法再切分", "The source sends fewer records than it says it has, and the window cannot be made smaller",
    "已到的记录已保存，时间窗保持未完成；若总数只是估计值，请设 pagination.reconcile: false",
    "What came is stored, and the window stays open. If the total is an estimate, set pagination.reconcile: false", retryable=True)
SOURCE_ENDLESS = _row("SOURCE_ENDLESS", Kind.UNAVAILABLE, _W,
    "数据源的翻页没有尽头：不断返回同样的页或空页", "The source's pages have no end: it keeps sending the same ones, or empty ones",
    "请检查分页参数的名称与路径；下一次计划会重取该时间窗",
    "Check the names and paths of the paging parameters; the next plan takes up the window again", retryable=True)
# fmt: on
