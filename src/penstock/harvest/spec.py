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
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:
        raise ValueError("this moment cannot be written in UTC") from None


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

    method: Literal["GET", "POST"] = Field("GET", description="POST sends bodyTemplate")
    base_url: str = Field("", description="https://…; http only with allowHttp")
    path_template: str = Field("", description="Put behind baseUrl")
    headers_template: dict[str, str] = Field(default_factory=dict, description="By name; never a secret")
    query_template: dict[str, str] = Field(
        default_factory=dict, description="By name; null takes away a weaker level's"
    )
    body_template: dict[str, str] = Field(default_factory=dict, description="Fields of a form or a JSON object")
    body_type: Literal["FORM", "JSON"] = Field("FORM", description="How a POST writes its body")
    connect_timeout: Duration = Field(timedelta(seconds=10), description="Until the connection stands")
    read_timeout: Duration = Field(
        timedelta(seconds=30), le=timedelta(seconds=120), description="Longest silence while an answer comes"
    )
    compression: bool = Field(True, description="Answers may come compressed")
    proxy: str | None = Field(None, description="Address of a proxy")
    follow_redirects: bool = Field(False, description="GET only, three at the most")
    allow_http: bool = Field(False, description="Without encryption; for stand-ins and networks of your own")
    max_body_bytes: int = Field(64 * 1024 * 1024, gt=0, description="A larger answer is refused, unpacked size")


class OAuth2(Section):
    """Client credentials: a token is fetched with the client's id and secret, and used until it ends."""

    token_url: str = Field(description="Where tokens are given out")
    scope: str | None = Field(None, description="Asked for with the token")
    refresh: bool = Field(True, description="Fetch a new token when the old one is refused")
    early: Duration = Field(timedelta(seconds=60), description="A token is renewed so long before it ends")


class Auth(Section):
    """How a request says who we are. The secret itself is with the credential, outside of all snapshots."""

    type: Literal["NONE", "API_KEY", "BEARER", "OAUTH2", "CUSTOM"] = Field("NONE", description="The way")
    required: bool = Field(False, description="The endpoint does not answer to strangers")
    location: Literal["HEADER", "QUERY", "BODY"] = Field("HEADER", description="Where an API key is put")
    name: str | None = Field(None, description="Of the header, the query parameter or the field")
    prefix: str = Field("", description="Put before the secret, e.g. 'Bearer '")
    credential_ref: str | None = Field(None, description="Name of an entry under credentials")
    oauth2: OAuth2 | None = Field(None, description="Where tokens come from, for OAUTH2")
    signing_hook: str | None = Field(None, description="Entry point of the group penstock.harvest.signing")


class Pagination(Section):
    """How one page leads to the next."""

    type: PageType | None = Field(None, description="How the next page is asked for")
    page_size: int = Field(100, gt=0, description="Items asked for at once")
    max_page_size: int | None = Field(None, gt=0, description="The provider's limit")
    max_page: int | None = Field(None, gt=0, description="No further page than this is served")
    ceiling: int | None = Field(None, gt=0, description="No more results than this can be paged through")
    initial_offset: int = Field(0, description="OFFSET: of the first item")
    initial_token: str | None = Field(None, description="Sent with the first request, e.g. *")
    initial_url: str | None = Field(None, description="URL: of the first page; without it, made from http")
    base1: bool | None = Field(None, description="PAGE: is the first page 1, or 0?")
    order_by: str | None = Field(
        None, description="The order asked for; must be said where the source cannot filter by time"
    )
    next_token_path: str | None = Field(None, description="TOKEN: where the next token is in an answer")
    next_url_path: str | None = Field(None, description="URL: where the next address is")
    has_more_path: str | None = Field(None, description="Where an answer says whether there is more")
    short_page_ends: bool | None = Field(None, description="A page that is not full is the last one")
    tail_probe: bool = Field(False, description="When a token or URL is missing on a full page, ask once more")
    token_ttl: Duration | None = Field(None, description="Older tokens are not used again: the slice begins anew")
    reconcile: bool = Field(
        True, description="Fewer ids than the source says there are: read again, then fail. No: totals are estimates"
    )
    bridge_to_time: bool = Field(
        True, description="At maxPage or the ceiling the window is cut instead of ending short"
    )
    time_step: Duration | None = Field(None, description="TIME: width of the window of one request")


