"""What can be said of an endpoint: the sections of a source file, and of the snapshot that is compiled from it.

One model serves both. In a file each key may be left out; the compiler lays five levels of partial sections over each
other (platform, source, endpoint, section, this run) and the result is a whole `Spec`. Keys are written in camelCase,
as in snapshots. Invariant: a `Spec` holds no secret, only the names of credentials.
"""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel

from penstock.harvest.durations import iso_text, read_duration

Duration = Annotated[
    timedelta, BeforeValidator(read_duration), PlainSerializer(iso_text, return_type=str, when_used="json")
]


def _as_utc(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


Instant = Annotated[datetime, AfterValidator(_as_utc)]


class Operation(StrEnum):
    HARVEST = "HARVEST"  # forward, from the watermark to now less the safety lag
    BACKFILL = "BACKFILL"  # old windows, towards the past, in a namespace of its own
    UPDATE = "UPDATE"  # records that we have, fetched again by id


class PageType(StrEnum):
    OFFSET = "OFFSET"
    PAGE = "PAGE"
    TOKEN = "TOKEN"  # noqa: S105  a kind of pagination
    URL = "URL"
    TIME = "TIME"


class CursorType(StrEnum):
    TIME = "TIME"
    ID = "ID"
    TOKEN = "TOKEN"  # noqa: S105  as above


class Section(BaseModel):
    """A group of settings. Unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class Http(Section):
    """How a request looks. Templates may hold `${…}`; a value that renders to null is left out."""

    method: Literal["GET", "POST"] = "GET"
    base_url: str = Field("", description="https://…; http only with allowHttp")
    path_template: str = ""
    headers_template: dict[str, str] = Field(default_factory=dict)
    query_template: dict[str, str] = Field(default_factory=dict)
    body_template: dict[str, str] = Field(default_factory=dict, description="Fields of a form or a JSON object")
    body_type: Literal["FORM", "JSON"] = "FORM"
    connect_timeout: Duration = timedelta(seconds=10)
    read_timeout: Duration = Field(timedelta(seconds=30), le=timedelta(seconds=120))
    compression: bool = True
    proxy: str | None = None
    follow_redirects: bool = Field(False, description="GET only, three at the most")
    allow_http: bool = False
    max_body_bytes: int = Field(64 * 1024 * 1024, gt=0)


class OAuth2(Section):
    token_url: str
    scope: str | None = None
    refresh: bool = True
    early: Duration = Field(timedelta(seconds=60), description="A token is renewed so long before it ends")


class Auth(Section):
    """How a request says who we are. The secret itself is with the credential, outside of all snapshots."""

    type: Literal["NONE", "API_KEY", "BEARER", "OAUTH2", "CUSTOM"] = "NONE"
    required: bool = Field(False, description="The endpoint does not answer to strangers")
    location: Literal["HEADER", "QUERY", "BODY"] = "HEADER"
    name: str | None = Field(None, description="Of the header, the query parameter or the field")
    prefix: str = Field("", description="Put before the secret, e.g. 'Bearer '")
    credential_ref: str | None = None
    oauth2: OAuth2 | None = None
    signing_hook: str | None = Field(None, description="Entry point of the group penstock.harvest.signing")


class Pagination(Section):
    """How one page leads to the next."""

    type: PageType | None = None
    page_size: int = Field(100, gt=0)
    max_page_size: int | None = Field(None, gt=0, description="The provider's limit")
    max_page: int | None = Field(None, gt=0)
    ceiling: int | None = Field(None, gt=0, description="No more results than this can be paged through")
    initial_offset: int = 0
    initial_token: str | None = Field(None, description="Sent with the first request, e.g. *")
    initial_url: str | None = None
    base1: bool | None = Field(None, description="PAGE: is the first page 1, or 0?")
    order_by: str | None = None
    next_token_path: str | None = None
    next_url_path: str | None = None
    has_more_path: str | None = None
    short_page_ends: bool | None = Field(None, description="A page that is not full is the last one")
    tail_probe: bool = Field(False, description="When a token or URL is missing on a full page, ask once more")
    token_ttl: Duration | None = Field(None, description="Older tokens are not used again: the slice begins anew")
    reconcile: bool = Field(True, description="Read again when fewer ids came than the source says there are")
    bridge_to_time: bool = Field(
        True, description="At maxPage or the ceiling the window is cut instead of ending short"
    )
    time_step: Duration | None = Field(None, description="TIME: width of the window of one request")


class Window(Section):
    """Which stretch of time one plan asks for, and how far forward it is safe to go."""

    supports_updated_since: bool = False
    cursor_type: CursorType = CursorType.TIME
    watermark_key: str | None = None
    namespace: Literal["GLOBAL", "EXPR"] = "EXPR"
    safety_lag: Duration = timedelta(minutes=10)
    max_window: Duration = timedelta(days=1)
    min_window: Duration = timedelta(minutes=1)
    align: Literal["sec", "min", "hour", "day"] = "min"
    bounds: Literal["INCLUSIVE", "HALF_OPEN"] = Field("HALF_OPEN", description="How the source reads the upper bound")
    granularity: Duration = Field(timedelta(seconds=1), description="The smallest step of the source's bounds")
    earliest: Instant | None = Field(None, description="The first harvest begins here; without it, `initial` ago")
    initial: Duration = timedelta(days=7)
    overlap: Duration = Field(timedelta(0), description="Each harvest reads so much again, for what arrives late")
    client_filter: bool = Field(False, description="The source cannot filter: we drop what lies outside the window")
    monotonic: bool = Field(False, description="The order of the source never changes for items already served")
    timezone: Literal["UTC"] = "UTC"
    boundary_policy: Literal["[from,to)"] = "[from,to)"


class Retry(Section):
    policy: Literal["exponential_jitter"] = "exponential_jitter"
    max_attempts: int = Field(5, ge=1, le=20)
    first: Duration = timedelta(milliseconds=100)
    longest: Duration = timedelta(seconds=30)
    multiplier: float = Field(2.0, ge=1)
    jitter: float = Field(0.2, ge=0, le=1)
    retryable_status: tuple[int, ...] = (408, 425, 429, 500, 502, 503, 504)


class RateLimit(Section):
    """The promise to the provider, kept by all executors together."""

    qps: float = Field(1.0, gt=0)
    burst: int = Field(1, ge=1)
    pace: float = Field(0.95, gt=0, le=1, description="The share of qps that is used")
    provider_qps: float | None = Field(None, gt=0, description="The provider's documented limit; qps may not exceed it")
    warmup: Duration = timedelta(0)
    demote_rate: float = Field(2.0, gt=1)
    min_rate: float = Field(0.1, gt=0)
    cool_down: Duration = timedelta(seconds=10)
    quota_daily: int | None = Field(None, gt=0)
    quota_hourly: int | None = Field(None, gt=0)
    quota_margin: float = Field(0.1, ge=0, lt=1)
    quota_reserve: float = Field(
        0.2, ge=0, lt=1, description="Below this share only HARVEST may spend; UPDATE twice it"
    )
    header_adaptive: bool = True
    cost: int = Field(1, ge=1)
    shared_by_endpoints: bool = False
    by_credential: bool = False
    concurrency: int | None = Field(None, ge=1, description="Connections at once to the whole source")


class TwoPhase(Section):
    enabled: bool = False
    linked_endpoint: str | None = None
    threshold: int = Field(1, ge=1, description="So few ids are not worth a request of their own while more may come")


class Batching(Section):
    id_batch_size: int = Field(200, gt=0)
    max_id_batch_size: int | None = Field(None, gt=0)
    two_phase: TwoPhase = TwoPhase()


class Expr(Section):
    allowed_functions: tuple[str, ...] = (
        "now",
        "formatDateTime",
        "coalesce",
        "concat",
        "join",
        "jsonPath",
        "urlEncode",
    )
    timezone: Literal["UTC"] = "UTC"
    null_policy: Literal["omit", "empty", "fail"] = "omit"
    time_format: str = "%Y-%m-%dT%H:%M:%SZ"


class Response(Section):
    """Where things are in an answer: JSONPath (RFC 9535) for JSON, XPath 1.0 for XML."""

    format: Literal["JSON", "XML"] = "JSON"
    namespaces: dict[str, str] = Field(default_factory=dict, description="XML: prefix to address")
    items_path: str | None = None
    id_path: str | tuple[str, ...] | None = Field(None, description="Several paths: joined by ':'")
    id_pattern: str | None = Field(None, description="Regular expression; its first group is the id")
    updated_at_path: str | tuple[str, ...] | None = Field(None, description="Several: the first that is there")
    updated_at_format: str | None = Field(None, description="strptime format; without it ISO 8601 or an epoch")
    updated_at_from: Literal["ITEM", "WINDOW"] = Field("ITEM", description="WINDOW: the source does not tell")
    version_path: str | None = None
    deleted_path: str | None = Field(None, description="What it finds is compared with deletedValue")
    deleted_value: str | None = None
    on_equal: Literal["KEEP", "REPLACE"] = Field("KEEP", description="Same updatedAt, other content: what holds?")
    total_path: str | None = None
    error_path: str | None = Field(None, description="Something found here is an error, whatever the status says")
    empty_errors: tuple[str, ...] = Field((), description="Errors (regular expressions) that only mean: no results")
    retry_errors: tuple[str, ...] = Field((), description="Errors (regular expressions) that pass: worth another try")
    truncated_path: str | None = Field(None, description="Something found here: the answer was cut short")


class RequestParam(Section):
    name: str
    location: Literal["QUERY", "HEADER", "BODY", "PATH"] = "QUERY"
    required: bool = False
    default: str | None = None
    expr: str | None = Field(None, description="A template; without it the run's parameter of that name")
    pattern: str | None = Field(None, description="The rendered value must match, or the request is not sent")


class OutputField(Section):
    name: str
    expr: str = Field(description="A path into the item")
    required: bool = False


class Mapping(Section):
    request_params: tuple[RequestParam, ...] = ()
    output_fields: tuple[OutputField, ...] = ()
    sink: bool = Field(False, description="Each stored version is also announced as an event, record.changed")


class Count(Section):
    """How to ask for the number of results alone, for estimates. Without it, estimates come from experience."""

    query_template: dict[str, str] = Field(default_factory=dict, description="Laid over http.queryTemplate")


class Planning(Section):
    c_max: int = Field(4, ge=1, description="Tasks at once of this endpoint and operation")
    queue_limit: int = Field(10_000, ge=1, description="No more tasks wait than this; the rest is sliced later")
    slice_items: int = Field(50_000, ge=1, description="Windows with more results than this are cut in two")
    slice_requests: int | None = Field(None, ge=1, description="As slice_items, in requests")
    pages_per_slice: int = Field(200, ge=1)
    ids_per_slice: int = Field(2_000, ge=1)
    id_buckets: int = Field(0, ge=0, description="UPDATE: hash buckets instead of ranges")
    max_duration: Duration = timedelta(minutes=15)
    stale_after: Duration = Field(timedelta(days=30), description="UPDATE: records not looked at for so long")
    priorities: dict[Operation, int] = Field(
        default_factory=lambda: {Operation.HARVEST: 100, Operation.UPDATE: 200, Operation.BACKFILL: 300}
    )


class Sections(Section):
    """All of it: what a level may say, and what a snapshot says."""

    http: Http = Http()
    auth: Auth = Auth()
    pagination: Pagination = Pagination()
    window: Window = Window()
    retry: Retry = Retry()
    rate_limit: RateLimit = RateLimit()
    batching: Batching = Batching()
    expr: Expr = Expr()
    response: Response = Response()
    mapping: Mapping = Mapping()
    count: Count | None = None
    planning: Planning = Planning()
    params: dict[str, str] = Field(default_factory=dict, description="What is asked for; `param.NAME` in templates")


class Spec(Sections):
    """The compiled snapshot of one endpoint and operation."""

    provenance_code: str
    endpoint_name: str
    role: Literal["SEARCH", "DETAIL", "METRICS"] = "SEARCH"
    operation: Operation
    registry_version: int
    detail: "Sections | None" = Field(None, description="Two-phase: the sections of the linked endpoint")
    detail_endpoint: str | None = None

    @classmethod
    def read(cls, snapshot: dict[str, Any]) -> "Spec":
        """A stored snapshot, as it was compiled."""
        return cls.model_validate(snapshot)

    def snapshot(self) -> dict[str, Any]:
        """JSON values only, keys in camelCase."""
        return self.model_dump(mode="json", by_alias=True)
