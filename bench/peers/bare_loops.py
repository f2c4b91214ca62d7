"""Two loops that harvest the mock source into PostgreSQL and promise nothing: `python bare_loops.py naive|fastest …`.

`naive` is what one writes first: dicts, and an upsert of `jsonb`. `fastest` is the fastest known: raw slices, the page
kept as evidence, text passed through. Both commit page by page; after a kill neither knows where it was.
"""

import gc
import hashlib
import json
import resource
import sys
import time
from collections.abc import Iterator
from urllib.parse import urlencode

import psycopg
import urllib3

# Each loop runs in an environment that has what it needs, and not always what the other needs.
if sys.argv[1:2] == ["naive"]:
    import orjson
else:
    import msgspec
    import pyarrow as pa

_UPSERT = """
insert into records select id, updated, body from staging
on conflict (id) do update set updated = excluded.updated, body = excluded.body
where records.updated < excluded.updated
"""


def _tables(connection: psycopg.Connection, body: str) -> None:
    connection.execute(
        f"create table records (id text primary key, updated timestamptz not null, body {body} not null)"
    )
    connection.execute("create table evidence (page int primary key, sha256 bytea not null, body bytea not null)")
    connection.execute("alter table evidence alter column body set storage external")  # it is compressed already
    columns = f"id text, updated timestamptz, body {body}"
    connection.execute(f"create temporary table staging ({columns}) on commit delete rows")
    connection.commit()


class _Source:
    def __init__(self, url: str, window: dict[str, str]) -> None:
        self._http = urllib3.PoolManager(maxsize=1)
        self._url, self._window = url, window

    def page(self, cursor: str) -> bytes:
        query = urlencode({**self._window, "rows": "1000", "cursor": cursor})
        answer = self._http.request("GET", f"{self._url}?{query}")
        if answer.status != 200:
            raise RuntimeError(f"the source answered {answer.status}")
        return answer.data


def naive(source: _Source, connection: psycopg.Connection) -> int:
    _tables(connection, "jsonb")
    cursor, count = "*", 0
    while cursor:
        message = orjson.loads(source.page(cursor))["message"]
        with connection.cursor() as statement:
            with statement.copy("copy staging from stdin") as copy:
                for item in message["items"]:
                    copy.write_row((item["id"], item["updated"], orjson.dumps(item).decode()))
            statement.execute(_UPSERT)
        connection.commit()
        count += len(message["items"])
        cursor = message["next-cursor"]
    return count


def fastest(source: _Source, connection: psycopg.Connection) -> int:
    class Message(msgspec.Struct, rename="kebab"):
        next_cursor: str | None
        items: list[msgspec.Raw]

    class Envelope(msgspec.Struct):
        message: Message

    class Item(msgspec.Struct):
        id: str
        updated: str

    envelope, item = msgspec.json.Decoder(Envelope), msgspec.json.Decoder(Item)
    compress = pa.Codec("zstd", 3).compress

    def lines(slices: list[msgspec.Raw]) -> Iterator[bytes]:
        for each in slices:
            read, body = item.decode(each), bytes(each)
            yield f"{read.id}\t{read.updated}\t".encode() + body.replace(b"\\", b"\\\\") + b"\n"

    _tables(connection, "text")
    gc.disable()
    cursor, count, number = "*", 0, 0
    while cursor:
        page = source.page(cursor)
        message = envelope.decode(page).message
        evidence = (number, hashlib.sha256(page).digest(), compress(page, asbytes=True))
        with connection.cursor() as statement:
            statement.execute("insert into evidence values (%s, %s, %b)", evidence)
            with statement.copy("copy staging from stdin") as copy:
                copy.write(b"".join(lines(message.items)))
            statement.execute(_UPSERT)
        connection.commit()
        count, number, cursor = count + len(message.items), number + 1, message.next_cursor or ""
    return count


def main(which: str, source_url: str, database_url: str, window: str) -> None:
    harvest = {"naive": naive, "fastest": fastest}[which]
    with psycopg.connect(database_url) as connection:
        begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
        count = harvest(_Source(source_url, json.loads(window)), connection)
        seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    with psycopg.connect(database_url) as connection:
        stored = connection.execute("select count(*) from records").fetchone()
    if stored != (count,):
        raise RuntimeError(f"{stored} records are stored, {count} were read")
    sys.stdout.write(json.dumps({"items": count, "seconds": seconds, "cpu": spent}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
