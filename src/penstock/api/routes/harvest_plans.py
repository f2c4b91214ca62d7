"""Plans of the harvest: order one, see what it would do, look how far it has come."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response
from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints, model_validator
from pydantic.alias_generators import to_camel
from starlette.requests import Request

from penstock.api import examples as common
from penstock.api import harvest_examples as examples
from penstock.api.errors import language_of
from penstock.api.guard import GuardedRoute, SignedIn
from penstock.api.large_body import StrictBody, few_fields
from penstock.api.openapi import may_fail_with
from penstock.api.parameters import LARGEST_ID, Code, IdempotencyKey, Moment
from penstock.api.routes.harvest_shapes import PlanDetail, Planned, PlanPreview, SlicePreview
from penstock.bootstrap import Parts
from penstock.harvest import looking, orders
from penstock.harvest.planning import CandidateKind, Candidates, Preview, Trigger
from penstock.harvest.spec import Operation
from penstock.kernel import audit, error_codes
from penstock.kernel.errors import Language
from penstock.kernel.identity import Caller

router = APIRouter(route_class=GuardedRoute, tags=["harvest"])

ParamName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
ParamValue = Annotated[str, StringConstraints(max_length=2000, pattern=r"^[^\x00]*$")]
_Size = Annotated[int | None, Field(ge=1, le=10_000_000)]
_REFUSALS = (
    error_codes.SOURCE_UNKNOWN,
    error_codes.ENDPOINT_UNKNOWN,
    error_codes.SPEC_INVALID,
    error_codes.HARVEST_WINDOW_INVALID,
    error_codes.HARVEST_UPDATE_IMPOSSIBLE,
    error_codes.EXPRESSION_FAILED,
)
_PLANNED = common.answer(
    examples.PLANNED,
    headers={"Location": {"schema": {"type": "string"}, "example": f"/api/v1/harvest/plans/{examples.PLAN_ID}"}},
)
_NOTHING = common.answer(examples.NOTHING_TO_DO, description="There is nothing to do", model=Planned)


class RunPlanning(StrictBody):
    """How the work is cut, for this plan alone."""

    slice_items: _Size = None
    slice_requests: _Size = None
    pages_per_slice: _Size = None
    ids_per_slice: Annotated[int | None, Field(ge=1, le=100_000)] = None
    stale_after_days: Annotated[int | None, Field(ge=1, le=36_500, description="UPDATE: not looked at for so long")] = (
        None
    )

    def section(self) -> dict[str, Any]:
        days = self.stale_after_days
        cut = self.model_dump(exclude_none=True, exclude={"stale_after_days"})
        return {to_camel(name): value for name, value in cut.items()} | ({"staleAfter": f"P{days}D"} if days else {})


class RunRates(StrictBody):
    """Slower than the source is registered with; faster is refused. How many connections there are at once is counted
    for all runs together, so no run has a number of its own."""

    qps: float | None = Field(None, gt=0, le=1_000_000, allow_inf_nan=False)
    burst: _Size = None


class RunOverrides(StrictBody):
    """All that an order may change of the source. Where requests go, and with which credential, is not among it."""

    planning: RunPlanning = Field(default_factory=RunPlanning)
    rate_limit: RunRates = Field(default_factory=RunRates)

    def sections(self) -> dict[str, Any]:
        made = {"planning": self.planning.section(), "rateLimit": self.rate_limit.model_dump(exclude_none=True)}
        return {name: section for name, section in made.items() if section}


class OrderedCandidates(StrictBody):
    """UPDATE: which records are looked at again."""

    kind: CandidateKind = CandidateKind.STALE
    limit: Annotated[int | None, Field(ge=1, le=100_000)] = None


class HarvestOrder(StrictBody):
    """What is to be fetched."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.ORDER]})

    source: Code
    endpoint: Code | None = Field(None, description="Without it, the source's default one")
    operation: Operation = Operation.HARVEST
    since: Moment | None = Field(None, description="UTC when it names no zone; for HARVEST and BACKFILL")
    until: Moment | None = Field(None, description="Not included")
    params: Annotated[dict[ParamName, ParamValue], BeforeValidator(few_fields)] = Field(
        default_factory=dict, max_length=50, description="What is asked for; each set of them has a cursor of its own"
    )
    candidates: OrderedCandidates | None = None
    run: RunOverrides = Field(default_factory=RunOverrides)

    @model_validator(mode="after")
    def _fits_its_operation(self) -> "HarvestOrder":
        if self.operation is Operation.UPDATE and (self.since or self.until):
            raise ValueError("since and until are for HARVEST and BACKFILL, not for UPDATE")
        if self.operation is not Operation.UPDATE and self.candidates is not None:
            raise ValueError("candidates are for UPDATE alone")
        return self

    def trigger(self, key: str | None = None) -> Trigger:
        chosen = self.candidates
        return Trigger(
            self.source, self.endpoint, self.operation, self.since, self.until, self.params, self.run.sections(),
            scheduler_code="API", idempotent_key=key,
            candidates=None if chosen is None else Candidates(chosen.kind, chosen.limit),
        )  # fmt: skip


