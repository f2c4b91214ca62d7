"""A small source that compiles, to be changed by each test."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.support.source_files import WrittenSource

_PATHS = {"itemsPath": "$.items", "idPath": "$.id", "updatedAtPath": "$.updated"}
WORKS: Mapping[str, Any] = {
    "role": "SEARCH",
    "http": {
        "baseUrl": "https://api.example.org",
        "pathTemplate": "/works",
        "queryTemplate": {"rows": "${page.size}", "offset": "${page.offset}", "since": "${window.from}"},
    },
    "pagination": {"type": "OFFSET"},
    "window": {"supportsUpdatedSince": True, "watermarkKey": "updated_at"},
    "response": _PATHS,
}
DETAILS: Mapping[str, Any] = {
    "role": "DETAIL",
    "http": {"baseUrl": "https://api.example.org", "queryTemplate": {"id": "${join(ids, ',')}"}},
    "response": _PATHS,
}


def changed(document: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    whole = copy.deepcopy(dict(document))
    for key, value in changes.items():
        deeper = isinstance(value, Mapping) and isinstance(whole.get(key), Mapping)
        whole[key] = changed(whole[key], value) if deeper else copy.deepcopy(value)
    return whole


@pytest.fixture(scope="session")
def demo() -> Callable[..., WrittenSource]:
    def make(
        works: Mapping[str, Any] | None = None,
        details: Mapping[str, Any] | None = None,
        defaults: Mapping[str, Any] | None = None,
        **rest: Any,
    ) -> WrittenSource:
        endpoints = {"works": changed(WORKS, works or {})}
        if details is not None:
            endpoints["details"] = changed(DETAILS, details)
        return WrittenSource({"source": "demo", "defaults": defaults or {}, "endpoints": endpoints, **rest})

    return make
