"""Codes that any part may raise: servers, identity, state machines, webhooks."""

from penstock.kernel.error_codes.table import CRITICAL as _C
from penstock.kernel.error_codes.table import ERROR as _E
from penstock.kernel.error_codes.table import WARNING as _W
from penstock.kernel.error_codes.table import row as _row
from penstock.kernel.errors import Kind

# fmt: off
# --- everywhere -------------------------------------------------------------------------------------------
INTERNAL_ERROR = _row("INTERNAL_ERROR", Kind.BROKEN, _E,
    "系统内部错误", "Something broke on our side",
    "请稍后重试；若仍失败，请将 request_id 提供给运维人员", "Try again later; if it persists, give the request_id to an operator", retryable=True)
SERVICE_UNAVAILABLE = _row("SERVICE_UNAVAILABLE", Kind.UNAVAILABLE, _C,
    "服务暂时不可用", "The service is not available right now",
    "请稍后重试", "Try again shortly", retryable=True)
DB_UNAVAILABLE = _row("DB_UNAVAILABLE", Kind.UNAVAILABLE, _C,
    "服务暂时不可用（数据库）", "The database does not answer",
    "请稍后重试", "Try again shortly", retryable=True)
REDIS_UNAVAILABLE = _row("REDIS_UNAVAILABLE", Kind.UNAVAILABLE, _C,
    "服务暂时不可用（Redis）", "Redis does not answer",
    "请稍后重试", "Try again shortly", retryable=True)
STORE_UNAVAILABLE = _row("STORE_UNAVAILABLE", Kind.UNAVAILABLE, _C,
    "对象存储暂时不可用", "The object store does not answer",
    "请稍后重试", "Try again shortly", retryable=True)
STORE_CANNOT_SIGN = _row("STORE_CANNOT_SIGN", Kind.INVALID, _E,
    "当前对象存储不支持签名链接", "This object store has no signed addresses",
    "请通过 Penstock 的接口读取，或改用 s3:// 或 gs:// 存储", "Read it through Penstock, or use an s3:// or gs:// store")
ARCHIVE_DAMAGED = _row("ARCHIVE_DAMAGED", Kind.BROKEN, _C,
    "归档文件与登记的校验和不符", "An archive file does not match its recorded checksum",
    "请运维人员从备份恢复该文件", "Ask an operator to restore the file from a backup")
SANDBOX_UNAVAILABLE = _row("SANDBOX_UNAVAILABLE", Kind.UNAVAILABLE, _C,
    "文件解析进程暂时不可用", "The processes that read files cannot be started",
    "请稍后重试", "Try again shortly", retryable=True)
DISK_FULL = _row("DISK_FULL", Kind.UNAVAILABLE, _C,
    "系统存储空间不足", "The disk is full",
    "请联系运维人员清理存储空间", "Ask an operator to free disk space")
RATE_LIMITED = _row("RATE_LIMITED", Kind.UNAVAILABLE, _W,
    "请求过于频繁", "Too many requests",
    "请按 Retry-After 等待后重试", "Wait for the Retry-After time, then try again", retryable=True)
CIRCUIT_OPEN = _row("CIRCUIT_OPEN", Kind.UNAVAILABLE, _C,
    "上游服务熔断中", "Calls to this service are paused after repeated failures",
    "系统会自动恢复，请稍后重试", "They resume by themselves; try again later", retryable=True)
BUDGET_EXHAUSTED = _row("BUDGET_EXHAUSTED", Kind.UNAVAILABLE, _C,
    "预算已用尽", "The budget is used up",
    "请等待次日或提高预算", "Wait for the next day or raise the budget")
REQUEST_INVALID = _row("REQUEST_INVALID", Kind.INVALID, _E,
    "请求参数不正确", "The request is not valid",
    "请按 details 中指出的字段修改后重试", "Correct the fields named in details and send it again")
ROUTE_NOT_FOUND = _row("ROUTE_NOT_FOUND", Kind.NOT_FOUND, _E,
    "没有这个接口", "There is nothing at this address",
    "请查看 /docs 中的接口列表", "See /docs for the list of addresses")
