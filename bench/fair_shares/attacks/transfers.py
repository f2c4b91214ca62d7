"""Attacks on what takes in bytes: many large uploads at once, some of them byte by byte."""

import asyncio
import os

from bench.direct_clients import Answer
from bench.fair_shares.attacks.effort import Effort
from bench.fair_shares.client import OCTETS

_LARGE = os.urandom(1 << 20) * 8
_CONNECTIONS = 64
_TINY = 64  # bytes in one piece


async def flood_uploads(effort: Effort) -> None:
    """64 connections: half send bodies of 8 MiB in one PATCH after another, half send the tiniest pieces."""
    effort.in_force_after(3.0)
    async with asyncio.TaskGroup() as group:
        group.create_task(effort.keep_up("8 MiB", _CONNECTIONS // 2, lambda _: _large(effort)))
        group.create_task(effort.keep_up("tiny pieces", _CONNECTIONS // 2, lambda _: _trickle(effort)))


async def _large(effort: Effort) -> Answer:
    where = await effort.merchant.begin_upload(len(_LARGE))
    answer = await effort.merchant.ask("PATCH", where, _LARGE, {**OCTETS, "upload-offset": "0"})
    await effort.merchant.ask("DELETE", where, headers=OCTETS)  # else the quota would end the attack, and fill the disk
    return answer


async def _trickle(effort: Effort) -> str:
    """One PATCH whose body comes as chunks of a few bytes for some seconds."""
    pieces = 400
    where = await effort.merchant.begin_upload(pieces * _TINY)
    reader, writer = await asyncio.open_connection("127.0.0.1", effort.target.http)
    try:
        told = {**effort.merchant.headers, **OCTETS, "upload-offset": "0", "transfer-encoding": "chunked"}
        lines = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        writer.write(f"PATCH {where} HTTP/1.1\r\nhost: bench\r\n{lines}\r\n".encode())
        for _ in range(pieces):
            writer.write(b"%x\r\n%s\r\n" % (_TINY, b"x" * _TINY))
            await writer.drain()
            await asyncio.sleep(0.01)
        writer.write(b"0\r\n\r\n")
        return (await reader.readuntil(b"\r\n")).split(b" ")[1].decode()
    finally:
        writer.close()
