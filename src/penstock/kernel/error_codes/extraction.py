"""Codes of language models and ETL."""

from penstock.kernel.error_codes.table import CRITICAL as _C
from penstock.kernel.error_codes.table import ERROR as _E
from penstock.kernel.error_codes.table import WARNING as _W
from penstock.kernel.error_codes.table import row as _row
from penstock.kernel.errors import Kind

# fmt: off
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
LLM_NOT_CONFIGURED = _row("LLM_NOT_CONFIGURED", Kind.UNAVAILABLE, _E,
    "尚未配置语言模型", "No language model is set up",
    "请设置 PENSTOCK_LLM_BASE_URL、PENSTOCK_LLM_API_KEY 与 PENSTOCK_LLM_MODEL，或改用 postprocess_mode=rules 或 skip",
    "Set PENSTOCK_LLM_BASE_URL, PENSTOCK_LLM_API_KEY and PENSTOCK_LLM_MODEL, or a rule with postprocess_mode rules or skip")
LLM_UNAVAILABLE = _row("LLM_UNAVAILABLE", Kind.UNAVAILABLE, _W,
    "模型服务暂时不可用", "The model does not answer right now",
    "系统会自动重试", "It is tried again by itself", retryable=True)
LLM_AUTH_FAILED = _row("LLM_AUTH_FAILED", Kind.BROKEN, _C,
    "模型服务拒绝了密钥", "The model's endpoint does not accept our key",
    "请检查 PENSTOCK_LLM_API_KEY", "Check PENSTOCK_LLM_API_KEY")
LLM_QUOTA_EXHAUSTED = _row("LLM_QUOTA_EXHAUSTED", Kind.UNAVAILABLE, _C,
    "模型账户的额度已用尽", "The account at the model's endpoint has no credit left",
    "请充值后重试", "Add credit, then try again")
LLM_REQUEST_REFUSED = _row("LLM_REQUEST_REFUSED", Kind.INVALID, _E,
    "模型服务认为请求有误", "The model's endpoint says the request is wrong",
    "请对照 details 检查模型名称与规则", "Check the model's name and the rule against details")
LLM_CONTEXT_TOO_LONG = _row("LLM_CONTEXT_TOO_LONG", Kind.INVALID, _W,
    "文本超出模型的上下文长度", "The text is longer than the model can read",
    "请使用分块策略或调小分块", "Use a chunked strategy, or smaller chunks")
LLM_REFUSED = _row("LLM_REFUSED", Kind.INVALID, _W,
    "模型拒绝回答", "The model refused to answer",
    "请检查文档内容与规则的提示词", "Check the document and the rule's prompt")
LLM_EMPTY = _row("LLM_EMPTY", Kind.UNAVAILABLE, _W,
    "模型返回了空内容", "The model answered with nothing",
    "系统会自动重试", "It is tried again by itself", retryable=True)
LLM_TRUNCATED = _row("LLM_TRUNCATED", Kind.INVALID, _W,
    "模型的输出被截断", "The model's output was cut off",
    "请调大 PENSTOCK_LLM_MAX_OUTPUT_TOKENS 或使用 chunked-extract", "Raise PENSTOCK_LLM_MAX_OUTPUT_TOKENS, or use chunked-extract")
LLM_OUTPUT_INVALID = _row("LLM_OUTPUT_INVALID", Kind.INVALID, _E,
    "模型的输出不符合规则的结构", "The model's output does not fit the rule's schema",
    "details.errors 列出每处路径；请调整 schema 或提示词", "details.errors names each path; adjust the schema or the prompt")
# --- ETL ----------------------------------------------------------------------------------------------------
ETL_TASK_NOT_FOUND = _row("ETL_TASK_NOT_FOUND", Kind.NOT_FOUND, _W,
    "任务不存在", "Task not found",
    "请检查任务编号", "Check the task's number")
ETL_RULE_NOT_FOUND = _row("ETL_RULE_NOT_FOUND", Kind.NOT_FOUND, _W,
    "规则不存在", "Rule not found",
    "请用 penstock rules 或 GET /api/v1/etl/rules 查看可用规则", "See `penstock rules` or GET /api/v1/etl/rules")
ETL_RULE_INVALID = _row("ETL_RULE_INVALID", Kind.INVALID, _W,
    "规则无效", "The rule is not valid",
    "请按 details.problems 修改", "Correct what details.problems names")
