"""The harvest's desk for one command: database, Redis and what works with them, opened quietly and closed again."""

import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.places import find_servers, need_database
from penstock.cli.screen import Refusal, be_quiet
from penstock.harvest.settings import HarvestSettings
from penstock.kernel.settings import SettingsFile

if TYPE_CHECKING:
    from penstock.harvest.desk import HarvestDesk

_BESIDES = 4  # connections for looking and planning while tasks run


@asynccontextmanager
async def open_desk(data: Path | None) -> "AsyncIterator[HarvestDesk]":
    from penstock.harvest.desk import HarvestDesk
    from penstock.kernel.clock import SystemClock
    from penstock.kernel.db import Database
    from penstock.kernel.rategate import GateSettings, RateGate
    from penstock.kernel.redis import Keys, connect

    database_url, redis_url = need_database(data), need_redis(data)
    source = SettingsFile.find()
    settings = source.load(HarvestSettings)
    keys = Keys(find_servers(data).settings.redis_prefix)
    be_quiet()
    async with AsyncExitStack() as stack:
        database = Database(database_url, name="cli", size=settings.per_executor + _BESIDES)
        await database.open()
        stack.push_async_callback(database.close)
        redis = connect(redis_url)
        stack.push_async_callback(redis.aclose)
        clock = SystemClock()
        gate = RateGate(redis, keys, clock=clock, settings=source.load(GateSettings))
        desk = HarvestDesk(database, gate, settings, clock)
        stack.push_async_callback(desk.close)
        yield desk


def need_redis(data: Path | None) -> str:
    servers = find_servers(data)
    if not servers.redis_url:
        raise Refusal(
            f"No Redis is known: set PENSTOCK_REDIS_URL, or start `penstock up` (nothing runs on {servers.home.path}).",
            f"没有可用的 Redis：请设置 PENSTOCK_REDIS_URL，或先启动 penstock up（{servers.home.path} 上没有运行）。",
        )
    return servers.redis_url


def owner() -> str:
    """How other executors and people see this command."""
    return f"cli:{socket.gethostname()}:{os.getpid()}"