METHOD_NOT_ALLOWED = _row("METHOD_NOT_ALLOWED", Kind.INVALID, _E,
    "该接口不支持此方法", "This address does not take this method",
    "请使用 Allow 响应头列出的方法", "Use one of the methods in the Allow header")
REQUEST_TOO_LARGE = _row("REQUEST_TOO_LARGE", Kind.INVALID, _E,
    "请求内容过大", "The request body is larger than this address takes",
    "请将请求拆小后重试", "Send less at a time")
CONTENT_TYPE_INVALID = _row("CONTENT_TYPE_INVALID", Kind.INVALID, _E,
    "不支持的内容类型", "This address does not take this content type",
    "请使用 details 中列出的 Content-Type", "Send the Content-Type named in details")
NOT_FOUND = _row("NOT_FOUND", Kind.NOT_FOUND, _E,
    "未找到该资源", "There is no such thing",
    "请检查编号是否正确", "Check the id")
# --- identity ---------------------------------------------------------------------------------------------
TOKEN_MISSING = _row("TOKEN_MISSING", Kind.DENIED, _E,
    "缺少访问令牌", "No access token was sent",
    "请在 Authorization 请求头中携带 Bearer 令牌", "Send a Bearer token in the Authorization header")
TOKEN_INVALID = _row("TOKEN_INVALID", Kind.DENIED, _E,
    "访问令牌无效或已过期", "The access token is not valid or has expired",
    "请重新登录获取新令牌", "Sign in again for a new token")
SIGN_IN_CODE_INVALID = _row("SIGN_IN_CODE_INVALID", Kind.DENIED, _E,
    "登录链接已使用或已过期", "This sign-in link has been used or has expired",
    "请运维人员运行 penstock sign-in 获取新链接", "Ask an operator for a new one (penstock sign-in)")
ORIGIN_DENIED = _row("ORIGIN_DENIED", Kind.DENIED, _E,
    "已拒绝来自其他网站的请求", "A request from another site was refused",
    "请从本站页面操作，或使用 Bearer 令牌", "Use the pages of this server, or send a Bearer token")
ROLE_DENIED = _row("ROLE_DENIED", Kind.DENIED, _E,
    "当前角色无权执行此操作", "Your role may not do this",
    "请联系管理员授权", "Ask an administrator for the right role")
MERCHANT_DENIED = _row("MERCHANT_DENIED", Kind.DENIED, _E,
    "无权访问其他商户的数据", "This belongs to another merchant",
    "请使用本商户的账号", "Use an account of that merchant")
# --- state machines, leases -------------------------------------------------------------------------------
TRANSITION_UNDECLARED = _row("TRANSITION_UNDECLARED", Kind.BROKEN, _E,
    "不允许的状态变更", "This change of state is not declared",
    "请将 request_id 提供给运维人员", "Give the request_id to an operator")
TRANSITION_DENIED = _row("TRANSITION_DENIED", Kind.BROKEN, _E,
    "该模块无权执行此状态变更", "This part of the system may not make this change of state",
    "请将 request_id 提供给运维人员", "Give the request_id to an operator")
STATE_CHANGED = _row("STATE_CHANGED", Kind.CONFLICT, _W,
    "状态已被他人更改", "Someone else has changed the state",
    "请刷新后重试", "Reload and try again", retryable=True)
LEASE_LOST = _row("LEASE_LOST", Kind.CONFLICT, _W,
    "占用已失效，已由其他进程接管", "The lease has expired and another process has taken over",
    "无需处理，接管者会继续", "Nothing to do: the new holder goes on")
# --- webhooks ---------------------------------------------------------------------------------------------
WEBHOOK_URL_REFUSED = _row("WEBHOOK_URL_REFUSED", Kind.INVALID, _E,
    "不接受该回调地址", "This webhook address is not accepted",
    "请使用可公开访问的 https 地址", "Use an https address that is reachable from outside")
# fmt: on