@router.post(
    "/api/v1/harvest/plans",
    summary="Plan a harvest",
    status_code=201,
    response_model=Planned,
    responses={200: _NOTHING, 201: _PLANNED},
    openapi_extra=may_fail_with(*_REFUSALS, error_codes.IDEMPOTENCY_KEY_REUSED),
)
async def create_plan(
    request: Request,
    response: Response,
    caller: SignedIn,
    body: HarvestOrder,
    idempotency_key: IdempotencyKey = None,
) -> Planned:
    """Windows that are stored, queued or being fetched are never queued twice, whoever asks. The answer comes when the
    work is cut and queued, which for a source that is asked for numbers first may take minutes; executors begin before
    that. Sent again with the same key, it answers the same plan. A run may say how work is cut, and a lower rate:
    never where requests go or which credential goes with them, so sections such as `http` and `auth` are refused. Goes
    to the audit log."""
    parts: Parts = request.app.state.parts
    key = None if idempotency_key is None else f"api:{caller.merchant_id}:{caller.user_id}:{idempotency_key}"
    trigger = body.trigger(key)
    await _write_down(request, caller, trigger)
    outcome = await orders.place(parts.harvest, trigger)
    if outcome.plan_id is None:
        response.status_code = 200
        said = outcome.sentence
        return Planned(plan=None, sentence=None if said is None else said.in_language(language_of(request)))
    response.headers["Location"] = f"/api/v1/harvest/plans/{outcome.plan_id}"
    return Planned(plan=await _plan(parts, outcome.plan_id), sentence=None)


@router.post(
    "/api/v1/harvest/plans/preview",
    summary="See what an order would do",
    openapi_extra=may_fail_with(*_REFUSALS),
)
async def preview_plan(request: Request, body: HarvestOrder) -> PlanPreview:
    """Writes nothing. A source that can be asked for numbers is asked, within its rate. At most a thousand slices are
    shown; the same refusals as for a plan."""
    parts: Parts = request.app.state.parts
    found = await orders.preview(parts.harvest, body.trigger())
    return _shown(found, language_of(request))


@router.get(
    "/api/v1/harvest/plans/{plan_id}",
    summary="One plan",
    openapi_extra=may_fail_with(error_codes.PLAN_UNKNOWN),
)
async def get_plan(
    request: Request,
    plan_id: Annotated[int, Path(ge=1, le=LARGEST_ID, description="A plan", examples=[examples.PLAN_ID])],
) -> PlanDetail:
    """Its tasks by status, and what all of their runs together asked for, received and stored. A plan is done when it
    is READY and no task of it is QUEUED, DISPATCHED or EXECUTING."""
    return await _plan(request.app.state.parts, plan_id)


async def _plan(parts: Parts, plan_id: int) -> PlanDetail:
    async with parts.database.transaction() as tx:
        return PlanDetail.model_validate(await looking.plan(tx, plan_id))


async def _write_down(request: Request, caller: Caller, trigger: Trigger) -> None:
    parts: Parts = request.app.state.parts
    facts = {"endpoint": trigger.endpoint_name, "operation": str(trigger.operation), **trigger.described()}
    entry = audit.Entry(
        actor=caller.user_id, role=caller.role.value, action="order_harvest",
        subject=f"source:{trigger.provenance_code}", details=facts, request_id=request.state.request_id,
    )  # fmt: skip
    async with parts.database.transaction() as tx:
        await audit.record(tx, entry)


def _shown(found: Preview, language: Language) -> PlanPreview:
    spec, window = found.spec, found.window
    return PlanPreview(
        source=spec.provenance_code,
        endpoint=spec.endpoint_name,
        operation=spec.operation,
        strategy=found.strategy,
        window_from=window and window.start,
        window_to=window and window.end,
        namespace=found.namespace,
        slices=[
            SlicePreview(slice_no=each.slice_no, slice_spec=each.spec.stored(), requests=each.requests)
            for each in found.slices
        ],
        is_cut_short=found.is_cut_short,
        remarks=dict(found.remarks),
        sentence=found.sentence and found.sentence.in_language(language),
    )
