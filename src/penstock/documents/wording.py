"""What people are told of a job: what is wrong with it, and what to do or expect next."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.documents.states import JobStatus, PageStatus
from penstock.kernel import error_codes
from penstock.kernel.errors import Sentence

_Page = PageStatus
DONE = frozenset(
    {
        _Page.BLANK,
        _Page.AI_COMPLETED,
        _Page.HUMAN_COMPLETED,
        _Page.IMPORTED_CONFIRMED,
        _Page.IMPORTED_ASSUMED,
        _Page.SKIPPED,
        _Page.DEAD_LETTER,
    }
)
FOR_PEOPLE = frozenset({_Page.HUMAN_QUEUED, _Page.HUMAN_PROCESSING, _Page.AI_FAILED})

_DEGRADED = {
    "prescan_reject": Sentence(
        "所有页面均为空白或无法识别，建议上传清晰版本", "Every page is blank; a clearer copy may help"
    ),
    "eval_failed": Sentence("自动评估未能完成，已转交人工处理", "The file could not be judged, so people take over"),
    "low_confidence": Sentence(
        "自动识别把握不足，已转交人工处理", "The machine is not sure enough, so people take over"
    ),
    "budget_exhausted": Sentence("模型预算已用尽，已转交人工处理", "The model budget is used up, so people take over"),
    "circuit_open": Sentence("模型服务不可用，已转交人工处理", "The model is not available, so people take over"),
}
_EVAL_FAILED = Sentence("自动评估异常，将转交人工处理", "The evaluation failed; people will take over")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the pages of a job have come."""

    total: int
    by_status: Mapping[str, int]

    @property
    def done(self) -> int:
        return sum(count for status, count in self.by_status.items() if status in DONE)

    @property
    def for_people(self) -> int:
        return sum(count for status, count in self.by_status.items() if status in FOR_PEOPLE)

    @property
    def all_blank(self) -> bool:
        """The machine took every page for blank: then people look at them all."""
        return bool(self.total) and self.by_status.get(_Page.BLANK, 0) == self.total

    def percent(self, status: str) -> int:
        if status == JobStatus.FULL_IMPORTED:
            return 100
        if status == JobStatus.DEGRADED_HUMAN and self.all_blank:
            return 0
        return 100 * self.done // self.total if self.total else 0


def trouble(job: Mapping[str, Any]) -> Sentence | None:
    """What is wrong, if something is."""
    match job["status"]:
        case JobStatus.REJECTED if job["error_codes"]:
            return error_codes.REGISTRY[job["error_codes"][0]].message
        case JobStatus.CANCELLED:
            return error_codes.JOB_CANCELLED.message
        case JobStatus.ORPHANED:
            return error_codes.JOB_ORPHANED.message
        case JobStatus.EVAL_FAILED:
            return _EVAL_FAILED
    if job["degrade_reason"]:
        return _DEGRADED[job["degrade_reason"]]
    return None if job["error_message"] is None else Sentence(job["error_message"], job["error_message"])


def hint(job: Mapping[str, Any], progress: Progress) -> Sentence:
    """What to do or expect next, by the status that users see."""
    people, done, total = progress.for_people, progress.done, progress.total
    match job["user_status"]:
        case "processing" if job["status"] == JobStatus.PROCESSING:
            return Sentence(
                f"AI 处理中（第 {done}/{total} 页）", f"The machine is at work: {done} of {total} pages done"
            )
        case "processing":
            return Sentence("等待处理中…", "Waiting to be processed")
        case "partial_success":
            return Sentence(f"部分完成，{people} 页待人工处理", f"Partly done; {people} pages wait for people")
        case "completed":
            return Sentence("可下载结果", "The result can be downloaded")
        case "needs_manual":
            open_pages = total if progress.all_blank else total - done
            return Sentence(
                f"请检查标注队列（{open_pages} 页待处理）", f"See the review queue: {open_pages} pages to do"
            )
    return _after_failure(job)


def _after_failure(job: Mapping[str, Any]) -> Sentence:
    match job["status"]:
        case JobStatus.REJECTED if job["error_codes"]:
            return error_codes.REGISTRY[job["error_codes"][0]].remedy
        case JobStatus.CANCELLED:
            return error_codes.JOB_CANCELLED.remedy
        case JobStatus.ORPHANED:
            return error_codes.JOB_ORPHANED.remedy
    return trouble(job) or _EVAL_FAILED
