"""The registry of error codes: a new code is a new row here, and nowhere else.

Codes are frozen once released. HTTP statuses are the edge's affair (`api/http_status.py`); the generated
page `docs/errors.md` shows both together.
"""

from penstock.kernel.errors import ErrorCode, Kind, Sentence, Severity

REGISTRY: dict[str, ErrorCode] = {}


def _row(code: str, kind: Kind, severity: Severity, *sentences: str, retryable: bool = False) -> ErrorCode:
    zh, en, remedy_zh, remedy_en = sentences
    row = ErrorCode(code, kind, severity, retryable, Sentence(zh, en), Sentence(remedy_zh, remedy_en))
    if code in REGISTRY:
        raise ValueError(f"error code {code} is declared twice")
    REGISTRY[code] = row
    return row


_I, _W, _E, _C = Severity.INFO, Severity.WARNING, Severity.ERROR, Severity.CRITICAL

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
# --- files and jobs (codes and statuses never change) ------------------------------------------------------
FILE_SIZE_EXCEEDED = _row("FILE_SIZE_EXCEEDED", Kind.INVALID, _E,
    "文件大小超过限制", "The file is larger than allowed",
    "请压缩或拆分文件后重新上传", "Compress or split the file and upload it again")
PAGE_COUNT_EXCEEDED = _row("PAGE_COUNT_EXCEEDED", Kind.INVALID, _E,
    "页数超过 1000 页限制", "The document has more than 1,000 pages",
    "请拆分为多个文件后上传", "Split it into several files")
INVALID_MIME = _row("INVALID_MIME", Kind.INVALID, _E,
    "仅支持 PDF 格式", "Only PDF files are accepted",
    "请转换为 PDF 后重新上传", "Convert the file to PDF and upload it again")
EMPTY_PDF = _row("EMPTY_PDF", Kind.INVALID, _E,
    "PDF 文件无内容", "The PDF has no pages",
    "请检查文件后重新上传", "Check the file and upload it again")
SECURITY_JAVASCRIPT_EMBEDDED = _row("SECURITY_JAVASCRIPT_EMBEDDED", Kind.INVALID, _E,
    "PDF 包含不安全的脚本内容", "The PDF contains scripts",
    "请使用“打印为 PDF”重新生成后上传", "Print it to a new PDF and upload that")
SECURITY_ENCRYPTED_PDF = _row("SECURITY_ENCRYPTED_PDF", Kind.INVALID, _E,
    "PDF 已加密", "The PDF is encrypted",
    "请先解除密码保护后重新上传", "Remove the password and upload it again")
SECURITY_PARSE_TIMEOUT = _row("SECURITY_PARSE_TIMEOUT", Kind.INVALID, _E,
    "PDF 结构异常，解析超时", "The PDF took too long to read",
    "请重新导出 PDF 后上传", "Export the PDF anew and upload that")
SECURITY_OBJECT_COUNT_EXCEEDED = _row("SECURITY_OBJECT_COUNT_EXCEEDED", Kind.INVALID, _E,
    "PDF 结构异常，对象数量超限", "The PDF holds too many objects",
    "请重新导出 PDF 后上传", "Export the PDF anew and upload that")
PDF_TRUNCATED = _row("PDF_TRUNCATED", Kind.INVALID, _E,
    "PDF 文件不完整，末尾缺失", "The end of the PDF is missing",
    "请检查原文件能否完整打开，然后重新上传", "Check that the original opens in full, then upload it again")
PDF_UNREADABLE = _row("PDF_UNREADABLE", Kind.INVALID, _E,
    "PDF 文件已损坏，无法读取", "The PDF is damaged and cannot be read",
    "请重新导出 PDF 后上传", "Export the PDF anew and upload that")
SECURITY_LAUNCH_ACTION = _row("SECURITY_LAUNCH_ACTION", Kind.INVALID, _E,
    "PDF 包含启动程序的动作", "The PDF tries to start a program",
    "请使用“打印为 PDF”重新生成后上传", "Print it to a new PDF and upload that")
SECURITY_SUBMIT_ACTION = _row("SECURITY_SUBMIT_ACTION", Kind.INVALID, _E,
    "PDF 包含向外提交数据的表单", "The PDF has a form that sends data elsewhere",
    "请使用“打印为 PDF”重新生成后上传", "Print it to a new PDF and upload that")
SECURITY_REMOTE_ACTION = _row("SECURITY_REMOTE_ACTION", Kind.INVALID, _E,
    "PDF 引用了其他文件或远程内容", "The PDF reaches for other files or remote content",
    "请使用“打印为 PDF”重新生成后上传", "Print it to a new PDF and upload that")
