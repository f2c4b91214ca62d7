"""What the description of the API shows: one job of one merchant, told from its upload to its result.

Every name and number fits the others, so a reader can follow the job from call to call. Tests hold each document
against the schema it stands for.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict

from penstock.kernel import cursors, error_codes

Document = dict[str, Any]
_NULL = "\0"  # stands for null

JOB_ID = "3f0c8a52-1f0e-4b59-9a35-0c6f5b0f6a11"
UPLOAD_ID = "upl_V1StGXR8_Z5jdHi6B-myT"
ENDPOINT_ID = "6f1c2b7e-90d4-4c1a-8a53-2f4e9d7b1c08"
MERCHANT = "acme"
USER = "alice"
WORKER = "host-1-4711-a1b2c3"
LAST_EVENT_ID = "1772442090250-0-0a1b2c3d"
CURSOR = cursors.pack("pages", 1)

_CREATED, _LATEST, _ENDED = "2026-03-02T09:00:04Z", "2026-03-02T09:01:30Z", "2026-03-02T09:01:52Z"
_HASH = "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab"
_PRESCAN = {
    "all_blank": False,
    "blank_pages": [2],
    "ocr_rate": 1.0,
    "image_count": 2,
    "penalties": [],
    "total_penalty": 0.0,
    "raw_metrics": {
        "total_pages": 3,
        "blank_page_count": 1,
        "blank_rate": 0.3333,
        "ocr_rate": 1.0,
        "image_count": 2,
        "text_chars": 1352,
        "hidden_chars": 0,
        "scanned_page_count": 0,
        "rotated_page_count": 0,
        "unreadable_pages": [],
    },
}


def shown(document: Document) -> ConfigDict:
    """For a model's `model_config`."""
    return ConfigDict(json_schema_extra={"examples": [_replaced(document, None, _NULL)]})


def answer(document: Document, **more: Any) -> dict[str, Any]:
    """For a route's `responses`, where its answer is not the one that the model shows."""
    return {"content": {"application/json": {"example": _replaced(document, None, _NULL)}}, **more}


def with_nulls(description: Document) -> Document:
    """FastAPI leaves every null out of a description, those of examples too; this puts them back."""
    found: Document = _replaced(description, _NULL, None)
    return found


def _replaced(node: Any, old: str | None, new: str | None) -> Any:
    if isinstance(node, dict):
        return {name: _replaced(child, old, new) for name, child in node.items()}
    if isinstance(node, list):
        return [_replaced(child, old, new) for child in node]
    return new if node == old else node


