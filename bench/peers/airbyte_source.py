"""A declarative Airbyte source reads the mock source and writes messages to a file, as to stdout: it stores nothing.

`python airbyte_source.py one|sliced URL FILE WINDOW`: one slice and the fewest workers it allows, or eight of each.
"""

import json
import logging
import os
import resource
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


def _manifest(url: str, window: dict[str, str], slices: int) -> dict[str, Any]:
    first, last = (datetime.strptime(window[end], _FORMAT) for end in ("from", "until"))  # noqa: DTZ007
    step = (int((last - first).total_seconds()) + slices) // slices
    paginator = {
        "type": "DefaultPaginator",
        "page_token_option": {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "cursor"},
        "pagination_strategy": {
            "type": "CursorPagination",
            "cursor_value": "{{ response['message']['next-cursor'] }}",
            "stop_condition": "{{ not response['message']['next-cursor'] }}",
        },
    }
    requester = {
        "type": "HttpRequester", "url_base": url.removesuffix("works"), "path": "works", "http_method": "GET",
        "request_parameters": {
            "rows": "1000",
            "from": "{{ stream_interval['start_time'] }}",
            "until": "{{ stream_interval['end_time'] }}",
        },
    }  # fmt: skip
    cursor = {
        "type": "DatetimeBasedCursor", "cursor_field": "updated", "cursor_granularity": "PT1S", "step": f"PT{step}S",
        "datetime_format": _FORMAT,
        "start_datetime": {"type": "MinMaxDatetime", "datetime": window["from"], "datetime_format": _FORMAT},
        "end_datetime": {"type": "MinMaxDatetime", "datetime": window["until"], "datetime_format": _FORMAT},
    }  # fmt: skip
    stream = {
        "type": "DeclarativeStream", "name": "works", "primary_key": ["id"], "incremental_sync": cursor,
        "retriever": {
            "type": "SimpleRetriever",
            "requester": requester,
            "paginator": paginator,
            "record_selector": {
                "type": "RecordSelector",
                "extractor": {"type": "DpathExtractor", "field_path": ["message", "items"]},
            },
        },
        "schema_loader": {"type": "InlineSchemaLoader", "schema": {"type": "object", "properties": {}}},
    }  # fmt: skip
    return {
        "version": "6.0.0", "type": "DeclarativeSource", "check": {"type": "CheckStream", "stream_names": ["works"]},
        "streams": [stream],
        "spec": {"type": "Spec", "connection_specification": {"type": "object", "properties": {}}},
        "concurrency_level": {
            "type": "ConcurrencyLevel", "default_concurrency": max(slices, 2), "max_concurrency": max(slices, 2)
        },
    }  # fmt: skip


_CATALOG = {
    "streams": [
        {
            "stream": {
                "name": "works",
                "json_schema": {},
                "supported_sync_modes": ["full_refresh", "incremental"],
                "source_defined_primary_key": [["id"]],
            },
            "sync_mode": "incremental",
            "destination_sync_mode": "append_dedup",
        }
    ]
}


def main(which: str, source_url: str, output: str, window: str) -> None:
    from airbyte_cdk.entrypoint import launch
    from airbyte_cdk.models import ConfiguredAirbyteCatalogSerializer
    from airbyte_cdk.sources.declarative.concurrent_declarative_source import ConcurrentDeclarativeSource

    logging.disable(logging.INFO)
    manifest = _manifest(source_url, json.loads(window), 8 if which == "sliced" else 1)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
        config, catalog = Path(directory) / "config.json", Path(directory) / "catalog.json"
        config.write_text("{}")
        catalog.write_text(json.dumps(_CATALOG))
        said = _redirect_stdout(output)
        begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
        source = ConcurrentDeclarativeSource(
            catalog=ConfiguredAirbyteCatalogSerializer.load(_CATALOG), config={}, state=None, source_config=manifest
        )
        launch(source, ["read", "--config", str(config), "--catalog", str(catalog)])
        sys.stdout.flush()
        seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF)
    with Path(output).open("rb") as lines:
        count = sum(line.startswith(b'{"type":"RECORD"') for line in lines)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    os.write(said, json.dumps({"items": count, "seconds": seconds, "cpu": spent}).encode() + b"\n")


def _redirect_stdout(output: str) -> int:
    """Where it went before. The descriptor, as the toolkit keeps its own hold of the stream."""
    before = os.dup(1)
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(file, 1)
    os.close(file)
    return before


if __name__ == "__main__":
    main(*sys.argv[1:])