class Window(Section):
    """Which stretch of time one plan asks for, and how far forward it is safe to go."""

    supports_updated_since: bool = Field(False, description="The source can be asked for a stretch of time")
    cursor_type: CursorType = Field(CursorType.TIME, description="What the watermark is")
    watermark_key: str | None = Field(None, description="Which time moves forward, for people, e.g. updated_at")
    namespace: Literal["GLOBAL", "EXPR"] = Field(
        "EXPR", description="Who shares a watermark: all endpoints, or those who ask the same question"
    )
    safety_lag: Duration = Field(timedelta(minutes=10), description="What is younger than this is not asked for yet")
    max_window: Duration = Field(timedelta(days=1), description="Widest window of one slice")
    min_window: Duration = Field(timedelta(minutes=1), description="Windows are not cut narrower than this")
    align: Literal["sec", "min", "hour", "day"] = Field("min", description="Windows begin and end on such ticks, UTC")
    bounds: Literal["INCLUSIVE", "HALF_OPEN"] = Field("HALF_OPEN", description="How the source reads the upper bound")
    granularity: Duration = Field(timedelta(seconds=1), description="The smallest step of the source's bounds")
    earliest: Instant | None = Field(None, description="The first harvest begins here; without it, `initial` ago")
    initial: Duration = Field(timedelta(days=7), description="How far back the first harvest goes")
    overlap: Duration = Field(timedelta(0), description="Each harvest reads so much again, for what arrives late")
    client_filter: bool = Field(False, description="The source cannot filter: we drop what lies outside the window")
    monotonic: bool = Field(False, description="The order of the source never changes for items already served")
    timezone: Literal["UTC"] = Field("UTC", description="Always UTC")
    boundary_policy: Literal["[from,to)"] = Field("[from,to)", description="Always half open, inside Penstock")


class Retry(Section):
    """How often one request is sent again, and after what rest. What `Retry-After` says is kept to as well."""

    policy: Literal["exponential_jitter"] = Field("exponential_jitter", description="Rests grow, and differ a little")
    max_attempts: int = Field(5, ge=1, le=20, description="The first one included")
    first: Duration = Field(timedelta(milliseconds=100), description="The first rest")
    longest: Duration = Field(timedelta(seconds=30), description="No rest is longer")
    multiplier: float = Field(2.0, ge=1, description="Each rest is so many times the one before")
    jitter: float = Field(0.2, ge=0, le=1, description="By how much of itself a rest may differ")
    retryable_status: tuple[int, ...] = Field(
        (408, 425, 429, 500, 502, 503, 504), description="HTTP statuses that are worth another try"
    )


class RateLimit(Section):
    """The promise to the provider, kept by all executors together."""

    qps: float = Field(1.0, gt=0, description="Requests a second, of all executors together")
    burst: int = Field(1, ge=1, description="So many at once after a pause")
    pace: float = Field(0.95, gt=0, le=1, description="The share of qps that is used")
    provider_qps: float | None = Field(None, gt=0, description="The provider's documented limit; qps may not exceed it")
    warmup: Duration = Field(timedelta(0), description="Time from a slow start to the full rate")
    demote_rate: float = Field(2.0, gt=1, description="After a 429 or a 5xx the rate is divided by this")
    min_rate: float = Field(0.1, gt=0, description="Never slower than so many a second")
    cool_down: Duration = Field(
        timedelta(seconds=10), description="A rate that was divided grows again by one step in this time"
    )
    quota_daily: int | None = Field(None, gt=0, description="Requests a day, UTC")
    quota_hourly: int | None = Field(None, gt=0, description="Requests an hour")
    quota_margin: float = Field(0.1, ge=0, lt=1, description="Share of a quota that is never used")
    quota_reserve: float = Field(
        0.2,
        ge=0,
        lt=1,
        description="Below this share of a quota only HARVEST may spend; BACKFILL stops at twice the share",
    )
    header_adaptive: bool = Field(True, description="Go slower when the answers' headers say so")
    cost: int = Field(1, ge=1, description="What one request counts for")
    shared_by_endpoints: bool = Field(False, description="All endpoints of the source have one limit together")
    by_credential: bool = Field(False, description="Each credential has a limit of its own")
    concurrency: int | None = Field(None, ge=1, description="Connections at once to the whole source")


class TwoPhase(Section):
    """Lists give ids only; the records are fetched by id from another endpoint."""

    enabled: bool = Field(False, description="Fetch details of what a list names")
    linked_endpoint: str | None = Field(None, description="Where the details are")
    threshold: int = Field(1, ge=1, description="So few ids are not worth a request of their own while more may come")


class Batching(Section):
    """How many ids go into one request for details."""

    id_batch_size: int = Field(200, gt=0, description="Ids in one request")
    max_id_batch_size: int | None = Field(None, gt=0, description="The provider's limit")
    two_phase: TwoPhase = Field(TwoPhase(), description="Ids first, then records")


class Expr(Section):
    """What templates may do. `${…}` holds a CEL expression over window, page, ids, param and now.

    Without comments, loops (`map`, `filter`, `exists` …), `matches` and bytes; at most 2,048 characters, 50 names and
    calls. All templates of a file have at most 65,536 characters.
    """

    allowed_functions: tuple[str, ...] = Field(
        ("now", "formatDateTime", "coalesce", "concat", "join", "jsonPath", "urlEncode"),
        description="Functions that templates may call",
    )
    timezone: Literal["UTC"] = Field("UTC", description="Always UTC")
    null_policy: Literal["omit", "empty", "fail"] = Field("omit", description="What a template that gives null becomes")
    time_format: str = Field("%Y-%m-%dT%H:%M:%SZ", description="How a time is written where no format is given")