JOB_SUMMARY: Document = {
    "job_id": JOB_ID,
    "source_file": "spring-catalogue.pdf",
    "file_hash": _HASH,
    "file_size": 1_048_576,
    "merchant_id": MERCHANT,
    "category": "furniture",
    "industry": "retail",
    "uploaded_by": USER,
    "uploaded_at": _CREATED,
    "status": "PROCESSING",
    "user_status": "processing",
    "error_message": None,
    "error_codes": [],
    "action_hint": "The machine is at work: 2 of 3 pages done",
    "progress_percent": 66,
    "total_pages": 3,
    "total_skus": 1,
    "created_at": _CREATED,
    "updated_at": _LATEST,
}
JOBS: Document = {
    "jobs": [JOB_SUMMARY],
    "next_cursor": cursors.pack("jobs created_at desc", "2026-03-02T09:00:04+00:00", JOB_ID),
}
JOB: Document = {
    **JOB_SUMMARY,
    "route": "AUTO",
    "degrade_reason": None,
    "profile_id": "default",
    "frozen_config_version": "1",
    "worker_id": WORKER,
    "checkpoint_page": 2,
    "checkpoint_skus": 1,
    "checkpoint_at": _LATEST,
    "output_base_url": None,
    "completion_source": None,
    "blank_pages": [2],
    "ai_pages": [1, 3],
    "human_pages": [],
    "skipped_pages": [],
    "failed_pages": [],
    "total_images": 2,
    "processing_trace": None,
    "token_consumption": {"eval_tokens": 1830, "process_tokens": 2410, "total_api_calls": 3},
    "prescan": _PRESCAN,
    "eval_started_at": "2026-03-02T09:00:05Z",
    "eval_completed_at": "2026-03-02T09:00:41Z",
    "process_started_at": "2026-03-02T09:00:42Z",
    "process_completed_at": None,
    "parse_time_ms": None,
    "upload_id": UPLOAD_ID,
    "orphaned_at": None,
    "durations": {"evaluation_sec": 36.0, "processing_sec": None, "total_sec": None},
}
NEW_JOB: Document = JOB | {
    "status": "UPLOADED",
    "action_hint": "Waiting to be processed",
    "progress_percent": 33,
    "total_skus": 0,
    "updated_at": _CREATED,
    "route": None,
    "checkpoint_page": 0,
    "checkpoint_skus": 0,
    "checkpoint_at": None,
    "ai_pages": [],
    "total_images": 0,
    "token_consumption": {"eval_tokens": 0, "process_tokens": 0, "total_api_calls": 0},
    "eval_started_at": None,
    "eval_completed_at": None,
    "process_started_at": None,
    "durations": {"evaluation_sec": None, "processing_sec": None, "total_sec": None},
}
CANCELLED_JOB: Document = JOB | {
    "status": "CANCELLED",
    "user_status": "failed",
    "error_message": error_codes.JOB_CANCELLED.message.en,
    "action_hint": error_codes.JOB_CANCELLED.remedy.en,
}
ENDED_JOB: Document = JOB | {
    "status": "FULL_IMPORTED",
    "user_status": "completed",
    "action_hint": "The result can be downloaded",
    "progress_percent": 100,
    "total_skus": 2,
    "updated_at": _ENDED,
    "checkpoint_page": 3,
    "checkpoint_skus": 2,
    "checkpoint_at": _ENDED,
    "completion_source": "AI_ONLY",
    "token_consumption": {"eval_tokens": 1830, "process_tokens": 4790, "total_api_calls": 5},
    "process_completed_at": _ENDED,
    "parse_time_ms": 1240,
    "durations": {"evaluation_sec": 36.0, "processing_sec": 70.0, "total_sec": 108.0},
}
PROGRESS: Document = {
    **{name: JOB[name] for name in ("job_id", "status", "user_status", "progress_percent", "total_pages")},
    "pages_done": 2,
    "pages_by_status": {"AI_COMPLETED": 1, "BLANK": 1, "AI_PROCESSING": 1},
    **{name: JOB[name] for name in ("checkpoint_page", "checkpoint_skus", "checkpoint_at")},
}


def _features(number: int, text_chars: int, image_share: float, ink: float | None = None) -> Document:
    size = {"number": number, "width": 595.3, "height": 841.9, "rotation": 0, "text_chars": text_chars}
    images = {"hidden_chars": 0, "image_count": int(image_share > 0), "image_share": image_share}
    return {**size, **images, "ink": ink, "readable": True}