ETL_RULE_TOO_COSTLY = _row("ETL_RULE_TOO_COSTLY", Kind.INVALID, _W,
    "规则的计算量过大", "The rule takes too much work to apply",
    "请简化 details.path 所指的部分：减少 allOf/anyOf 的子 schema、较长的 enum、pattern 或字段数量，或拆成几条规则",
    "Simplify the part that details.path names: fewer subschemas in allOf and anyOf, shorter enums, fewer patterns or fields, or split the rule")
ETL_RULE_NAME_TAKEN = _row("ETL_RULE_NAME_TAKEN", Kind.CONFLICT, _W,
    "已有同名规则", "There is a rule of that name already",
    "请换一个名称，或修改已有规则", "Choose another name, or change that rule")
ETL_RULES_TOO_MANY = _row("ETL_RULES_TOO_MANY", Kind.CONFLICT, _W,
    "规则数量已达上限", "This merchant has as many rules as it may have",
    "请删除不再使用的规则后重试；上限由 ETL_RULES_PER_MERCHANT 设定",
    "Remove rules that are no longer used, then try again; ETL_RULES_PER_MERCHANT sets the limit")
ETL_RULE_BUILT_IN = _row("ETL_RULE_BUILT_IN", Kind.CONFLICT, _W,
    "系统内置规则不能修改", "The built-in rule cannot be changed",
    "请新建一条规则", "Make a rule of your own")
ETL_RULE_IS_DEFAULT = _row("ETL_RULE_IS_DEFAULT", Kind.DENIED, _W,
    "该规则是全系统的默认规则，只有运维人员可以修改或删除", "This rule is the default for everybody; only operators may change or remove it",
    "请新建一条规则，或联系运维人员", "Make a rule of your own, or ask an operator")
ETL_RULE_REQUIRED = _row("ETL_RULE_REQUIRED", Kind.INVALID, _W,
    "必须指定规则", "A rule must be named",
    "默认规则已停用，请提供 rule_id", "The default rule is turned off here; give a rule_id")
ETL_QUEUE_FULL = _row("ETL_QUEUE_FULL", Kind.UNAVAILABLE, _W,
    "等待处理的任务过多", "Too many tasks are waiting",
    "请稍后重试", "Try again later", retryable=True)
ETL_QUEUE_SHARE_FULL = _row("ETL_QUEUE_SHARE_FULL", Kind.UNAVAILABLE, _W,
    "本商户等待处理的任务过多", "Too many tasks of this merchant are waiting",
    "请等待部分任务结束后再提交；份额由 ETL_QUEUE_SHARE 设定",
    "Wait for some of them to end; the share is set by ETL_QUEUE_SHARE", retryable=True)
ETL_FILE_TYPE = _row("ETL_FILE_TYPE", Kind.INVALID, _W,
    "不支持的文件类型", "This type of file cannot be read",
    "请提交 PDF、PNG、JPEG、TIFF 或 WebP", "Submit a PDF, PNG, JPEG, TIFF or WebP file")
ETL_FILE_TOO_LARGE = _row("ETL_FILE_TOO_LARGE", Kind.INVALID, _W,
    "文件过大", "The file is too large",
    "请拆分文件，或调大 ETL_MAX_FILE_MB", "Split it, or raise ETL_MAX_FILE_MB")
ETL_STORED_QUOTA = _row("ETL_STORED_QUOTA", Kind.CONFLICT, _W,
    "本商户保存的文档已达存储配额", "The documents kept for this merchant have reached its storage quota",
    "早先的任务到期（ETL_TASKS_DAYS）后空间会自动释放；急用请联系运维人员调大 ETL_STORED_MB_PER_MERCHANT",
    "Room is freed when earlier tasks expire (ETL_TASKS_DAYS); if that is too late, ask an operator to raise ETL_STORED_MB_PER_MERCHANT")
ETL_SOURCE_NOT_FOUND = _row("ETL_SOURCE_NOT_FOUND", Kind.NOT_FOUND, _W,
    "找不到要处理的文件", "The file to work on is not there",
    "请检查 upload_id、object_key 或 job_id", "Check upload_id, object_key or job_id")
ETL_IMAGE_UNREADABLE = _row("ETL_IMAGE_UNREADABLE", Kind.INVALID, _W,
    "图片无法读取", "The picture cannot be read",
    "请重新导出图片后再试；像素过多时请缩小", "Export the picture anew, smaller if it has too many pixels, and try again")
ETL_ALREADY_STARTED = _row("ETL_ALREADY_STARTED", Kind.CONFLICT, _W,
    "任务已开始执行或已结束，无法取消", "The task has begun or ended and cannot be cancelled",
    "运行中的任务请等待结束；已结束的任务无需取消", "Wait for a running one to end; one that has ended needs no cancelling")
