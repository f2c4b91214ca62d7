"""A body in pieces of a bounded size, whatever it was given as."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from obstore.exceptions import BaseError

from penstock.kernel.objectstore import Body
from penstock.kernel.objectstores.reading import PIECE_BYTES, BodyFailed


async def pieces_of(body: Body) -> AsyncIterator[bytes]:
    """Small pieces of a stream are gathered, so that a disk or network is not asked for each."""
    try:
        async for piece in _read(body):
            yield piece
    except (OSError, BaseError) as failure:
        raise BodyFailed(failure) from failure


async def _read(body: Body) -> AsyncIterator[bytes]:
    if isinstance(body, bytes):
        yield body
    elif isinstance(body, Path):
        with body.open("rb", buffering=0) as file:
            while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
                yield piece
    else:
        gathered = bytearray()
        async for piece in body:
            gathered += piece
            if len(gathered) >= PIECE_BYTES:
                yield bytes(gathered)
                gathered.clear()
        if gathered:
            yield bytes(gathered)
