"""Sources for the chaos of harvests: stand-ins served from a thread, and the files that describe them."""

import asyncio
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

from penstock.harvest.registry.document import SourceDocument, read_source
from tests.standins import Library, Standin, overrides, standin

ROOT = Path(__file__).parents[2]
FAST = {"qps": 2000, "burst": 50, "providerQps": None, "concurrency": None, "minRate": 500, "coolDown": "100ms"}
HASTE = {"maxAttempts": 4, "first": "10ms", "longest": "50ms"}

_GENERIC = """\
source: {code}
name: Generic
defaults:
  http: {{baseUrl: https://records.example/none}}
  rateLimit: {{sharedByEndpoints: true}}
  response:
    itemsPath: $.items
    idPath: $.id
    updatedAtPath: $.updated
    versionPath: $.version
    deletedPath: $.deleted
    deletedValue: "true"
  mapping: {{sink: true}}
endpoints:
  list:
    default: true
    linkedEndpoint: details
    http:
      pathTemplate: /{kind}
      queryTemplate:
        from: "${{window.from}}"
        to: "${{window.to}}"
        limit: "${{page.size}}"
        {place}
    pagination: {{{paging}, pageSize: {size}, hasMorePath: $.has_more}}
    response: {{totalPath: $.total}}
    window: {{supportsUpdatedSince: true, watermarkKey: updated, granularity: 1s, safetyLag: {lag}, align: min,
      maxWindow: {window}, minWindow: 1m, earliest: 2026-01-01}}
    planning: {{cMax: 8, idsPerSlice: 60, staleAfter: 0s}}
    batching: {{idBatchSize: 25}}
  details:
    role: DETAIL
    http: {{pathTemplate: /details, queryTemplate: {{ids: '${{join(ids, ",")}}'}}}}
"""
_KINDS = {
    "token": ('token: "${page.token}"', 'type: TOKEN, nextTokenPath: $.next, initialToken: "*"'),
    "offset": ('offset: "${page.offset}"', "type: OFFSET"),
    "ceiling": ('offset: "${page.offset}"', "type: OFFSET, ceiling: 60"),
}


def generic_source(code: str, kind: str, *, size: int = 20, lag: str = "10m", window: str = "1d") -> SourceDocument:
    """`ceiling` pages by offset and lets nobody page beyond 60."""
    place, paging = _KINDS[kind]
    path = "offset" if kind == "ceiling" else kind
    text = _GENERIC.format(code=code, kind=path, place=place, paging=paging, size=size, lag=lag, window=window)
    return read_source(text.encode(), f"{code}.yaml")


def shipped_source(code: str, name: str) -> SourceDocument:
    """A file of `sources` under another code, so that several can be harvested side by side."""
    text = (ROOT / "sources" / f"{name}.yaml").read_text()
    return read_source(text.replace(f"source: {name}\n", f"source: {code}\n").encode(), f"{code}.yaml")


def pointed_at(api: Standin, **sections: Any) -> dict[str, Any]:
    """What a run says to get its records from the stand-in, as fast as it can."""
    run = overrides(api.name, api.url)
    run["rateLimit"] = dict(FAST)
    run["retry"] = dict(HASTE)
    for name, section in sections.items():
        run[name] = {**run.get(name, {}), **section}
    if "detail" in run:
        run["detail"] = {**run["detail"], "rateLimit": run["rateLimit"], "retry": run["retry"]}
    return run


class Harbour:
    """Stand-ins in a thread of their own, so that tests may wait for processes meanwhile."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._served = AsyncExitStack()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._wait_for(self._served.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def serve(self, name: str, library: Library, **options: Any) -> Standin:
        api: Standin = self._wait_for(self._served.enter_async_context(standin(name, library, **options)))
        return api

    def _wait_for(self, what: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(30)
