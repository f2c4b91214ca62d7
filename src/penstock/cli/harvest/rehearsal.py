"""`--standin`: a harvest of a source's local stand-in, served by the command itself.

Invariant: one database never holds records of a stand-in beside those of the real service; which it is, the address
in its newest plan says. The stand-in's records and port are the same at every run, so that tasks left by an earlier
run still find what they were planned for. While no stand-in runs, its tasks rest.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx

from penstock.cli.harvest.files import read_files, sources_directory
from penstock.cli.harvest.standin import load_standins, standin_root
from penstock.cli.screen import Refusal

if TYPE_CHECKING:
    from penstock.harvest.desk import HarvestDesk
    from penstock.kernel.db import Tx

DAYS = 7
RATE = 50  # requests a second: a real source would be asked far more gently
_FIRST_PORT = 18_700
STANDIN_GONE = "stand-in stopped"  # why a source is held while no command serves its stand-in
_LONG = timedelta(days=3650)
_LATENCY = 0.1
_OLD_ENOUGH = timedelta(days=3)


@dataclass(frozen=True, slots=True)
class Stage:
    """A stand-in that serves now: what a run must say to be pointed at it, and what it holds."""

    url: str
    run: Mapping[str, Any]
    run_by_id: Mapping[str, Any]  # for runs that fetch details too
    applied_from: str | None  # the file, if the source had to be applied first


async def refuse_mixing(desk: "HarvestDesk", source: str, *, is_standin: bool) -> None:
    """Real records and made-up ones do not meet in one database."""
    from penstock.harvest import overview

    async with desk.database.transaction() as tx:
        known = await overview.last_base_url(tx, source)
    if known is None or is_local(known[0]) == is_standin:
        return
    if is_standin:
        raise Refusal(
            f"This database holds a harvest of the real {source} ({known[0]}); made-up records of its stand-in would"
            " mix with it. Use another data directory: `penstock up --data DIR`, then `--data DIR` here.",
            f"此数据库中已有真实的 {source} 采集（{known[0]}），不能混入替身的虚构记录。请使用另一个数据目录："
            "penstock up --data DIR，并在此处加 --data DIR。",
        )
    raise Refusal(
        f"This database holds made-up records of the stand-in of {source} ({known[0]}); records of the real service"
        " would mix with them. Add --standin, or use another data directory (--data).",
        f"此数据库中是 {source} 替身的虚构记录（{known[0]}），不能混入真实记录。请加 --standin，或使用另一个数据目录"
        "（--data）。",
    )


def is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host in {"localhost", "::1"} or host.startswith("127.")


@asynccontextmanager
async def stage(desk: "HarvestDesk", source: str, records: int) -> AsyncIterator[Stage]:
    """Serve the stand-in, or use the one that another command serves; when the last has ended, its tasks rest."""
    from penstock.harvest import overview
    from penstock.harvest.executing import store

    standins = load_standins()
    if source not in (*standins.NAMES, "oai_pmh"):
        listed = ", ".join(standins.NAMES)
        raise Refusal(
            f"There is no stand-in for {source}; there are: {listed}.", f"没有 {source} 的替身；现有：{listed}。"
        )
    await refuse_mixing(desk, source, is_standin=True)
    applied_from = await _apply_if_new(desk, source)
    await _refuse_schedules(desk, source)
    async with desk.database.transaction() as tx:
        known = await overview.last_base_url(tx, source)
        is_awaited = bool(await overview.live_plans(tx, source))
    start = first_day(known[1] if known else datetime.now(UTC))
    preferred = _FIRST_PORT + _place(standins, source)
    library = standins.Library(records, days=DAYS, start=start)
    async with desk.database.statement() as connection:  # its lock lasts as long as we use the stand-in
        await overview.share_standin(connection, source)
        async with AsyncExitStack() as stack:
            url = await _shared(known[0] if known else None, preferred)
            if url is None:
                port = port_for(known[0] if known else None, preferred=preferred, is_fixed=is_awaited)
                options = {"port": port, "enforce_rate": False, "latency": _LATENCY}
                try:
                    api = await stack.enter_async_context(standins.standin(source, library, **options))
                    url = api.url
                    stack.push_async_callback(_put_to_rest, desk, connection, source)
                except OSError:  # another command began to serve it in the same moment
                    url = await _shared(known[0] if known else None, preferred)
                    if url is None:
                        raise
            async with desk.database.transaction() as tx:
                await store.release_source(tx, source, STANDIN_GONE)
            usual, by_id = (_run(standins.overrides(source, url, detail=each), start) for each in (None, True))
            yield Stage(url, usual, by_id, applied_from)


async def _put_to_rest(desk: "HarvestDesk", connection: "Tx", source: str) -> None:
    """Not before the last command that uses our stand-in has ended."""
    from penstock.harvest import overview
    from penstock.harvest.executing import store

    await overview.let_go_of_standin(connection, source)
    while not await overview.is_standin_unused(connection, source):  # noqa: ASYNC110  other processes' locks
        await asyncio.sleep(0.5)
    async with desk.database.transaction() as tx:
        await store.hold_source(tx, source, _LONG, STANDIN_GONE)


async def _shared(last_url: str | None, preferred: int) -> str | None:
    """The stand-in that another command serves at the source's port, if one does."""
    async with httpx.AsyncClient(timeout=2.0, trust_env=False) as client:
        for port in dict.fromkeys((urlsplit(last_url or "").port, preferred)):
            if port is None or _is_free(port):
                continue
            try:
                answer = await client.get(f"http://127.0.0.1:{port}/__control")
            except httpx.HTTPError:
                continue
            if answer.status_code == 200 and answer.headers.get("X-Control"):
                return f"http://127.0.0.1:{port}"
    return None