SECURITY_URI_ACTION = _row("SECURITY_URI_ACTION", Kind.INVALID, _E,
    "PDF 会自动打开网址，或包含异常链接", "The PDF opens an address by itself, or links to an unusual kind of address",
    "请删除该链接，或使用“打印为 PDF”重新生成后上传", "Remove the link, or print it to a new PDF and upload that")
SECURITY_EMBEDDED_FILE = _row("SECURITY_EMBEDDED_FILE", Kind.INVALID, _E,
    "PDF 内含附件", "The PDF has files attached to it",
    "请删除附件后重新上传", "Remove the attachments and upload it again")
SECURITY_DECOMPRESSION_BOMB = _row("SECURITY_DECOMPRESSION_BOMB", Kind.INVALID, _E,
    "PDF 结构异常，解压后数据过大", "The PDF unpacks to far too much data",
    "请重新导出 PDF 后上传", "Export the PDF anew and upload that")
SECURITY_RECURSION = _row("SECURITY_RECURSION", Kind.INVALID, _E,
    "PDF 结构异常，内容循环或嵌套过深", "The PDF repeats or nests its content without end",
    "请重新导出 PDF 后上传", "Export the PDF anew and upload that")
SECURITY_DIMENSIONS_EXCEEDED = _row("SECURITY_DIMENSIONS_EXCEEDED", Kind.INVALID, _E,
    "PDF 页面或图片尺寸过大", "A page or a picture of the PDF is far too large",
    "请缩小页面或图片后重新导出并上传", "Export it with smaller pages or pictures and upload that")
SECURITY_MEMORY_EXCEEDED = _row("SECURITY_MEMORY_EXCEEDED", Kind.INVALID, _E,
    "PDF 结构异常，解析占用内存过多", "The PDF takes too much memory to read",
    "请重新导出 PDF 或拆分后上传", "Export the PDF anew, or split it, and upload that")
SECURITY_PARSE_FAILED = _row("SECURITY_PARSE_FAILED", Kind.INVALID, _E,
    "PDF 结构异常，无法安全解析", "The PDF cannot be read safely",
    "请重新导出 PDF 后上传", "Export the PDF anew and upload that")
FILE_HASH_DUPLICATE = _row("FILE_HASH_DUPLICATE", Kind.CONFLICT, _W,
    "该文件已上传过", "This file has been uploaded before",
    "请查看已有任务；如需重复处理，请设置 allow_duplicate", "See the earlier job; set allow_duplicate to process it again")
UPLOAD_NOT_FOUND = _row("UPLOAD_NOT_FOUND", Kind.NOT_FOUND, _E,
    "上传会话不存在或已过期", "The upload does not exist or has expired",
    "请重新上传", "Upload the file again")
OFFSET_MISMATCH = _row("OFFSET_MISMATCH", Kind.CONFLICT, _W,
    "分片偏移量不匹配", "The chunk does not start where the upload stands",
    "请用 HEAD 查询当前偏移量后续传", "Ask for the offset with HEAD and go on from there", retryable=True)
CHECKSUM_FAILED = _row("CHECKSUM_FAILED", Kind.INVALID, _W,
    "分片校验失败", "The chunk's checksum does not match",
    "请重传该分片", "Send the chunk again", retryable=True)
JOB_NOT_ORPHANED = _row("JOB_NOT_ORPHANED", Kind.CONFLICT, _W,
    "任务不是孤儿状态，不可重提", "The job is not orphaned, so it cannot be requeued",
    "请刷新任务状态", "Reload the job")
REQUEUE_LIMIT = _row("REQUEUE_LIMIT", Kind.UNAVAILABLE, _W,
    "24 小时内已重提 3 次", "The job has been requeued three times within 24 hours",
    "请先检查失败原因；运维人员可用 force 再次重提", "Look into why it fails; an operator may go beyond with force")
JOB_NOT_FOUND = _row("JOB_NOT_FOUND", Kind.NOT_FOUND, _E,
    "未找到该任务", "There is no such job",
    "请检查任务编号", "Check the job's id")
JOB_ORPHANED = _row("JOB_ORPHANED", Kind.UNAVAILABLE, _W,
    "处理该任务的进程已失联，任务暂停", "The worker that had the job has stopped answering, so the job is paused",
    "系统会在几分钟后自动从断点继续；若未恢复，请联系运维人员", "It goes on by itself from where it was within minutes; if not, ask an operator", retryable=True)
WORKER_NOT_ALIVE = _row("WORKER_NOT_ALIVE", Kind.CONFLICT, _W,
    "目标进程不在线或不处理任务", "The worker named is not alive, or is not one that takes jobs",
    "请从在线进程列表中另选一个，或不指定目标", "Name another from the list of workers, or none")