class Response(Section):
    """Where things are in an answer: JSONPath (RFC 9535) for JSON, XPath 1.0 for XML.

    A path searches the depth (`..`, `//`) once, at its beginning; conditions look downwards. Regular expressions are
    RE2's: no look-around and no back references, `$` is the very end.
    """

    format: Literal["JSON", "XML"] = Field("JSON", description="Of the answers")
    namespaces: dict[str, str] = Field(default_factory=dict, description="XML: prefix to address")
    items_path: str | None = Field(None, description="The items of an answer; the other paths begin at one item")
    id_path: str | tuple[str, ...] | None = Field(None, description="Several paths: joined by ':'")
    id_pattern: str | None = Field(None, description="Regular expression; its first group is the id")
    updated_at_path: str | tuple[str, ...] | None = Field(None, description="Several: the first that is there")
    updated_at_format: str | None = Field(None, description="strptime format; without it ISO 8601 or an epoch")
    updated_at_from: Literal["ITEM", "WINDOW"] = Field("ITEM", description="WINDOW: the source does not tell")
    version_path: str | None = Field(None, description="Decides between two of the same updatedAt")
    deleted_path: str | None = Field(None, description="What it finds is compared with deletedValue")
    deleted_value: str | None = Field(None, description="Without it, whatever is there and does not say no")
    on_equal: Literal["KEEP", "REPLACE"] = Field("KEEP", description="Same updatedAt, other content: what holds?")
    total_path: str | None = Field(None, description="How many results the source says there are; from the root")
    error_path: str | None = Field(None, description="Something found here is an error, whatever the status says")
    empty_errors: tuple[str, ...] = Field((), description="Errors (regular expressions) that only mean: no results")
    retry_errors: tuple[str, ...] = Field((), description="Errors (regular expressions) that pass: worth another try")
    truncated_path: str | None = Field(None, description="Something found here: the answer was cut short")


class RequestParam(Section):
    """A value that is put into each request, checked before it is sent."""

    name: str = Field(description="As the provider calls it")
    location: Literal["QUERY", "HEADER", "BODY", "PATH"] = Field("QUERY", description="Where it goes")
    required: bool = Field(False, description="Without a value the request is not sent")
    default: str | None = Field(None, description="When nothing else gives a value")
    expr: str | None = Field(None, description="A template; without it the run's parameter of that name")
    pattern: str | None = Field(None, description="The rendered value must match, or the request is not sent")


class OutputField(Section):
    """A field of the record, taken out of the item; `fields.NAME` in filters."""

    name: str = Field(description="Of the field")
    expr: str = Field(description="A path into the item")
    required: bool = Field(False, description="An item without it is quarantined")


class Mapping(Section):
    """What goes into requests and comes out of items, by name."""

    request_params: tuple[RequestParam, ...] = Field((), description="Put into each request")
    output_fields: tuple[OutputField, ...] = Field((), description="Taken out of each item")
    sink: bool = Field(False, description="Each stored version is also announced as an event, record.changed")


class Count(Section):
    """How to ask for the number of results alone, for estimates. Without it, estimates come from experience."""

    query_template: dict[str, str] = Field(default_factory=dict, description="Laid over http.queryTemplate")


class Planning(Section):
    """How a plan is cut into tasks, and how many of them run at once."""

    c_max: int = Field(4, ge=1, description="Tasks at once of this endpoint and operation")
    queue_limit: int = Field(10_000, ge=1, description="No more tasks wait than this; the rest is sliced later")
    slice_items: int = Field(50_000, ge=1, description="Windows with more results than this are cut in two")
    slice_requests: int | None = Field(None, ge=1, description="As sliceItems, in requests")
    pages_per_slice: int = Field(200, ge=1, description="Sources without windows: pages of one task")
    ids_per_slice: int = Field(2_000, ge=1, description="UPDATE: ids of one task")
    id_buckets: int = Field(0, ge=0, description="UPDATE: hash buckets instead of ranges")
    max_duration: Duration = Field(timedelta(minutes=15), description="After so long a task gives others a turn")
    stale_after: Duration = Field(timedelta(days=30), description="UPDATE: records not looked at for so long")
    priorities: dict[Operation, int] = Field(
        default_factory=lambda: {Operation.HARVEST: 100, Operation.UPDATE: 200, Operation.BACKFILL: 300},
        description="Smaller is more urgent",
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
    allows_private: bool = Field(False, description="Applied by the operator: may lead into our own network")
    detail: "Sections | None" = Field(None, description="Two-phase: the sections of the linked endpoint")
    detail_endpoint: str | None = None

    @classmethod
    def read(cls, snapshot: dict[str, Any]) -> "Spec":
        """A stored snapshot, as it was compiled. One from before sources were told apart is the operator's."""
        return cls.model_validate({"allowsPrivate": True, **snapshot})

    def snapshot(self) -> dict[str, Any]:
        """JSON values only, keys in camelCase."""
        return self.model_dump(mode="json", by_alias=True)