def first_day(first_run: datetime) -> datetime:
    """Where the records of a stand-in begin. All are old enough at the first run, whatever the source's safety lag."""
    midnight = first_run.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight - timedelta(days=DAYS) - _OLD_ENOUGH


def port_for(last_url: str | None, *, preferred: int, is_fixed: bool) -> int:
    """That of the last run, if it is free or tasks still ask there; else the source's own, else any."""
    last = urlsplit(last_url or "").port
    for port in (last, preferred):
        if port is None:
            continue
        if _is_free(port):
            return port
        if is_fixed and port == last:
            raise Refusal(
                f"Tasks of an earlier run ask at port {port}, which something else uses now (another run of the same"
                " command?). Wait until it has ended, then run this again.",
                f"先前运行留下的任务使用端口 {port}，但该端口正被占用（是否有另一个相同的命令在运行？）。"
                "请等它结束后再运行。",
            )
    return 0


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _place(standins: Any, source: str) -> int:
    return int(standins.NAMES.index("oai" if source == "oai_pmh" else source))


def _run(overrides: Mapping[str, Any], start: datetime) -> dict[str, Any]:
    faster = {
        "qps": RATE, "providerQps": RATE, "burst": 10, "concurrency": 4, "warmup": "PT0S",
        "headerAdaptive": False,  # the stand-in's headers tell of the real service's limits
    }  # fmt: skip
    run: dict[str, Any] = {
        **overrides, "rateLimit": faster, "window": {"earliest": start.isoformat()},
    }  # fmt: skip
    if "detail" in run:
        run["detail"] = {**run["detail"], "rateLimit": faster}
    return run


async def _apply_if_new(desk: "HarvestDesk", source: str) -> str | None:
    """Without its schedules: they would call the real service."""
    from penstock.cli.harvest.apply import who
    from penstock.harvest.desk import check
    from penstock.harvest.registry import store
    from penstock.harvest.registry.apply import apply

    async with desk.database.transaction() as tx:
        if await store.find(tx, source) is not None:
            return None
    path = _file_of(source)
    read = read_files([path])
    document = read.documents.get(str(path))
    if document is None:
        said = read.problems[0]
        raise Refusal(f"{path} is not valid: {said.message_en}", f"{path} 有误：{said.message_zh}")
    async with desk.database.transaction() as tx:
        await apply(tx, document.model_copy(update={"schedules": ()}), who(), check=check)
    return str(path)


def _file_of(source: str) -> Path:
    for directory in (sources_directory(), standin_root() / "sources"):
        if (path := directory / f"{source}.yaml").is_file():
            return path
    raise Refusal(
        f"{source} is not applied, and there is no {source}.yaml in {sources_directory()}: apply its file first"
        " (`penstock harvest apply FILE`).",
        f"尚未应用 {source}，{sources_directory()} 中也没有 {source}.yaml：请先应用其文件"
        "（penstock harvest apply FILE）。",
    )


async def _refuse_schedules(desk: "HarvestDesk", source: str) -> None:
    from penstock.harvest import overview

    async with desk.database.transaction() as tx:
        count = await overview.schedules_of(tx, source)
    if count:
        raise Refusal(
            f"{source} is applied with a schedule, which harvests the real service: its records would mix with those of"
            " the stand-in. Use another data directory (--data).",
            f"{source} 已应用计划任务，会采集真实服务，其记录会与替身的记录混在一起。请使用另一个数据目录（--data）。",
        )
