"""What jobs say to those who follow them. All of one job's events share one topic and one order."""

from typing import Any
from uuid import UUID

from penstock.kernel.errors import ErrorCode, Sentence


def topic_of(job_id: UUID | str) -> str:
    return f"job:{job_id}"


def failure(job_id: UUID, code: ErrorCode, **more: Any) -> dict[str, Any]:
    """The payload of `job_failed`: the code for programs, sentences for people in both languages."""
    return {
        "job_id": str(job_id),
        "error_code": code.code,
        "message": code.message.en,
        "action_hint": code.remedy.en,
        "sentences": {"message": both(code.message), "action_hint": both(code.remedy)},
        **more,
    }


def both(sentence: Sentence) -> dict[str, str]:
    return {"zh": sentence.zh, "en": sentence.en}
