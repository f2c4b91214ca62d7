"""ETL as its users meet it: the API, a worker process, PostgreSQL, Redis, and stand-ins for MinerU and a model.

Tests share one world and are kept apart by merchant. Nobody sweeps here unless a test does: what runs is carried on by
its own jobs.
"""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from psycopg.rows import dict_row

from penstock.api.app import create_app
from penstock.bootstrap import Parts, load_settings, started
from penstock.kernel.identity import Role
from tests.standins.mineru import Behaviour, Mineru, mineru
from tests.standins.openai_like import Asked, OpenAiLike, Says, completion, openai_like
from tests.standins.openai_like import http as raw_answer
from tests.support import nursery
from tests.support.edge import SECRET, bearer
from tests.support.emptying import empty
from tests.support.etl import until
from tests.support.nursery import Child
from tests.support.places import open_directory
from tests.support.programs import environment
from tests.support.tus import CHUNK, UPLOADS, metadata

TASKS = "/api/v1/etl/tasks"
RULES = "/api/v1/etl/rules"
ENDS = ("completed", "failed", "cancelled")
NOBODY = {"ETL_ARQ_QUEUE_NAME": "nobody"}  # a queue that no worker takes from
AUDIT = """
create table if not exists public.etl_writes (seq bigserial, task_id bigint, status text, phase text, progress int);
create or replace function public.etl_written() returns trigger language plpgsql as $$ begin
  insert into public.etl_writes (task_id, status, phase, progress)
    values (new.task_id, new.status, new.phase, new.progress);
  return new; end $$;
create or replace trigger etl_written after insert or update on etl_task
  for each row execute function public.etl_written();
"""
NO_AUDIT = """
drop trigger if exists etl_written on etl_task;
drop function if exists public.etl_written;
drop table if exists public.etl_writes;
"""
_merchants = count(1)


@dataclass
class World:
    """What is shared. `settings` are the worker's; a desk may have others."""

    settings: dict[str, str]
    model: OpenAiLike
    mineru: Mineru
    stack: AsyncExitStack
    log: Path
    _desks: dict[tuple[tuple[str, str], ...], Parts] = field(default_factory=dict)

    async def desk(self, *, role: str = "scheduler", **settings: str) -> Parts:
        """Where tasks are submitted; opened once for the same settings. The role `serve` also looks into files."""
        named = tuple(sorted({**settings, "role": role}.items()))
        if named not in self._desks:
            with pytest.MonkeyPatch.context() as patch:
                for name, value in {**self.settings, **settings}.items():
                    patch.setenv(name, value)
                chosen = load_settings()
            self._desks[named] = await self.stack.enter_async_context(started(chosen, role=role))
        return self._desks[named]

    async def somebody(self, merchant: str = "", user: Role = Role.UPLOADER, **settings: str) -> "Somebody":
        """Of a merchant of their own unless one is named; `role` and settings are the desk's."""
        parts = await self.desk(**settings)
        name = merchant or f"m-{next(_merchants)}"
        app = create_app(parts)
        http = httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://etl.test", headers=bearer(user, name, seconds=3600)
        )
        self.stack.push_async_callback(app.state.readiness.close)
        self.stack.push_async_callback(http.aclose)
        return Somebody(self, parts, http, name)

    def anew(self) -> None:
        """Both stand-ins behave, and have not been asked yet."""
        self.model.asked.clear()
        self.mineru.calls.clear()
        self.mineru.behaviour = Behaviour()


