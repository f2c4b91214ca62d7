"""Connections of clients that have no token and bad manners, for tests on real sockets."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def strangers(address: str, count: int, says: bytes = b"") -> AsyncIterator[list[Wire]]:
    """So many connections to `http://host:port`, each of which has said this much."""
    host, _, port = address.rpartition("/")[2].partition(":")
    wires = await asyncio.gather(*(asyncio.open_connection(host, int(port)) for _ in range(count)))
    try:
        for _, writer in wires:
            writer.write(says)
        yield list(wires)
    finally:
        for _, writer in wires:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def ended(wire: Wire, seconds: float = 5) -> bytes:
    """What a connection still says before the server closes it; TimeoutError if it does not."""
    said = b""
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(seconds):
            while piece := await wire[0].read(65536):
                said += piece
    return said


async def are_down_to(wires: list[Wire], most: int, seconds: float = 5) -> None:
    """Waits until the server has left open at most so many."""
    reading = [asyncio.ensure_future(ended(wire, seconds * 2)) for wire in wires]
    try:
        async with asyncio.timeout(seconds):
            while sum(not one.done() for one in reading) > most:
                await asyncio.sleep(0.02)
    finally:
        for one in reading:
            one.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