ETL_NOT_ENDED = _row("ETL_NOT_ENDED", Kind.CONFLICT, _W,
    "任务尚未结束，无法重试", "The task has not ended and cannot be retried",
    "请等待任务结束后再重试", "Wait for it to end, then retry")
ETL_ARTEFACT_GONE = _row("ETL_ARTEFACT_GONE", Kind.CONFLICT, _W,
    "识别结果已不存在，无法只重试后处理", "What was read from the document is no longer there",
    "请从 ocr 阶段重试", "Retry from the stage ocr")
ETL_NOT_READY = _row("ETL_NOT_READY", Kind.CONFLICT, _W,
    "任务还没有这项产物", "The task has not made this yet",
    "识别内容在 ocr 阶段之后可读，结果在任务完成之后可读；请查看任务状态与错误",
    "What was read is there after the stage ocr, the result once the task is completed; see its status and error")
ETL_STAGE_TIMEOUT = _row("ETL_STAGE_TIMEOUT", Kind.UNAVAILABLE, _W,
    "处理长时间没有进展", "A stage made no progress for too long",
    "系统会自动重试", "It is tried again by itself", retryable=True)
ETL_WORKERS_LOST = _row("ETL_WORKERS_LOST", Kind.BROKEN, _E,
    "处理该任务的进程多次意外退出", "Workers died over this task again and again",
    "文件可能有问题；请将任务编号提供给运维人员", "The file may be the cause; give the task's number to an operator")
ETL_PROVIDER_UNKNOWN = _row("ETL_PROVIDER_UNKNOWN", Kind.BROKEN, _E,
    "没有安装这个识别或后处理组件", "No such provider or post-processor is installed",
    "details.installed 列出可用的名称", "details.installed lists those that are")
ETL_DOCUMENT_TOO_LONG = _row("ETL_DOCUMENT_TOO_LONG", Kind.INVALID, _W,
    "文档需要的分块数超过上限", "The document needs more chunks than allowed",
    "请拆分文档，或调大 ETL_POSTPROCESS_MAX_CHUNKS", "Split the document, or raise ETL_POSTPROCESS_MAX_CHUNKS")
ETL_RESULT_INVALID = _row("ETL_RESULT_INVALID", Kind.INVALID, _E,
    "结果不符合规则的结构", "The result does not fit the rule's schema",
    "details.errors 列出每处路径；请对照文档调整 schema 或 options.fields", "details.errors names each path; adjust the schema or options.fields to the document")
ETL_TEXT_TOO_LONG = _row("ETL_TEXT_TOO_LONG", Kind.INVALID, _W,
    "试用规则的文本过长", "The text to try a rule on is too long",
    "请缩短文本；完整文档请提交任务", "Shorten it; submit a task for a whole document")
OCR_NOT_CONFIGURED = _row("OCR_NOT_CONFIGURED", Kind.UNAVAILABLE, _E,
    "尚未配置识别服务", "The service that should read documents is not set up",
    "请设置 details.missing 中的配置项，或改用 local", "Set what details.missing names, or use the provider local")
OCR_UNAVAILABLE = _row("OCR_UNAVAILABLE", Kind.UNAVAILABLE, _W,
    "识别服务暂时不可用", "The service that reads documents does not answer right now",
    "系统会自动重试", "It is tried again by itself", retryable=True)
OCR_AUTH_FAILED = _row("OCR_AUTH_FAILED", Kind.BROKEN, _C,
    "识别服务拒绝了密钥", "The service that reads documents does not accept our key",
    "请检查 PENSTOCK_MINERU_TOKEN", "Check PENSTOCK_MINERU_TOKEN")
OCR_QUOTA_EXHAUSTED = _row("OCR_QUOTA_EXHAUSTED", Kind.UNAVAILABLE, _C,
    "识别服务今日额度已用尽", "Today's quota of the service that reads documents is used up",
    "请等待次日或改用 local", "Wait for the next day, or use the provider local")
OCR_REFUSED = _row("OCR_REFUSED", Kind.INVALID, _E,
    "识别服务无法处理该文件", "The service that reads documents cannot work on this file",
    "请对照 details 检查文件", "Check the file against details")
OCR_ANSWER_INVALID = _row("OCR_ANSWER_INVALID", Kind.BROKEN, _E,
    "无法理解识别服务的回答", "The answer of the service that reads documents cannot be understood",
    "请检查其版本与地址", "Check its version and address")
# fmt: on