@dataclass
class Somebody:
    """One merchant's user at the API, with an eye on what lies behind it."""

    world: World
    parts: Parts
    http: httpx.AsyncClient
    merchant: str

    async def place(self, data: bytes, name: str = "a.pdf") -> str:
        """Put a file into the own inbox; its key."""
        key = f"inbox/{self.merchant}/{name}"
        await self.parts.store.put(key, data)
        return key

    async def upload(self, data: bytes, name: str, **more: str) -> str:
        """By tus; the id of the finished upload."""
        headers = {"Tus-Resumable": "1.0.0", "Upload-Length": str(len(data))}
        made = await self.http.post(UPLOADS, headers=headers | {"Upload-Metadata": metadata(filename=name, **more)})
        assert made.status_code == 201, made.text
        sent = {"Tus-Resumable": "1.0.0", "Upload-Offset": "0", "Content-Type": CHUNK}
        done = await self.http.patch(made.headers["Location"], headers=sent, content=data)
        assert done.status_code == 204, done.text
        return str(made.headers["Location"].rpartition("/")[2])

    async def submit(self, data: bytes, name: str = "a.pdf", **more: Any) -> int:
        """The number of a new task."""
        answer = await self.ask_for(object_key=await self.place(data, name), **more)
        assert answer.status_code == 202, answer.text
        return int(answer.json()["task_id"])

    async def ask_for(self, *, key: str | None = None, **body: Any) -> httpx.Response:
        headers = {"Idempotency-Key": key} if key else {}
        return await self.http.post("/api/v1/etl/submit", json=body, headers=headers)

    async def rule(self, **content: Any) -> int:
        answer = await self.http.post(RULES, json={"name": f"rule-{next(_merchants)}", **content})
        assert answer.status_code == 201, answer.text
        return int(answer.json()["rule_id"])

    async def task(self, task_id: int) -> dict[str, Any]:
        answer = await self.http.get(f"{TASKS}/{task_id}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def shown(self, task_id: int, is_so: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        async def ask() -> dict[str, Any] | None:
            told = await self.task(task_id)
            return told if is_so(told) else None

        def waited_for() -> str:
            return f"task {task_id}: {what}; the worker says\n{self.world.log.read_text()[-3000:]}"

        return dict(await until(ask, 60, waited_for))

    async def in_state(self, task_id: int, status: str) -> dict[str, Any]:
        return await self.shown(task_id, lambda told: told["status"] == status, f"is {status}")

    async def ended(self, task_id: int) -> dict[str, Any]:
        return await self.shown(task_id, lambda told: told["status"] in ENDS, "has ended")

    async def retry(self, task_id: int, from_stage: str, **more: Any) -> httpx.Response:
        return await self.http.post(f"{TASKS}/{task_id}/retry", json={"from_stage": from_stage, **more})

    async def cancel(self, task_id: int) -> httpx.Response:
        return await self.http.post(f"{TASKS}/{task_id}/cancel")

    # Behind the API

    async def rows(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        url = self.world.settings["PENSTOCK_DATABASE_URL"]
        async with await psycopg.AsyncConnection.connect(url, row_factory=dict_row, autocommit=True) as connection:
            cursor = await connection.execute(statement, values)
            return await cursor.fetchall() if cursor.description else []

    async def row(self, task_id: int) -> dict[str, Any]:
        [found] = await self.rows("select * from etl_task where task_id = %s", task_id)
        return found

    def state_key(self, task_id: int) -> str:
        return self.parts.keys.etl_task(self.parts.settings.etl.redis_prefix, task_id)

    async def state(self, task_id: int) -> dict[str, str]:
        """The hash in Redis."""
        found = await self.parts.redis.hgetall(self.state_key(task_id))
        return {name.decode(): value.decode() for name, value in found.items()}

    async def stored(self, task_id: int) -> dict[str, int]:
        """What the store has of a task: keys, and when each was written."""
        root = Path(self.world.settings["PENSTOCK_STORE_URL"].removeprefix("file://"))
        found = (root / "etl" / str(task_id)).rglob("*")
        return {path.relative_to(root).as_posix(): path.stat().st_mtime_ns for path in found if path.is_file()}


@asynccontextmanager
async def etl_world(database_url: str, redis_url: str) -> AsyncIterator[World]:
    with open_directory() as home, psycopg.connect(database_url, autocommit=True) as connection:
        async with AsyncExitStack() as stack:
            model = await stack.enter_async_context(openai_like(says_nothing()))
            service = await stack.enter_async_context(mineru("hosted"))
            settings = _settings(home, database_url, redis_url) | {
                "PENSTOCK_LLM_BASE_URL": model.base_url,
                "PENSTOCK_LLM_API_KEY": model.key,
                "PENSTOCK_MINERU_BASE_URL": service.base_url,
                "PENSTOCK_MINERU_TOKEN": service.token,
            }
            log = home / "worker.log"
            log.touch()
            worker = nursery.penstock("worker", log=log, env=environment(**settings))
            connection.execute(AUDIT)
            try:
                yield World(settings, model, service, stack, log)
            finally:
                await asyncio.to_thread(_end, worker)
                connection.execute(NO_AUDIT)
                empty(database_url)


def _end(worker: Child) -> None:
    worker.terminate()
    try:
        worker.wait(20)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()


def _settings(home: Path, database_url: str, redis_url: str) -> dict[str, str]:
    return {
        "PENSTOCK_DATABASE_URL": database_url,
        "PENSTOCK_REDIS_URL": redis_url,
        "PENSTOCK_REDIS_PREFIX": f"etl-{home.name}",  # tasks of the next world are numbered from 1 again
        "PENSTOCK_STORE_URL": (home / "store").as_uri(),
        "PENSTOCK_HOME": str(home),
        "PENSTOCK_JWT_SECRET": SECRET,
        "PENSTOCK_SANDBOX_WORKERS": "1",
        "PENSTOCK_POOL_SIZE": "4",
        "PENSTOCK_LLM_MODEL": "small",
        "PENSTOCK_LLM_ATTEMPTS": "1",
        "PENSTOCK_LLM_QPM": "100000",
        "PENSTOCK_LLM_BREAKER_FAILURES": "1000",
        "PENSTOCK_LLM_BREAKER_RATIO": "1",
        "PENSTOCK_MINERU_POLL_FIRST_SECONDS": "0.02",
        "PENSTOCK_MINERU_POLL_MOST_SECONDS": "0.04",
        "ETL_LEASE_SECONDS": "300",  # a renewal is a write, and writes are counted
        "ETL_OCR_MAX_ATTEMPTS": "2",
        "ETL_POSTPROCESS_MAX_ATTEMPTS": "3",
        "ETL_RETRY_BACKOFF_BASE_SECONDS": "0.1",
        "ETL_RETRY_BACKOFF_MAX_SECONDS": "0.2",
        "ETL_POSTPROCESS_CHUNK_THRESHOLD_CHARS": "5000",
        "ETL_POSTPROCESS_CHUNK_SIZE_CHARS": "2500",
    }


def says_nothing() -> Says:
    """A model that no test has told what to say."""

    async def answer(_asked: Asked, _writer: asyncio.StreamWriter) -> bytes:
        return raw_answer(500, {"error": {"message": "nobody told me what to say"}})

    return answer


def waits_for(leave: asyncio.Event, content: Any, *, status: int = 200) -> Says:
    """It answers when the test gives leave."""

    async def answer(_asked: Asked, _writer: asyncio.StreamWriter) -> bytes:
        await leave.wait()
        return raw_answer(status, completion(content))

    return answer
