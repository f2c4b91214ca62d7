"""Rules of ETL: what is wanted of a document. Each change is a new version; tasks keep the one they ran with."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from penstock.api import etl_examples as examples
from penstock.api.examples import answer, shown
from penstock.api.guard import GuardedRoute, SignedIn
from penstock.api.large_body import StrictBody
from penstock.api.openapi import may_fail_with
from penstock.api.parameters import LARGEST_ID
from penstock.bootstrap import Parts
from penstock.extraction import rule_lists, rules
from penstock.extraction.rule_content import EXAMPLES_MOST, content_of
from penstock.extraction.rules import KeptRule
from penstock.extraction.trying import MAX_LETTERS, Bench, try_rule
from penstock.kernel import error_codes

router = APIRouter(route_class=GuardedRoute, tags=["etl"])

RuleId = Annotated[int, Path(ge=1, le=LARGEST_ID, description="The rule", examples=[7])]
_Text = Annotated[str, Field(max_length=20_000, pattern=r"^[^\x00]*$")]
_EXAMPLES = "Texts and the JSON that is right for each, at most 64 KiB together; shown to the model with every question"
_MADE = answer(
    examples.RULE, headers={"Location": {"schema": {"type": "string"}, "example": "/api/v1/etl/rules/7"}}
)  # fmt: skip
_CHANGES = may_fail_with(
    error_codes.ETL_RULE_NOT_FOUND, error_codes.ETL_RULE_INVALID, error_codes.ETL_RULE_NAME_TAKEN,
    error_codes.ETL_RULE_BUILT_IN, error_codes.ETL_RULE_IS_DEFAULT, error_codes.CONFIG_VERSION_CONFLICT,
    error_codes.ETL_RULE_TOO_COSTLY, error_codes.RATE_LIMITED, error_codes.SANDBOX_UNAVAILABLE,
)  # fmt: skip


class RuleExample(StrictBody):
    """A text, and the JSON that is right for it."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.RULE_EXAMPLE]})

    text: _Text
    result: Any = Field(description="Fits the rule's json_schema")


class NewRule(StrictBody):
    """A rule. The mode `llm` asks a model, `rules` maps labels and tables without one, `skip` only reads."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.NEW_RULE]})

    name: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]
    description: _Text = ""
    json_schema: dict[str, Any] | None = Field(None, description="Draft 2020-12 or 7; needed unless the mode is skip")
    system_prompt: _Text | None = None
    postprocess_mode: str = Field("llm", min_length=1, max_length=100, description="llm, skip, rules, or installed")
    postprocess_strategy: str | None = Field(
        None, max_length=100, description="direct-json, chunked-summarize, chunked-extract; none: by size"
    )
    options: dict[str, Any] = Field(default_factory=dict, description="What the post-processor understands besides")
    examples: list[RuleExample] = Field(default_factory=list, max_length=EXAMPLES_MOST, description=_EXAMPLES)


class RuleChange(StrictBody):
    """What changes; the rest stays."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.RULE_CHANGE]})

    version: int | None = Field(None, ge=1, description="The version that was read; refused if there is a newer one")
    name: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]+$")] | None = None
    description: _Text | None = None
    json_schema: dict[str, Any] | None = None
    system_prompt: _Text | None = None
    postprocess_mode: str | None = Field(None, min_length=1, max_length=100)
    postprocess_strategy: str | None = Field(None, max_length=100)
    options: dict[str, Any] | None = None
    examples: list[RuleExample] | None = Field(None, max_length=EXAMPLES_MOST)


class EtlRule(BaseModel):
    """A rule as it is now."""

    model_config = shown(examples.RULE)

    rule_id: int
    version: int
    name: str
    description: str
    json_schema: dict[str, Any] | None
    system_prompt: str | None
    postprocess_mode: str
    postprocess_strategy: str | None
    options: dict[str, Any]
    examples: list[RuleExample]
    is_system: bool = Field(description="For everybody: the built-in rule, or the default of this system")
    merchant_id: str | None
    created_by: str
    created_at: datetime | None
    updated_at: datetime | None


class EtlRuleSummary(BaseModel):
    """A rule in a list; `GET /etl/rules/{rule_id}` has all of it."""

    model_config = ConfigDict(from_attributes=True)

    rule_id: int
    version: int
    name: str
    description: str = Field(description="Its first 200 letters")
    postprocess_mode: str
    postprocess_strategy: str | None
    stored_bytes: int = Field(description="What its schema, prompt, options and examples take in the database")
    is_system: bool = Field(description="For everybody: the built-in rule, or the default of this system")
    merchant_id: str | None
    created_by: str
    created_at: datetime | None
    updated_at: datetime | None


