"""What a planner writes down: the columns of a plan, its remarks, and the sentences about having nothing to do."""

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.harvest.cursors import CursorName
from penstock.harvest.durations import iso_text
from penstock.harvest.planning import drafting
from penstock.harvest.planning.filling import Filled
from penstock.harvest.planning.job import Job, span_text
from penstock.harvest.planning.trigger import Candidates, Compiled, Trigger
from penstock.harvest.planning.windows import Stretch
from penstock.harvest.spec import Operation, Spec
from penstock.harvest.states import PlanStatus
from penstock.kernel.errors import PenstockError, Sentence

ALL_QUEUED = Sentence(
    zh="没有新的时间窗：缺少的部分都已在队列中或正在采集。",
    en="Nothing to do: what is missing waits in the queue already or is being fetched.",
)
ALL_STORED = Sentence(zh="没有可做的：该时间窗已全部入库。", en="Nothing to do: all of this window is stored.")
NO_CANDIDATES = Sentence(zh="没有需要刷新的记录。", en="Nothing to do: no record needs to be looked at again.")


def queue_full(plan_id: int) -> Sentence:
    return Sentence(
        zh=f"队列已满，计划 {plan_id} 尚有未切分的部分，会在有余量时继续。",
        en=f"The queue is full; plan {plan_id} has more to slice and goes on when there is room.",
    )


def instance_columns(trigger: Trigger) -> dict[str, Any]:
    return {
        "scheduler_code": trigger.scheduler_code,
        "provenance_code": trigger.provenance_code,
        "endpoint_name": trigger.endpoint_name or "",
        "operation_code": trigger.operation,
        "trigger_type_code": trigger.trigger_type,
        "trigger_params": trigger.described(),
        "idempotent_key": trigger.idempotent_key,
    }


def plan_columns(spec: Spec, trigger: Trigger, instance_id: int, stretch: Stretch | None) -> dict[str, Any]:
    noted: dict[str, Any] = {}
    if stretch is not None and stretch.rereads is not None:
        noted["rereads"] = span_text(stretch.rereads)
    if spec.operation is Operation.UPDATE:
        wanted = trigger.candidates or Candidates()
        noted["candidates"] = {"kind": str(wanted.kind), "limit": wanted.limit}
    return {
        "schedule_instance_id": instance_id,
        "provenance_code": spec.provenance_code,
        "endpoint_name": spec.endpoint_name,
        "operation_code": spec.operation,
        "window_from": stretch and stretch.window.start,
        "window_to": stretch and stretch.window.end,
        "plan_strategy_code": drafting.strategy_of(spec),
        "status_code": PlanStatus.DRAFT,
        "priority": spec.planning.priorities.get(spec.operation, 100),
        "record_remarks": noted,
    }


def cursor_columns(name: CursorName) -> dict[str, Any]:
    return {
        "cursor_key": name.key,
        "cursor_type_code": name.type,
        "namespace_scope_code": name.scope,
        "namespace_key": name.namespace,
        "direction_code": name.direction,
    }


def snapshot_columns(compiled: Compiled) -> dict[str, Any]:
    return {
        "expr_proto_hash": compiled.expr_proto_hash,
        "expr_proto_snapshot": compiled.snapshot,
        "spec_fingerprint": compiled.spec_fingerprint,
    }


def refusal(failure: PenstockError) -> dict[str, Any]:
    """Why no plan came of it."""
    message = failure.code.message
    details = {name: _plain(value) for name, value in failure.details.items()}
    return {"code": failure.code.code, "message": {"zh": message.zh, "en": message.en}, "details": details}


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | list | dict | None) else str(value)


def window_remark(spec: Spec, job_window: Mapping[str, str] | None) -> dict[str, Any] | None:
    return {**job_window, "safetyLag": iso_text(spec.window.safety_lag)} if job_window else None


def degradations(compiled: Compiled, notes: Sequence[str], strategy: str) -> list[str]:
    """Where we do with less than we would like."""
    named = [*compiled.warnings, *notes]
    if strategy in ("PAGE", "SCAN"):
        named.append("noWindows")
    return list(dict.fromkeys(named))


def summary(
    job: Job, before: Mapping[str, Any], totals: Mapping[str, Any], filled: Filled, notes: Sequence[str]
) -> dict[str, Any]:
    """As dashboards read it."""
    warnings = [*before.get("warnings", ()), *filled.warnings]
    return {
        **before,
        "totalEstimated": totals["estimated"],
        "sliceCount": totals["slices"],
        "avgWindowSeconds": totals["seconds"],
        "window": window_remark(job.spec, span_text(job.window)),
        "namespace": {"scope": str(job.name.scope), "key": job.name.namespace, "direction": str(job.name.direction)},
        "degradation": degradations(job.compiled, notes, job.strategy),
        "budget": {"maxRequests": totals["requests"], "qps": job.spec.rate_limit.qps},
        "warnings": list(dict.fromkeys(warnings)),
        "waiting": filled.waiting,
    }
