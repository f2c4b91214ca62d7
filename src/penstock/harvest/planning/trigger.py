"""What goes into a planner and what comes out, and the few things it needs from others."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from penstock.harvest.schedule_params import CandidateKind
from penstock.harvest.slices import Dimension, SliceSpec, Span
from penstock.harvest.spec import Operation, Spec
from penstock.harvest.states import PlanStatus
from penstock.kernel.errors import Sentence


@dataclass(frozen=True, slots=True)
class Candidates:
    kind: CandidateKind = CandidateKind.STALE
    limit: int | None = None  # the setting, when not given


@dataclass(frozen=True, slots=True)
class Trigger:
    """Somebody wants something fetched."""

    provenance_code: str
    endpoint_name: str | None = None  # the source's default one
    operation: Operation = Operation.HARVEST
    since: datetime | None = None
    until: datetime | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)  # overrides for this run alone
    scheduler_code: str = "CLI"
    trigger_type: str = "MANUAL"
    idempotent_key: str | None = None
    candidates: Candidates | None = None

    def described(self) -> dict[str, Any]:
        """For the row of the trigger."""
        return {
            "since": self.since and self.since.isoformat(),
            "until": self.until and self.until.isoformat(),
            "params": dict(self.params),
            "run": dict(self.run),
            "candidates": self.candidates and {"kind": self.candidates.kind, "limit": self.candidates.limit},
        }


class Compiled(Protocol):
    """What the planner needs of a compiled specification."""

    @property
    def spec(self) -> Spec: ...
    @property
    def snapshot(self) -> dict[str, Any]: ...
    @property
    def expr_proto_hash(self) -> str: ...
    @property
    def spec_fingerprint(self) -> str: ...
    @property
    def warnings(self) -> Sequence[str]: ...


LoadAndCompile = Callable[[Trigger], Awaitable[Compiled]]


class Estimator(Protocol):
    async def count(self, compiled: Compiled, span: Span | None) -> int | None:
        """How many results a window holds, or all of the source; none: unknown."""


class Allowance(Protocol):
    async def left(self, spec: Spec) -> int | None:
        """Requests that the source's quota still allows, before what is reserved for others; none: no quota."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a trigger. Without a plan, `sentence` says why there is nothing to do."""

    plan_id: int | None
    slices: int
    tasks: int
    status: PlanStatus | None
    remarks: Mapping[str, Any]
    sentence: Sentence | None = None


@dataclass(frozen=True, slots=True)
class PreviewSlice:
    slice_no: int
    spec: SliceSpec
    requests: int  # expected


@dataclass(frozen=True, slots=True)
class Preview:
    """What a trigger would do. Nothing of it is written."""

    spec: Spec
    strategy: Dimension
    window: Span | None
    namespace: str
    slices: Sequence[PreviewSlice]
    is_cut_short: bool  # there would be more slices than are shown, or than may wait at once
    remarks: Mapping[str, Any]
    sentence: Sentence | None = None
