"""The part of a snapshot that decides what is asked and how answers are read.

Left out: what only decides how fast, how long, how often and in which portions of work. Operation and version of the
registry too, so that a record fetched by a backfill counts as fetched in the same way as by a harvest.
"""

from typing import Any

_WHOLE = ("pagination", "expr", "response", "params")
_PARTS = {
    "http": ("method", "baseUrl", "pathTemplate", "headersTemplate", "queryTemplate", "bodyTemplate", "bodyType"),
    "auth": ("type", "location", "name", "prefix", "signingHook"),
    "window": (
        "supportsUpdatedSince",
        "watermarkKey",
        "bounds",
        "granularity",
        "clientFilter",
        "timezone",
        "boundaryPolicy",
    ),
    "mapping": ("requestParams", "outputFields"),
}


def prototype(snapshot: dict[str, Any]) -> dict[str, Any]:
    detail = snapshot["detail"]
    return {
        "provenanceCode": snapshot["provenanceCode"],
        "endpointName": snapshot["endpointName"],
        **_asked(snapshot),
        "detail": None if detail is None else _asked(detail),
        "detailEndpoint": snapshot["detailEndpoint"],
    }


def _asked(sections: dict[str, Any]) -> dict[str, Any]:
    return {name: sections[name] for name in _WHOLE} | {
        name: {key: sections[name][key] for key in keys} for name, keys in _PARTS.items()
    }
