"""Codes of files, jobs, uploads, review and profiles."""

from penstock.kernel.error_codes.table import CRITICAL as _C
from penstock.kernel.error_codes.table import ERROR as _E
from penstock.kernel.error_codes.table import WARNING as _W
from penstock.kernel.error_codes.table import row as _row
from penstock.kernel.errors import Kind

# fmt: off
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
    "没有这一页", "There is no such page",
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
    "上传过多，或占用的空间已达上限", "There are too many uploads, or they take too much space",
    "请先完成、提交或取消部分已有的上传", "Finish, use or cancel some of them first", retryable=True)
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
# fmt: on
