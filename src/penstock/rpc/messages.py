"""Reads the one message of a call, within a time limit.

gRPC's own handlers of unary calls wait for the message before any code of ours runs, and for as long as the client
likes; a client that never sends it would hold its call for ever. On the wire a call with one message and a call with
a stream of messages look the same, so our handlers are of the second sort and read for themselves.
"""

import asyncio
from typing import Any

import grpc

SECONDS_TO_SEND = 10.0


class NoMessage(Exception):
    """The client sent no message, or not in time."""


async def read_message(context: Any) -> bytes:
    """The message as it came. NoMessage when there is none in time."""
    try:
        async with asyncio.timeout(SECONDS_TO_SEND):
            message = await context.read()
    except TimeoutError:
        raise NoMessage(f"no message came within {SECONDS_TO_SEND:g} s") from None
    if message is grpc.aio.EOF:
        raise NoMessage("there is no message")
    found: bytes = message
    return found