class EtlRules(BaseModel):
    """By number; the built-in one first."""

    model_config = shown(examples.RULES)

    rules: list[EtlRuleSummary]
    next_after: int | None = Field(description="Ask with `after` for the next part; none: that was all")


class RuleVersion(BaseModel):
    """What a rule said once; never changed."""

    model_config = shown(examples.RULE_VERSION)

    version: int
    created_by: str
    created_at: datetime
    content: dict[str, Any]


class RuleVersionSummary(BaseModel):
    """A version in a list; `GET /etl/rules/{rule_id}/versions/{version}` has what it said."""

    model_config = ConfigDict(from_attributes=True)

    version: int
    stored_bytes: int = Field(description="What it takes in the database")
    created_by: str
    created_at: datetime


class RuleVersions(BaseModel):
    """The newest first."""

    model_config = shown(examples.RULE_VERSIONS)

    versions: list[RuleVersionSummary]
    next_before: int | None = Field(description="Ask with `before` for the next part; none: that was all")


class Trial(StrictBody):
    """A short text to try a rule on."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.TRIAL]})

    text: str = Field(min_length=1, max_length=MAX_LETTERS, pattern=r"^[^\x00]+$")


class Tried(BaseModel):
    """What came of it; nothing was stored."""

    model_config = shown(examples.TRIED)

    data: Any
    metadata: dict[str, Any]


def _shown(kept: KeptRule) -> EtlRule:
    rule = kept.rule
    return EtlRule(
        rule_id=rule.rule_id, version=rule.version, name=rule.name, description=rule.description,
        json_schema=None if rule.json_schema is None else dict(rule.json_schema), system_prompt=rule.system_prompt,
        postprocess_mode=rule.postprocess_mode, postprocess_strategy=rule.postprocess_strategy,
        options=dict(rule.options), examples=[RuleExample(**each) for each in rule.examples],
        is_system=rule.is_system, merchant_id=kept.merchant_id, created_by=kept.created_by,
        created_at=kept.created_at, updated_at=kept.updated_at,
    )  # fmt: skip


@router.get("/api/v1/etl/rules", summary="Rules")
async def list_rules(
    request: Request,
    caller: SignedIn,
    *,
    after: Annotated[int, Query(ge=0, le=LARGEST_ID, description="`next_after` of the part before", examples=[7])] = 0,
    limit: Annotated[int, Query(ge=1, le=200, description="How many at the most", examples=[50])] = 50,
) -> EtlRules:
    """Those of the caller's merchant and those for everybody, without their schemas, prompts and examples."""
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        found = await rule_lists.list_rules(tx, caller, parts.settings.etl, after=after, limit=limit)
    following = found[-1].rule_id if len(found) == limit else None
    return EtlRules(rules=[EtlRuleSummary.model_validate(each) for each in found], next_after=following)


@router.post(
    "/api/v1/etl/rules",
    summary="Make a rule",
    status_code=201,
    responses={201: _MADE},
    openapi_extra=may_fail_with(
        error_codes.ETL_RULE_INVALID,
        error_codes.ETL_RULE_TOO_COSTLY,
        error_codes.ETL_RULE_NAME_TAKEN,
        error_codes.ETL_RULES_TOO_MANY,
        error_codes.RATE_LIMITED,
        error_codes.SANDBOX_UNAVAILABLE,
    ),
)
async def create_rule(request: Request, response: Response, caller: SignedIn, body: NewRule) -> EtlRule:
    """The schema is checked against its own; every problem is named in `details.problems`."""
    parts: Parts = request.app.state.parts
    await parts.limits.one_of("etl-rule", caller.merchant_id, parts.settings.etl.rule_policy())
    kept = await rules.create_rule(parts.database, caller, body.model_dump(), parts.workshop.terms())
    response.headers["Location"] = f"/api/v1/etl/rules/{kept.rule.rule_id}"
    return _shown(kept)


@router.get(
    "/api/v1/etl/rules/{rule_id}",
    summary="One rule",
    openapi_extra=may_fail_with(error_codes.ETL_RULE_NOT_FOUND),
)
async def get_rule(request: Request, caller: SignedIn, rule_id: RuleId) -> EtlRule:
    """Its newest version."""
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        return _shown(await rules.find_rule(tx, caller, rule_id, parts.settings.etl))