NO_LIVING_WORKER = _row("NO_LIVING_WORKER", Kind.UNAVAILABLE, _W,
    "当前没有可接手任务的在线进程", "No worker that takes jobs is alive",
    "请先启动一个 worker 再重试", "Start a worker, then try again", retryable=True)
PAGE_NOT_FOUND = _row("PAGE_NOT_FOUND", Kind.NOT_FOUND, _E,
    "该任务没有这一页", "The job has no such page",
    "请检查页码", "Check the page number")
JOB_CANCELLED = _row("JOB_CANCELLED", Kind.CONFLICT, _W,
    "任务已取消", "The job was cancelled",
    "如仍需处理，请重新上传文件", "Upload the file again if it is still wanted")
JOB_FILE_GONE = _row("JOB_FILE_GONE", Kind.NOT_FOUND, _E,
    "任务的文件已不保留", "The job's file is not kept any more",
    "请重新上传文件", "Upload the file again")
ADMISSION_UNDER_WAY = _row("ADMISSION_UNDER_WAY", Kind.CONFLICT, _W,
    "该文件正在创建任务", "A job is just being made from this upload",
    "请稍后用相同请求重试", "Send the same request again in a moment", retryable=True)
IDEMPOTENCY_KEY_REUSED = _row("IDEMPOTENCY_KEY_REUSED", Kind.CONFLICT, _E,
    "Idempotency-Key 已用于另一个请求", "This Idempotency-Key was used for another request",
    "请为新的请求使用新的 Idempotency-Key", "Choose a new key for a new request")
RESULT_NOT_READY = _row("RESULT_NOT_READY", Kind.CONFLICT, _W,
    "结果尚未就绪", "The result is not ready yet",
    "请等待任务完成后再下载", "Wait until the job is done", retryable=True)
EVALUATION_NOT_READY = _row("EVALUATION_NOT_READY", Kind.NOT_FOUND, _W,
    "该任务尚无评估结果", "The job has not been evaluated",
    "请等待评估完成", "Wait until it has been", retryable=True)
CURSOR_INVALID = _row("CURSOR_INVALID", Kind.INVALID, _E,
    "分页游标无效", "This cursor is not one of ours, or belongs to another question",
    "请不带 cursor 重新查询", "Ask again without a cursor")
JOB_TERMINAL = _row("JOB_TERMINAL", Kind.CONFLICT, _W,
    "任务已结束，无法取消", "The job has already ended",
    "无需处理", "Nothing to do")
# --- resumable uploads -------------------------------------------------------------------------------------
TUS_VERSION_UNSUPPORTED = _row("TUS_VERSION_UNSUPPORTED", Kind.INVALID, _E,
    "不支持该 tus 协议版本", "This version of the tus protocol is not spoken here",
    "请发送 Tus-Resumable: 1.0.0", "Send Tus-Resumable: 1.0.0")
UPLOAD_HEADER_INVALID = _row("UPLOAD_HEADER_INVALID", Kind.INVALID, _E,
    "上传请求头缺失或格式错误", "A header of the upload request is missing or malformed",
    "请按 details 修正该请求头", "Correct the header named in details")
INVALID_FILE_TYPE = _row("INVALID_FILE_TYPE", Kind.INVALID, _E,
    "仅接受 PDF 文件", "Only PDF files may be uploaded",
    "请在 Upload-Metadata 中提供以 .pdf 结尾的 filename，filetype 为 application/pdf", "Name a .pdf file of type application/pdf in Upload-Metadata")
UPLOAD_GONE = _row("UPLOAD_GONE", Kind.NOT_FOUND, _E,
    "上传会话已过期或已取消", "The upload has expired or was cancelled",
    "请重新上传", "Upload the file again")
UPLOAD_LOCKED = _row("UPLOAD_LOCKED", Kind.CONFLICT, _W,
    "另一个连接正在写入该上传", "Another connection is writing to this upload",
    "请稍后用 HEAD 查询偏移量再续传", "Ask for the offset with HEAD in a moment and go on from there", retryable=True)
UPLOAD_LENGTH_EXCEEDED = _row("UPLOAD_LENGTH_EXCEEDED", Kind.INVALID, _E,
    "数据超出声明的长度", "The body goes beyond the length that was announced",
    "请检查 Upload-Length 与文件大小", "Check Upload-Length against the size of the file")
UPLOAD_UNFINISHED = _row("UPLOAD_UNFINISHED", Kind.CONFLICT, _W,
    "文件尚未上传完成", "The upload is not finished yet",
    "请续传至完成后再试", "Send the rest of the file first", retryable=True)
UPLOAD_CONCAT_INVALID = _row("UPLOAD_CONCAT_INVALID", Kind.INVALID, _E,
    "无法合并这些分段上传", "These partial uploads cannot be joined",
    "请按 details 检查每个分段", "Check the parts named in details")
