"""What the description of the harvest's API shows: one source, from its document to a record of it."""

from penstock.api.examples import USER, WORKER, Document
from penstock.kernel import cursors

_AT, _NEXT, _FROM = "2026-03-02T09:00:00Z", "2026-03-02T10:00:00Z", "2026-03-02T02:00:00Z"
_WINDOW = {"window_from": _FROM, "window_to": "2026-03-02T08:00:00Z"}
_HASH = "sha256:9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab"
_WHAT = {"source": "crossref", "endpoint": "works", "operation": "HARVEST"}
_ADDRESS = "https://api.crossref.org/v1"
PLAN_ID, TASK_ID, RECORD_ID = 7, 31, "10.1000/xyz.123"
FILTER = 'updated_at >= 2026-03-01 and fields.title ~ "heart"'

SOURCE_YAML = """\
source: crossref
name: Crossref
endpoints:
  works:
    default: true
    http:
      baseUrl: https://api.crossref.org/v1
      pathTemplate: /works
      queryTemplate: {filter: 'from-index-date:${formatDateTime(window.from, "%Y-%m-%d")}', cursor: "${page.token}"}
    pagination: {type: TOKEN, initialToken: "*", nextTokenPath: "$.message['next-cursor']", shortPageEnds: true}
    window: {supportsUpdatedSince: true, watermarkKey: indexed_at}
    response: {itemsPath: $.message.items, idPath: $.DOI, updatedAtPath: "$.indexed['date-time']"}
"""
SOURCE: Document = {
    "source": "crossref",
    "name": "Crossref",
    "description": "",
    "defaults": {"http": {"baseUrl": _ADDRESS}},
    "credentials": {},
    "endpoints": {
        "works": {
            "role": "SEARCH",
            "default": True,
            "http": {"pathTemplate": "/works"},
            "pagination": {"type": "TOKEN", "initialToken": "*"},
        }
    },
    "schedules": [{"endpoint": "works", "operation": "HARVEST", "every": "PT1H", "params": {}}],
}
_KNOWN = {
    "source": "crossref", "name": "Crossref", "version": 3, "is_active": True, "default_endpoint": "works",
    "updated_at": _AT, "updated_by": USER,
}  # fmt: skip
SOURCES: Document = {"sources": [{**_KNOWN, "endpoints": ["works"]}]}
CURSOR: Document = {
    "cursor_id": 5,
    **_WHAT,
    "key": "indexed_at",
    "type": "TIME",
    "scope": "EXPR",
    "namespace": "works",
    "direction": "FORWARD",
    "value": "2026-03-02T08:00:00+00:00",
    "origin": "2026-03-01T09:00:00Z",
    "observed_max": "2026-03-02T07:59:58+00:00",
    "stretches": 1,
    "covered": [{"start": "2026-03-01T09:00:00Z", "end": "2026-03-02T08:00:00Z"}],
    "plan_id": PLAN_ID,
    "created_at": "2026-03-01T09:30:00Z",
    "updated_at": _AT,
}
CURSORS: Document = {"cursors": [CURSOR], "next_cursor": None}
CURSOR_EVENTS: Document = {
    "events": [
        {
            "event_id": 88,
            **_WHAT,
            "key": "indexed_at",
            "scope": "EXPR",
            "namespace": "works",
            "direction": "FORWARD",
            "prev_value": "2026-03-02T02:00:00+00:00",
            "new_value": "2026-03-02T08:00:00+00:00",
            "covered_from": "2026-03-02T02:00:00+00:00",
            "covered_to": "2026-03-02T08:00:00+00:00",
            "observed_max": "2026-03-02T07:59:58+00:00",
            "plan_id": PLAN_ID,
            "slice_id": 30,
            "task_id": TASK_ID,
            "run_id": 40,
            "batch_id": 212,
            "created_at": _AT,
        }
    ],
    "next_cursor": cursors.pack("harvest events", 88),
}
_SCHEDULE: Document = {
    "endpoint": "works", "operation": "HARVEST", "cron": None, "every_seconds": 3600.0, "params": {},
    "is_active": True, "next_run_at": _NEXT, "last_run_at": _AT, "last_error": None,
}  # fmt: skip
SOURCE_DETAIL: Document = {
    **_KNOWN,
    "description": "",
    "endpoints": [{"name": "works", "role": "SEARCH", "is_default": True, "linked_endpoint": None}],
    "document": SOURCE,
    "schedules": [_SCHEDULE],
    "cursors": [CURSOR],
}
_CHANGE: Document = {"path": "endpoints.works.pagination.pageSize", "before": 500, "after": 1000}
APPLIED: Document = {"source": "crossref", "version": 3, "is_dry_run": False, "changes": [_CHANGE]}
EXPLANATION: Document = {
    **_WHAT,
    "source_version": 3,
    "expr_proto_hash": _HASH,
    "spec_fingerprint": _HASH,
    "warnings": ["orderNotStated"],
    "rows": [
        {
            "key": "http.baseUrl",
            "value": _ADDRESS,
            "level": "source",
            "origin": "crossref:6 defaults",
            "overridden": [{"level": "platform", "origin": "built in", "value": ""}],
            "is_removed": False,
        }
    ],
}
ORDER: Document = {
    "source": "crossref", "endpoint": "works", "operation": "BACKFILL", "since": "2026-01-01T00:00:00Z",
    "until": "2026-02-01T00:00:00Z", "params": {"query": "cardiology"}, "run": {"rate_limit": {"qps": 0.5}},
}  # fmt: skip
PLAN: Document = {
    "plan_id": PLAN_ID,
    **_WHAT,
    "strategy": "TIME",
    **_WINDOW,
    "status": "READY",
    "namespace": "works",
    "priority": 100,
    "expr_proto_hash": _HASH,
    "spec_fingerprint": _HASH,
    "source_version": 3,
    "remarks": {"sliceCount": 1, "totalEstimated": 21_400, "degradation": ["orderNotStated"]},
    "slices": 1,
    "tasks_by_status": {"EXECUTING": 1},
    "sums": {
        "requests": 9, "received": 9000, "inserted": 8120, "updated": 870, "skipped": 10, "failed": 0, "retries": 1,
        "throttled": 0,
    },
    "created_at": _AT,
    "updated_at": _AT,
}  # fmt: skip
_NOTHING = "Nothing to do: all of this window is stored."
PLANNED: Document = {"plan": PLAN, "sentence": None}
NOTHING_TO_DO: Document = {"plan": None, "sentence": _NOTHING}
PREVIEW: Document = {
    **_WHAT,
    "strategy": "TIME",
    **_WINDOW,
    "namespace": "works",
    "slices": [
        {
            "slice_no": 1,
            "slice_spec": {
                "dimension": "TIME",
                "bounds": {"time": {"from": _FROM, "to": _WINDOW["window_to"]}},
                "totalEstimated": 21_400,
            },
            "requests": 22,
        }
    ],
    "is_cut_short": False,
    "remarks": {"sliceCount": 1, "totalEstimated": 21_400},
    "sentence": None,
}
TASKS: Document = {
    "tasks": [
        {
            "task_id": TASK_ID,
            "plan_id": PLAN_ID,
            "slice_id": 30,
            **_WHAT,
            "namespace": "works",
            "status": "EXECUTING",
            **_WINDOW,
            "priority": 100,
            "attempts": 1,
            "error": None,
            "executor": WORKER,
            "leased_until": "2026-03-02T09:01:00Z",
            "scheduled_at": _AT,
            "started_at": _AT,
            "finished_at": None,
            "created_at": _AT,
        }
    ],
    "next_cursor": cursors.pack("harvest tasks", TASK_ID),
}
_RECORD: Document = {
    "id": RECORD_ID,
    "updated_at": "2026-03-02T07:59:58Z",
    "version": None,
    "is_deleted": False,
    "fields": {"title": "On the heart"},
    "revision": 2,
    "expr_hash": _HASH,
    "run_id": 40,
    "batch_no": 9,
    "first_seen_at": "2026-03-01T09:30:00Z",
    "changed_at": _AT,
    "checked_at": _AT,
}
RECORDS: Document = {"source": "crossref", "endpoint": "works", "records": [_RECORD], "next_after": RECORD_ID}
RECORD: Document = {
    "source": "crossref", "endpoint": "works", **_RECORD, "body": '{"DOI":"10.1000/xyz.123","title":["On the heart"]}',
}  # fmt: skip
SIGNALS: Document = {
    "source": "crossref", "endpoint": "works", "ids": [RECORD_ID], "reason": "RETRACTION",
    "note": "retraction list of March",
}  # fmt: skip
RAISED: Document = {"given": 1, "raised": 1}
QUARANTINE: Document = {
    "items": [
        {
            "item_id": 3,
            **_WHAT,
            "record_id": None,
            "reason_code": "NO_ID",
            "reason": "nothing at $.DOI",
            "sample": '{"title":["Untitled"]}',
            "request": {"method": "GET", "url": f"{_ADDRESS}/works"},
            "run_id": 40,
            "batch_no": 4,
            "item_no": 17,
            "created_at": _AT,
            "released_at": None,
        }
    ],
    "next_cursor": None,
}
