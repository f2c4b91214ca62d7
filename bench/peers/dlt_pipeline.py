"""dlt harvests the mock source into PostgreSQL: `python dlt_pipeline.py default|best …`.

`default` is the pipeline as the documentation begins. `best` is the quickest that its settings allow here: no child
tables, eight windows read at once, normalising in two processes, loading by COPY of CSV.
"""

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

os.environ |= {"RUNTIME__DLTHUB_TELEMETRY": "false", "RUNTIME__LOG_LEVEL": "ERROR"}
_BEST = {
    "NORMALIZE__WORKERS": "2",
    "NORMALIZE__START_METHOD": "fork",
    "LOAD__WORKERS": "8",
    "EXTRACT__WORKERS": "8",
    "DATA_WRITER__BUFFER_MAX_ITEMS": "10000",
    "DATA_WRITER__FILE_MAX_ITEMS": "10000",
    "DATA_WRITER__DISABLE_COMPRESSION": "true",
}


def _resources(url: str, windows: list[dict[str, str]], *, best: bool) -> list[Any]:
    import dlt
    from dlt.sources.helpers.rest_client import RESTClient
    from dlt.sources.helpers.rest_client.paginators import JSONResponseCursorPaginator

    def pages(window: dict[str, str]) -> Iterator[Any]:
        paginator = JSONResponseCursorPaginator(cursor_path="message.next-cursor", cursor_param="cursor")
        client = RESTClient(base_url=url.removesuffix("/works"), paginator=paginator)
        yield from client.paginate("/works", params={**window, "rows": 1000}, data_selector="message.items")

    merge: Any = {"disposition": "merge", "strategy": "upsert"} if best else "merge"
    hints: dict[str, Any] = {"primary_key": "id", "write_disposition": merge, "table_name": "works"}
    if best:
        hints |= {"max_table_nesting": 0, "parallelized": True}
    return [dlt.resource(pages, name=f"works_{n}", **hints)(window) for n, window in enumerate(windows)]


def main(which: str, source_url: str, database_url: str, windows: str) -> None:
    best = which == "best"
    os.environ |= _BEST if best else {}
    import dlt
    import psycopg2  # noqa: F401  imported before the clock runs
    from dlt.destinations import postgres

    # It insists on a host and a password; the socket that follows in the query is what counts.
    destination = postgres(database_url.replace("@/", "@localhost/"))
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
        pipeline = dlt.pipeline("bench", destination=destination, dataset_name="bench", pipelines_dir=directory)
        begun, before = time.perf_counter(), _cpu()
        loader = {"loader_file_format": "csv"} if best else {}
        pipeline.run(_resources(source_url, json.loads(windows), best=best), **loader)
        seconds, spent = time.perf_counter() - begun, _cpu() - before
        with pipeline.sql_client() as client:
            count = client.execute_sql("select count(*) from works")[0][0]
    sys.stdout.write(json.dumps({"items": count, "seconds": seconds, "cpu": spent}) + "\n")


def _cpu() -> float:
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in spent)


if __name__ == "__main__":
    main(*sys.argv[1:])
