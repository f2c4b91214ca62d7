"""A plan as its row says it: enough to go on with it in another process, days later."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from penstock.harvest.compiling.canonical import namespace_key
from penstock.harvest.cursors import CursorName, Direction, Scope
from penstock.harvest.planning import drafting, identity
from penstock.harvest.planning.store import Owner, Partition, as_utc, partition_of
from penstock.harvest.planning.trigger import Candidates, Compiled, Trigger
from penstock.harvest.schedule_params import CandidateKind
from penstock.harvest.slices import Dimension, Span
from penstock.harvest.spec import CursorType, Operation, Spec


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was compiled when the plan was made."""

    spec: Spec
    snapshot: dict[str, Any]
    expr_proto_hash: str
    spec_fingerprint: str
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Job:
    plan_id: int
    instance_id: int
    compiled: Compiled
    name: CursorName
    strategy: Dimension
    window: Span | None
    rereads: Span | None
    candidates: Candidates | None
    priority: int
    created_at: datetime

    @property
    def spec(self) -> Spec:
        return self.compiled.spec

    @property
    def partition(self) -> Partition:
        return partition_of(self.spec)

    @property
    def owner(self) -> Owner:
        credential = self.spec.auth.credential_ref
        return Owner(self.plan_id, self.instance_id, self.partition, self.name.namespace, self.priority, credential)

    @property
    def drafting(self) -> drafting.Plan:
        return drafting.Plan(self.spec, self.compiled.expr_proto_hash, self.instance_id, self.priority)

    @property
    def lock(self) -> str:
        """Refreshes of one endpoint choose from the same records, so they take turns."""
        return "" if self.strategy is Dimension.ID else self.name.namespace


def job_of(row: Mapping[str, Any]) -> Job:
    remarks = row["record_remarks"]
    spec = Spec.read(row["expr_proto_snapshot"])
    compiled = Snapshot(
        spec, row["expr_proto_snapshot"], row["expr_proto_hash"], row["spec_fingerprint"],
        tuple(remarks.get("degradation", ())),
    )  # fmt: skip
    name = CursorName(
        row["provenance_code"], row["endpoint_name"], Operation(row["operation_code"]), row["cursor_key"],
        CursorType(row["cursor_type_code"]), Scope(row["namespace_scope_code"]), row["namespace_key"],
        Direction(row["direction_code"]),
    )  # fmt: skip
    start, end = as_utc(row["window_from"]), as_utc(row["window_to"])
    return Job(
        row["id"], row["schedule_instance_id"], compiled, name, Dimension(row["plan_strategy_code"]),
        Span(start, end) if start and end else None, _span_in(remarks.get("rereads")),
        _candidates_in(remarks.get("candidates")), row["priority"], row["created_at"].astimezone(UTC),
    )  # fmt: skip


def cursor_of(spec: Spec, trigger: Trigger, instance_id: int) -> CursorName:
    """Harvests share a watermark; each backfill and each refresh has a cursor of its own."""
    strategy = drafting.strategy_of(spec)
    key, kind = _key_of(spec, strategy, trigger)
    scope, namespace, direction = Scope(spec.window.namespace), namespace_key(spec), Direction.FORWARD
    if scope is Scope.GLOBAL:
        namespace = "*"
    if spec.operation is Operation.UPDATE:
        scope, namespace = Scope.CUSTOM, f"update-{instance_id}"
    if spec.operation is Operation.BACKFILL:
        since = trigger.since or spec.window.earliest
        asked = [None if moment is None else moment.astimezone(UTC).isoformat() for moment in (since, trigger.until)]
        scope, namespace, direction = Scope.CUSTOM, identity.activity_key(spec, asked[0], asked[1]), Direction.BACKFILL
    return CursorName(
        spec.provenance_code, spec.endpoint_name, spec.operation, key, kind, scope, namespace, direction
    )  # fmt: skip


def harvest_cursor_of(spec: Spec) -> CursorName:
    """The watermark that a backfill of the same endpoint and parameters must leave alone."""
    is_global = spec.window.namespace == "GLOBAL"
    return CursorName(
        spec.provenance_code, spec.endpoint_name, Operation.HARVEST, spec.window.watermark_key or "updated_at",
        CursorType.TIME, Scope(spec.window.namespace), "*" if is_global else namespace_key(spec),
    )  # fmt: skip


def _key_of(spec: Spec, strategy: Dimension, trigger: Trigger) -> tuple[str, CursorType]:
    if strategy is Dimension.ID:
        wanted = (trigger.candidates or Candidates()).kind
        # In buckets the candidates are not in the order of their age.
        if wanted is CandidateKind.STALE and not spec.planning.id_buckets:
            return "refresh_checked_at", CursorType.TIME
        return "provider_id", CursorType.ID
    if strategy is Dimension.TIME:
        return spec.window.watermark_key or "updated_at", CursorType.TIME
    if spec.window.cursor_type is CursorType.ID:
        return spec.window.watermark_key or "provider_id", CursorType.ID
    return "page_token", CursorType.TOKEN


def span_text(span: Span | None) -> dict[str, str] | None:
    return None if span is None else {"from": span.start.isoformat(), "to": span.end.isoformat()}


def _span_in(text: Mapping[str, str] | None) -> Span | None:
    return Span(datetime.fromisoformat(text["from"]), datetime.fromisoformat(text["to"])) if text else None


def _candidates_in(text: Mapping[str, Any] | None) -> Candidates | None:
    return Candidates(CandidateKind(text["kind"]), text.get("limit")) if text else None