UPLOAD_FINAL = _row("UPLOAD_FINAL", Kind.DENIED, _E,
    "合并后的上传不能再写入", "An upload that was joined from parts takes no more bytes",
    "请写入分段上传", "Send bytes to a partial upload")
UPLOAD_ADMITTED = _row("UPLOAD_ADMITTED", Kind.CONFLICT, _W,
    "该上传已成为任务，不能取消", "This upload has become a job and cannot be cancelled",
    "请取消 details 中的任务", "Cancel the job named in details instead")
CHECKSUM_UNSUPPORTED = _row("CHECKSUM_UNSUPPORTED", Kind.INVALID, _E,
    "不支持该校验算法", "This checksum algorithm is not supported",
    "请使用 sha1 或 sha256", "Use sha1 or sha256")
UPLOAD_STALLED = _row("UPLOAD_STALLED", Kind.INVALID, _W,
    "数据传输中断，连接已关闭", "No data came for too long, so the connection was closed",
    "已收到的数据已保存，请用 HEAD 查询偏移量后续传", "What arrived is kept: ask for the offset with HEAD and go on", retryable=True)
UPLOAD_SLOTS_FULL = _row("UPLOAD_SLOTS_FULL", Kind.UNAVAILABLE, _W,
    "未完成的上传过多", "Too many uploads are unfinished",
    "请先完成或取消已有的上传", "Finish or cancel some of them first", retryable=True)
# --- review (codes and statuses never change) --------------------------------------------------------------
TASK_ALREADY_LOCKED = _row("TASK_ALREADY_LOCKED", Kind.CONFLICT, _W,
    "任务已被他人领取", "Someone else has taken this task",
    "请领取下一个任务", "Take the next task")
TASK_LOCK_EXPIRED = _row("TASK_LOCK_EXPIRED", Kind.CONFLICT, _W,
    "任务锁已过期", "Your lock on this task has expired",
    "您的修改已存为草稿，请重新领取任务", "Your work is kept as a draft: take the task again")
TASK_NOT_REVERTABLE = _row("TASK_NOT_REVERTABLE", Kind.CONFLICT, _W,
    "任务当前不可回退", "This task cannot be reverted now",
    "请刷新任务状态", "Reload the task")
ANNOTATION_VALIDATION_FAILED = _row("ANNOTATION_VALIDATION_FAILED", Kind.INVALID, _E,
    "标注内容校验失败", "The annotation is not valid",
    "请按 details 中的路径修改", "Correct the paths named in details")
# --- profiles (codes and statuses never change) ------------------------------------------------------------
PROFILE_MISSING = _row("PROFILE_MISSING", Kind.UNAVAILABLE, _C,
    "没有生效的配置方案", "No profile is in force",
    "请运维人员启用一个默认方案", "Ask an operator to activate a default profile")
CONFIG_VERSION_CONFLICT = _row("CONFIG_VERSION_CONFLICT", Kind.CONFLICT, _W,
    "配置已被他人更新", "Someone else has saved a newer version",
    "请在最新版本上重新修改", "Make your change on the newest version")
CONFIG_THRESHOLD_INVALID = _row("CONFIG_THRESHOLD_INVALID", Kind.INVALID, _E,
    "阈值不满足 B < PV < A", "The thresholds must obey B < PV < A",
    "请调整阈值", "Adjust the thresholds")
# --- models (codes and statuses never change) --------------------------------------------------------------
LLM_BUDGET_EXHAUSTED = _row("LLM_BUDGET_EXHAUSTED", Kind.UNAVAILABLE, _C,
    "模型预算已用尽", "The model budget is used up",
    "请等待次日或提高预算", "Wait for the next day or raise the budget")
LLM_CIRCUIT_OPEN = _row("LLM_CIRCUIT_OPEN", Kind.UNAVAILABLE, _C,
    "模型服务熔断中", "Calls to the model are paused after repeated failures",
    "系统会自动恢复，请稍后重试", "They resume by themselves; try again later", retryable=True)
LLM_RATE_LIMITED = _row("LLM_RATE_LIMITED", Kind.UNAVAILABLE, _W,
    "模型服务限流", "The model's rate limit is reached",
    "请稍后重试", "Try again later", retryable=True)
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
SOURCE_ENDLESS = _row("SOURCE_ENDLESS", Kind.UNAVAILABLE, _W,
    "数据源的翻页没有尽头：不断返回同样的页或空页", "The source's pages have no end: it keeps sending the same ones, or empty ones",
    "请检查分页参数的名称与路径；下一次计划会重取该时间窗",
    "Check the names and paths of the paging parameters; the next plan takes up the window again", retryable=True)
# fmt: on
