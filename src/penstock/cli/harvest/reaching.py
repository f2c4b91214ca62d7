"""The records that a command means, in the database that is known here."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.places import need_database
from penstock.harvest.records import Selection, endpoint_of, parse_where
from penstock.harvest.records.where import EXAMPLE

if TYPE_CHECKING:
    from penstock.kernel.db import Database

SourceCode = Annotated[
    str, typer.Argument(metavar="SOURCE", help="The source's code, as `penstock harvest sources` lists it.")
]
OfEndpoint = Annotated[
    str | None, typer.Option("--endpoint", metavar="NAME", help="One of its endpoints; else the default one.")
]
Filter = Annotated[
    str | None, typer.Option("--where", metavar="FILTER", help=f"Only these, e.g. '{EXAMPLE}'.", show_default=False)
]


@dataclass(frozen=True, slots=True)
class Asked:
    """What the options say."""

    source: str
    endpoint: str | None
    where: str | None
    data: Path | None


@asynccontextmanager
async def reach(asked: Asked) -> "AsyncIterator[tuple[Database, Selection]]":
    """The filter is read first: a slip of the pen needs no database."""
    from penstock.kernel.db import Database

    where = parse_where(asked.where)
    database = Database(need_database(asked.data), name="cli", size=1)
    await database.open()
    try:
        async with database.transaction() as tx:
            endpoint = await endpoint_of(tx, asked.source, asked.endpoint)
        yield database, Selection(asked.source, endpoint, where)
    finally:
        await database.close()