PAGE: Document = {
    "page_number": 1,
    "attempt_no": 1,
    "status": "AI_COMPLETED",
    "worker_id": WORKER,
    "claimed_at": "2026-03-02T09:00:42Z",
    "retry_count": 0,
    "processed_by": WORKER,
    "import_confirmation": "not_imported",
    "page_confidence": 0.93,
    "page_type": "A",
    "layout_type": "L1",
    "classification_confidence": 0.97,
    "needs_review": False,
    "table_continuation_from": None,
    "validation_errors": None,
    "parser_backend": "legacy",
    "features": _features(1, 840, 0.31),
    "product_description": None,
    "screenshot_path": None,
    "parse_time_ms": 610,
    "ocr_time_ms": None,
    "llm_time_ms": 5200,
    "llm_model_used": "model-1",
    "created_at": _CREATED,
    "updated_at": _LATEST,
}
PAGES: Document = {"pages": [PAGE], "next_cursor": CURSOR}
_UNREAD = dict.fromkeys((
    "worker_id", "claimed_at", "processed_by", "page_confidence", "page_type", "layout_type",
    "classification_confidence", "parse_time_ms", "llm_time_ms", "llm_model_used",
))  # fmt: skip
_IMPORTED = {"status": "IMPORTED_CONFIRMED", "import_confirmation": "confirmed", "updated_at": _ENDED}
_BLANK = {"page_number": 2, "status": "BLANK", "features": _features(2, 0, 0.0, 0.0), "updated_at": _CREATED}
_THIRD = {"page_number": 3, "claimed_at": _LATEST, "features": _features(3, 512, 0.24), "parse_time_ms": 630}
SKU: Document = {
    "sku_id": "acme-oak-chair-01",
    "page_number": 1,
    "attempt_no": 1,
    "revision": 1,
    "validity": "valid",
    "attributes": {"model": "OC-01", "name": "Oak chair", "material": "oak", "color": "natural", "price": "129.00"},
    "custom_attributes": [{"key": "seat height", "value": "46 cm"}],
    "source_text": "OC-01 Oak chair, natural, seat height 46 cm, 129.00",
    "source_bbox": [72, 180, 210, 96],
    "attribute_source": "AI_EXTRACTED",
    "import_status": "pending",
    "import_confirmation": "pending",
    "status": "EXTRACTED",
    "created_at": _LATEST,
    "updated_at": _LATEST,
}
SKUS: Document = {"skus": [SKU], "next_cursor": None}
_EXPORTED = {"import_status": "imported", "import_confirmation": "confirmed", "status": "EXPORTED"}
_TABLE = {
    "sku_id": "acme-oak-table-02",
    "page_number": 3,
    "attributes": {"model": "OT-02", "name": "Oak table", "material": "oak", "color": "natural", "price": "349.00"},
    "custom_attributes": [],
    "source_text": "OT-02 Oak table, natural, 349.00",
    "created_at": _ENDED,
}
RESULT: Document = {
    "schema_version": "1",
    "job": ENDED_JOB,
    "pages": [PAGE | _IMPORTED, PAGE | _UNREAD | _BLANK, PAGE | _THIRD | _IMPORTED],
    "skus": [SKU | _EXPORTED | {"updated_at": _ENDED}, SKU | _TABLE | _EXPORTED | {"updated_at": _ENDED}],
}
_SCORES = {
    "text_quality": 0.95,
    "image_quality": 0.9,
    "layout_regularity": 0.92,
    "table_structure": 0.8,
    "attribute_coverage": 0.9,
}
EVALUATION: Document = {
    "doc_confidence": 0.9,
    "route": "AUTO",
    "route_reason": "The confidence of 0.90 is not below 0.85",
    "degrade_reason": None,
    "config_version": "1",
    "dimension_scores": _SCORES,
    "weights_snapshot": {
        "text_quality": 0.25,
        "image_quality": 0.2,
        "layout_regularity": 0.2,
        "table_structure": 0.15,
        "attribute_coverage": 0.2,
    },
    "thresholds_used": {"A": 0.85, "B": 0.45, "PV": 0.65},
    "prescan": _PRESCAN,
    "sampling": {"pages": [1, 3]},
    "page_evaluations": {"1": {"confidence": 0.93}, "3": {"confidence": 0.88}},
    "model_used": "model-1",
    "prompt_version": "1",
    "evaluated_at": JOB["eval_completed_at"],
}


def _change(number: int, page: int | None, states: tuple[str | None, str], why: Mapping[str, str], at: str) -> Document:
    entity, (source, target) = "job" if page is None else "page", states
    what = {"id": number, "entity_type": entity, "page_number": page, "from_status": source, "to_status": target}
    return {**what, **why, "timestamp": at}


_PRESCANNED = {"trigger": "prescan", "operator": "gateway"}
TIMELINE: Document = {
    "changes": [
        _change(101, None, (None, "UPLOADED"), {"trigger": "upload", "operator": USER}, _CREATED),
        _change(102, 1, (None, "PENDING"), _PRESCANNED, _CREATED),
        _change(103, 3, (None, "PENDING"), _PRESCANNED, _CREATED),
        _change(104, 2, (None, "BLANK"), _PRESCANNED, _CREATED),
        _change(
            105,
            None,
            ("UPLOADED", "EVALUATING"),
            {"trigger": "evaluation", "operator": "gateway"},
            "2026-03-02T09:00:05Z",
        ),
    ],
    "next_cursor": cursors.pack("timeline", 105),
}
