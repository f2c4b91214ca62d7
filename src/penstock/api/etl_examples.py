"""What the description of the API shows of ETL: one invoice, from its submission to its JSON."""

from penstock.api.examples import JOB_ID, MERCHANT, UPLOAD_ID, Document

TASK_ID = 42
_CREATED, _ENDED = "2026-03-02T09:00:04Z", "2026-03-02T09:00:09Z"
SUBMISSION: Document = {"upload_id": UPLOAD_ID, "rule_id": 7}
OF_A_JOB: Document = {"job_id": JOB_ID}
RETRY: Document = {"from_stage": "postprocess", "newest_rule": True}
SUBMITTED: Document = {"task_id": TASK_ID, "status": "pending"}
TASK: Document = {
    "task_id": TASK_ID,
    "status": "completed",
    "phase": "postprocess",
    "progress": 100,
    "merchant_id": MERCHANT,
    "filename": "invoice.pdf",
    "rule_id": 7,
    "rule_version": 3,
    "attempts": {"ocr": 0, "postprocess": 0},
    "pages": None,
    "job_id": None,
    "next_attempt_at": None,
    "result": {
        "data": {"number": "INV-1042", "total": 1280.5},
        "provenance": {
            "/number": [{"page": 1, "box": [0.61, 0.08, 0.74, 0.1], "spans": ["s4"], "text": "INV-1042"}],
            "/total": [{"page": 1, "box": [0.8, 0.71, 0.88, 0.73], "spans": ["s57"], "text": "1,280.50"}],
        },
        "markdown_s3_key": "etl/42/1/document-00000001.md",
        "output_s3_key": "etl/42/1/result-1-00000002.json",
        "warnings": [],
    },
    "error": None,
    "metadata": {"artifacts": {"markdown_s3_key": "etl/42/1/document-00000001.md", "page_count": 1}},
    "created_at": _CREATED,
    "updated_at": _ENDED,
    "started_at": "2026-03-02T09:00:05Z",
    "finished_at": _ENDED,
}
MARKDOWN = "<!-- page 1 -->\n\n# Invoice\n\nNo. INV-1042\n\n| Item | Amount |\n| --- | --- |\n| Cups | 1,280.50 |\n"
IMAGE = "5feceb66ffc86f38d952786c6d696c79.png"
PAGE: Document = {
    "number": 1,
    "width": 595.0,
    "height": 842.0,
    "spans": [{"id": "s4", "text": "INV-1042", "box": [0.61, 0.08, 0.74, 0.1], "size": 10.0}],
}
RUNNING: Document = TASK | {
    "status": "mineru_parsing",
    "phase": "ocr",
    "progress": 36,
    "pages": {"done": 9, "total": 20},
    "job_id": "penstock:queue:etl:ocr:42:1:0",
    "result": None,
    "metadata": {},
    "updated_at": "2026-03-02T09:00:09Z",
    "finished_at": None,
}
TASKS: Document = {"tasks": [RUNNING], "next_before": None}
SCHEMA: Document = {
    "type": "object",
    "properties": {"number": {"type": "string"}, "total": {"type": "number"}},
    "required": ["number", "total"],
}
RULE_EXAMPLE: Document = {"text": "Invoice A-7, to pay: 12.50", "result": {"number": "A-7", "total": 12.5}}
NEW_RULE: Document = {
    "name": "Invoices",
    "description": "Number and total of an invoice",
    "json_schema": SCHEMA,
    "system_prompt": "Amounts are in the invoice's own currency.",
    "postprocess_mode": "llm",
    "examples": [RULE_EXAMPLE],
}
RULE_CHANGE: Document = {"system_prompt": "Amounts include tax.", "version": 3}
RULE: Document = {
    "rule_id": 7,
    "version": 3,
    **NEW_RULE,
    "postprocess_strategy": None,
    "options": {},
    "is_system": False,
    "merchant_id": MERCHANT,
    "created_by": "alice",
    "created_at": _CREATED,
    "updated_at": _ENDED,
}
BUILT_IN_RULE: Document = RULE | {
    "rule_id": 1,
    "version": 1,
    "name": "default",
    "description": "Built in: the document as markdown and pages with positions; no model is asked.",
    "json_schema": None,
    "system_prompt": None,
    "examples": [],
    "postprocess_mode": "skip",
    "is_system": True,
    "merchant_id": None,
    "created_by": "penstock",
    "created_at": None,
    "updated_at": None,
}
_SUMMARY = (
    "rule_id", "version", "name", "description", "postprocess_mode", "postprocess_strategy", "is_system", "merchant_id",
    "created_by", "created_at", "updated_at",
)  # fmt: skip
RULE_VERSION: Document = {
    "version": 2, "created_by": "alice", "created_at": _CREATED, "content": {**NEW_RULE, "system_prompt": None}
}  # fmt: skip
RULE_VERSIONS: Document = {
    "versions": [
        {"version": 3, "stored_bytes": 412, "created_by": "alice", "created_at": _ENDED},
        {"version": 2, "stored_bytes": 360, "created_by": "alice", "created_at": _CREATED},
    ],
    "next_before": None,
}
RULES: Document = {
    "rules": [
        {name: BUILT_IN_RULE[name] for name in _SUMMARY} | {"stored_bytes": 0},
        {name: RULE[name] for name in _SUMMARY} | {"stored_bytes": 350},
    ],
    "next_after": None,
}
TRIAL: Document = {"text": "Invoice No: INV-1042\nTotal: 1,280.50"}
TRIED: Document = {"data": {"number": "INV-1042", "total": 1280.5}, "metadata": {"strategy": "direct-json"}}
