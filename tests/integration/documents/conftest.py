"""Jobs over HTTP: the application, a real sandbox, a store and uploads of their own for each test."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.edge import EdgeParts, bearer, edge_parts
from tests.support.jobs import finished_upload, fresh, pdf

from penstock.api.app import create_app
from penstock.documents import Desk
from penstock.documents.ports import Examiner
from penstock.kernel.db import Database, fetch_all
from penstock.kernel.redis import Keys, Redis
from penstock.kernel.sandbox import SandboxSettings
from penstock.pdf import Examiner as PdfExaminer
from penstock.pdf import Inspection, PdfSettings, pdf_sandbox


@pytest.fixture(scope="session")
async def real_examiner() -> AsyncIterator[PdfExaminer]:
    settings = PdfSettings(max_pages=40, security_max_object_count=500)
    async with pdf_sandbox(settings, SandboxSettings(workers=2)) as sandbox:
        yield PdfExaminer(sandbox, settings)


@pytest.fixture(scope="session")
def slow_pdf() -> bytes:
    """Takes several seconds to look through."""
    return pdf("slow", objects=400_000)


class Counting:
    """The real examiner, counting; `before` runs ahead of every inspection."""

    def __init__(self, real: PdfExaminer) -> None:
        self._real = real
        self.inspected = 0
        self.rendered = 0
        self.tenants: set[str] = set()  # whose shares were taken
        self.before: Any = None

    async def inspect(self, path: Path, *, tenant: str) -> Inspection:
        self.inspected += 1
        self.tenants.add(tenant)
        if self.before is not None:
            await self.before()
        return await self._real.inspect(path, tenant=tenant)

    async def prescan(self, *given: Any, tenant: str) -> Any:
        self.tenants.add(tenant)
        return await self._real.prescan(*given, tenant=tenant)

    async def render(self, *given: Any, tenant: str) -> bytes:
        self.rendered += 1
        return await self._real.render(*given, tenant=tenant)


@pytest.fixture
def examiner(real_examiner: PdfExaminer) -> Counting:
    return Counting(real_examiner)


@dataclass
class Office:
    """Somebody at the API."""

    parts: EdgeParts
    client: httpx.AsyncClient
    examiner: Counting

    @property
    def database(self) -> Database:
        return self.parts.database

    @property
    def desk(self) -> Desk:
        return self.parts.desk

    async def upload(self, content: bytes | None = None, merchant: str = "m-1", name: str = "spring.pdf") -> str:
        return await finished_upload(
            self.database, self.desk.uploads, fresh() if content is None else content, merchant, name
        )

    async def post(self, upload_id: str, *, role="uploader", merchant="m-1", headers=None, **body) -> httpx.Response:
        return await self.client.post(
            "/api/v1/jobs", json={"upload_id": upload_id, **body}, headers={**bearer(role, merchant), **(headers or {})}
        )

    async def job(self, content: bytes | None = None, merchant: str = "m-1", name="spring.pdf", **body) -> dict:
        answer = await self.post(await self.upload(content, merchant, name), merchant=merchant, **body)
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def get(self, path: str, *, role="uploader", merchant="m-1", headers=None, **query) -> httpx.Response:
        return await self.client.get(
            f"/api/v1/jobs{path}", params=query, headers={**bearer(role, merchant), **(headers or {})}
        )

    async def cancel(self, job_id: str, *, role="uploader", merchant="m-1") -> httpx.Response:
        return await self.client.post(f"/api/v1/jobs/{job_id}/cancel", headers=bearer(role, merchant))

    async def rows(self, query: str, *values: Any) -> list[dict]:
        async with self.database.transaction() as tx:
            return await fetch_all(tx, query, values)

    async def files(self) -> list[str]:
        return sorted([found.key async for found in self.desk.store.list()])


@pytest.fixture
async def office(database: Database, redis_client: Redis, keys: Keys, examiner: Counting) -> AsyncIterator[Office]:
    async with edge_parts(database, redis_client, keys) as made, opened(made, examiner) as office:
        yield office


def opened(made: EdgeParts, examiner: Counting, **changes: Any):
    return _Opened(made, examiner, changes)


class _Opened:
    def __init__(self, made: EdgeParts, examiner: Counting, changes: dict[str, Any]) -> None:
        chosen: Examiner = examiner
        desk = replace(made.desk, examiner=chosen, **changes)
        self._parts = replace(made, desk=desk)
        self._examiner = examiner

    async def __aenter__(self) -> Office:
        self._app = create_app(self._parts)
        transport = httpx.ASGITransport(app=self._app)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://penstock.test", timeout=60)
        return Office(self._parts, self._client, self._examiner)

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()
        await self._app.state.readiness.close()