@router.get(
    "/api/v1/etl/rules/{rule_id}/versions",
    summary="What a rule has said",
    openapi_extra=may_fail_with(error_codes.ETL_RULE_NOT_FOUND),
)
async def list_versions(
    request: Request,
    caller: SignedIn,
    rule_id: RuleId,
    *,
    before: Annotated[
        int | None, Query(ge=1, le=2_147_483_647, description="`next_before` of the part before", examples=[3])
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200, description="How many at the most", examples=[50])] = 50,
) -> RuleVersions:
    """Every version that ever was, the newest first. The built-in rule has no history."""
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        found = await rule_lists.list_versions(tx, caller, rule_id, before=before, limit=limit)
    told = [RuleVersionSummary.model_validate(each) for each in found]
    return RuleVersions(versions=told, next_before=told[-1].version if len(told) == limit else None)


@router.get(
    "/api/v1/etl/rules/{rule_id}/versions/{version}",
    summary="What a rule said once",
    openapi_extra=may_fail_with(error_codes.ETL_RULE_NOT_FOUND),
)
async def get_version(
    request: Request,
    caller: SignedIn,
    rule_id: RuleId,
    version: Annotated[int, Path(ge=1, le=2_147_483_647, description="One of its versions", examples=[2])],
) -> RuleVersion:
    """All of it. The built-in rule has no history."""
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        found = await rule_lists.find_version(tx, caller, rule_id, version)
    content = content_of(found.rule)
    return RuleVersion(version=version, created_by=found.created_by, created_at=found.created_at, content=content)


@router.put("/api/v1/etl/rules/{rule_id}", summary="Change a rule", openapi_extra=_CHANGES)
async def change_rule(request: Request, caller: SignedIn, rule_id: RuleId, body: RuleChange) -> EtlRule:
    """What is named changes, in one new version; tasks that run keep theirs."""
    parts: Parts = request.app.state.parts
    await parts.limits.one_of("etl-rule", caller.merchant_id, parts.settings.etl.rule_policy())
    given = body.model_dump(exclude_unset=True)
    return _shown(await rules.change_rule(parts.database, caller, rule_id, given, parts.workshop.terms()))


@router.delete("/api/v1/etl/rules/{rule_id}", summary="Remove a rule", status_code=204, openapi_extra=_CHANGES)
async def delete_rule(request: Request, caller: SignedIn, rule_id: RuleId) -> None:
    """Tasks keep the version that they run with; the name is free again."""
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        await rules.delete_rule(tx, caller, rule_id, default_rule=parts.settings.etl.global_rule_id)


@router.post(
    "/api/v1/etl/rules/{rule_id}/try",
    summary="Try a rule on a short text",
    openapi_extra=may_fail_with(
        error_codes.ETL_RULE_NOT_FOUND, error_codes.ETL_TEXT_TOO_LONG, error_codes.ETL_RESULT_INVALID,
        error_codes.ETL_PROVIDER_UNKNOWN, error_codes.ETL_RULE_TOO_COSTLY, error_codes.SANDBOX_UNAVAILABLE,
        error_codes.LLM_NOT_CONFIGURED, error_codes.LLM_OUTPUT_INVALID,
        error_codes.LLM_BUDGET_EXHAUSTED, error_codes.LLM_CIRCUIT_OPEN, error_codes.LLM_RATE_LIMITED,
        error_codes.LLM_UNAVAILABLE, error_codes.LLM_REFUSED, error_codes.LLM_EMPTY, error_codes.LLM_TRUNCATED,
    ),
)  # fmt: skip
async def try_on_text(request: Request, caller: SignedIn, rule_id: RuleId, body: Trial) -> Tried:
    """Nothing is stored. What a model costs is the merchant's, who may try so often a minute as is set."""
    parts: Parts = request.app.state.parts
    await parts.limits.one_of("etl-try", caller.merchant_id, parts.settings.etl.try_policy())
    async with parts.database.transaction() as tx:
        rule = (await rules.find_rule(tx, caller, rule_id, parts.settings.etl)).rule
    shop = parts.workshop
    bench = Bench({rule.postprocess_mode: shop.processor(rule.postprocess_mode)}, shop.sandbox)
    found = await try_rule(rule, body.text, bench, merchant_id=caller.merchant_id)
    return Tried(data=found.data, metadata=dict(found.metadata))
