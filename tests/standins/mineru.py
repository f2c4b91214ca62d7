"""MinerU on loopback, in each of its four contracts: strict where the real servers are lenient, and able to misbehave.

    async with mineru("hosted") as service:
        service.base_url, service.calls["submit"], service.behave(states=["pending", "failed"], err_code=-60010)

Unknown fields and query keys are refused. State is in memory. `GET /_calls` tells how often each call was made, and
`POST /_behave` changes how it behaves, for tests in other processes: `python -m tests.standins.mineru hosted`.
"""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import parse_qs

from tests.standins import mineru_results as results
from tests.standins.mineru_requests import error_4, form_of, good, numbers_of, pages_of
from tests.standins.wire import Connection, Request, Response, as_json, as_text

TOKEN = "standin-token-7Hq2"
FAMILIES = ("hosted", "v2", "v3", "v4")
_STATES = {
    "hosted": ["waiting-file", "pending", "running", "converting", "done"],
    "v3": ["pending", "processing", "completed"],
    "v4": ["queued", "running", "completed"],
}
_ABSENT = {"detail": "Not Found"}
_GATEWAY = {
    "traceId": "t", "msgCode": "A0202", "msg": "user authenticate failed", "data": None, "success": False, "total": 0,
}  # fmt: skip
_FORM = {
    "lang_list", "backend", "parse_method", "formula_enable", "table_enable", "server_url", "return_md",
    "return_middle_json", "return_model_output", "return_content_list", "return_images", "response_format_zip",
    "start_page_id", "end_page_id",
}  # fmt: skip
_FORM_3 = _FORM | {"effort", "image_analysis", "return_original_file", "client_side_output_generation"}
_QUERY_4 = {"tier", "ocr_mode", "page_range", "output_formats", "filename", "sha256sum"}
_FILE_KEYS = {"name", "data_id", "is_ocr", "page_ranges"}
_BATCH_KEYS = {
    "files", "model_version", "enable_formula", "enable_table", "language", "extra_formats", "callback", "seed",
}  # fmt: skip


@dataclass
class Behaviour:
    """How it misbehaves. `faults` has, for each kind of call, what its next calls get instead of an answer.

    A fault is an HTTP status, a code of the hosted service (negative), "gateway", "gateway at 200", "cut", "garbage",
    or None for a good answer. `states` are shown one by one at each look; the last one stays.
    """

    faults: dict[str, list[Any]] = field(default_factory=dict)
    states: list[str] = field(default_factory=list)
    err_code: Any = None
    err_type: str = "engine_error"
    flaw: str = ""  # of the result
    most_pages: int = 0
    decoys: bool = False  # rows of other people's files around ours
    link: str = ""  # instead of the address of the result
    upload_link: str = ""
    answers_json: bool = False  # 2.x that knows no zip
    delay: float = 0.0
    message: str = "something went wrong"
    protocol: int = 2


@dataclass
class Task:
    name: str
    numbers: list[int]
    looks: int = 0
    data_id: str = ""
    total: int = 0
    is_uploaded: bool = False


class Mineru:
    def __init__(self, family: str, *, token: str = TOKEN, port: int = 0) -> None:
        self.family, self.token, self.port = family, token, port
        self.behaviour = Behaviour()
        self.calls: Counter[str] = Counter()
        self.tasks: dict[str, Task] = {}
        self.url = ""
        self.seen: list[Request] = []

    @property
    def base_url(self) -> str:
        return self.url + {"hosted": "/api/v4", "v4": "/v1"}.get(self.family, "")

    def behave(self, **changes: Any) -> None:
        known = {each.name for each in fields(Behaviour)}
        if not changes.keys() <= known:
            raise ValueError(f"there are: {', '.join(sorted(known))}")
        for name, value in changes.items():
            setattr(self.behaviour, name, value)

    def restart(self, family: str | None = None) -> None:
        """As servers do: every task is forgotten; perhaps it was upgraded."""
        self.tasks.clear()
        self.family = family or self.family

    # One request

    def handle(self, request: Request) -> Response:
        if request.path == "/_calls":
            return as_json(dict(self.calls))
        if request.path == "/_behave":
            self.behave(**request.json())
            return as_json({})
        self.seen.append(request)
        kind = self._kind(request)
        self.calls[kind] += 1
        response = self._fault(kind) or getattr(self, f"_{self.family}")(request, kind)
        response.delay = response.delay or self.behaviour.delay
        return response

    def _kind(self, request: Request) -> str:
        if request.path.endswith("/health"):
            return "probe"
        if request.method == "PUT":
            return "upload"
        if request.method == "POST":
            return "submit"
        return "result" if request.path.startswith("/cdn/") or request.path.endswith("/result") else "look"

    def _fault(self, kind: str) -> Response | None:  # noqa: PLR0911
        waiting = self.behaviour.faults.get(kind)
        fault = waiting.pop(0) if waiting else None
        if fault is None:
            return None
        if fault == "cut":
            return Response(200, b"x" * 100, cut=True)
        if fault == "garbage":
            return as_text("<html>It works!</html>")
        if fault in ("gateway", "gateway at 200"):
            return as_json(_GATEWAY, 401 if fault == "gateway" else 200)
        if isinstance(fault, str) or fault < 0:
            return as_json({"code": fault, "msg": self.behaviour.message, "trace_id": "t", "data": None})
        if self.family == "v4":
            return error_4(fault, "engine_error", "server_shutting_down", self.behaviour.message)
        return as_json({"detail": self.behaviour.message}, fault)

    def _state(self, task: Task) -> str:
        states = self.behaviour.states or _STATES[self.family]
        if not self.behaviour.states and self.family == "hosted":
            states = states[1:] if task.is_uploaded else states[:1]
        state = states[min(task.looks, len(states) - 1)]
        task.looks += 1
        return state

    # Hosted v4

    def _hosted(self, request: Request, kind: str) -> Response:
        if kind == "upload":
            return self._uploaded(request)
        if request.path.startswith("/cdn/"):
            task = self.tasks.get(request.path.removeprefix("/cdn/").removesuffix(".zip"))
            return Response(403) if task is None else self._zip(task)
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return as_json(
                {"traceId": "t", "msgCode": "A0202", "msg": "user authenticate failed", "success": False}, 401
            )
        if request.method == "POST" and request.path == "/api/v4/file-urls/batch":
            return self._batch(request.json())
        if request.method == "GET" and request.path.startswith("/api/v4/extract-results/batch/"):
            return self._rows(request.path.rpartition("/")[2])
        return as_json(_ABSENT, 404)

    def _batch(self, asked: dict[str, Any]) -> Response:
        unknown = asked.keys() - _BATCH_KEYS
        for file in asked["files"]:
            unknown |= file.keys() - _FILE_KEYS
        if unknown:
            return as_json({"code": -10002, "msg": f"unknown: {sorted(unknown)}", "trace_id": "t", "data": None})
        batch = f"batch-{len(self.tasks) + 1}"
        file = asked["files"][0]
        self.tasks[batch] = Task(file["name"], numbers_of(file.get("page_ranges", "")), data_id=file["data_id"])
        link = self.behaviour.upload_link or f"{self.url}/upload/{batch}?signature=s1gned"
        return good({"batch_id": batch, "file_urls": [link]})

    def _uploaded(self, request: Request) -> Response:
        task = self.tasks.get(request.path.rpartition("/")[2])
        if task is None or "content-type" in request.headers or "authorization" in request.headers:
            return Response(403, b"SignatureDoesNotMatch")
        if "signature=s1gned" not in request.raw_query:
            return Response(403, b"AccessDenied")
        self._take(task, request.body)
        task.is_uploaded = True
        return Response(200)

    def _rows(self, batch: str) -> Response:
        task = self.tasks.get(batch)
        if task is None:
            return as_json({"code": -60012, "msg": "not found", "trace_id": "t", "data": None})
        row: dict[str, Any] = {
            "file_name": task.name,
            "state": self._state(task),
            "err_msg": "",
            "data_id": task.data_id,
        }
        most = self.behaviour.most_pages
        if most and task.is_uploaded and len(task.numbers) > most:
            row |= {"state": "failed", "err_code": -60006, "err_msg": "too many pages"}
        elif row["state"] == "failed":
            row |= {"err_code": self.behaviour.err_code, "err_msg": self.behaviour.message}
        elif row["state"] == "done":
            row["full_zip_url"] = self.behaviour.link or f"{self.url}/cdn/{batch}.zip"
        elif row["state"] == "running":
            row["extract_progress"] = {
                "extracted_pages": 1,
                "total_pages": len(task.numbers),
                "start_time": "2026-01-20 11:43:20",
            }
        decoy = {
            "file_name": task.name,
            "state": "done",
            "err_msg": "",
            "full_zip_url": "https://example.com/x.zip",
            "data_id": "no",
        }
        return good({"batch_id": batch, "extract_result": [decoy, row, decoy] if self.behaviour.decoys else [row]})

    # Self-hosted

    def _v2(self, request: Request, kind: str) -> Response:
        if (request.method, request.path) != ("POST", "/file_parse"):
            return as_json(_ABSENT, 404)
        task = self._form_task(request, _FORM | {"output_dir"})
        if isinstance(task, Response):
            return task
        return as_json(results.as_json(task.numbers)) if self.behaviour.answers_json else self._zip(task)

    def _v3(self, request: Request, kind: str) -> Response:
        if kind == "probe":
            health = {"status": "healthy", "version": "3.4.4", "protocol_version": self.behaviour.protocol}
            return as_json(health) if request.path == "/health" else as_json(_ABSENT, 404)
        if (request.method, request.path) == ("POST", "/tasks"):
            task = self._form_task(request, _FORM_3)
            if isinstance(task, Response):
                return task
            return as_json(self._told3(self._kept(task), "pending") | {"message": "Task submitted successfully"}, 202)
        _, _, name = request.path.partition("/tasks/")
        task_id = name.removesuffix("/result")
        task = self.tasks.get(task_id)
        if request.method != "GET" or task is None:
            return as_json({"detail": "Task not found"} if name else _ABSENT, 404)
        if kind == "result":
            return self._zip(task)
        return as_json(self._told3(task_id, self._state(task)))

    def _told3(self, task_id: str, state: str) -> dict[str, Any]:
        where = f"{self.url}/tasks/{task_id}"
        return {
            "task_id": task_id, "status": state, "backend": "pipeline", "file_names": ["doc"], "created_at": "2026",
            "started_at": None, "completed_at": None, "error": self.behaviour.message if state == "failed" else None,
            "status_url": where, "result_url": f"{where}/result", "queued_ahead": 0,
        }  # fmt: skip

    def _v4(self, request: Request, kind: str) -> Response:  # noqa: PLR0911
        if request.path == "/v1/health":
            return as_json({"status": "ok", "version": "4.0.12", "features": {"sources": ["inline"]}})
        if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            return error_4(401, "authentication_error", "invalid_api_key", "Invalid API key")
        if (request.method, request.path) == ("POST", "/v1/tasks"):
            return self._submitted4(request)
        name = request.path.removeprefix("/v1/tasks/")
        task = self.tasks.get(name.removesuffix("/result"))
        if request.method != "GET" or not request.path.startswith("/v1/tasks/"):
            return as_json(_ABSENT, 404)
        if task is None:
            return error_4(404, "invalid_request_error", "job_not_found", "no such job")
        if kind == "result":
            return self._zip(task) if request.query == {"response_format": "zip"} else error_4(400, "x", "bad", "query")
        return as_json(self._told4(name, self._state(task)))

    def _submitted4(self, request: Request) -> Response:
        query = parse_qs(request.raw_query, strict_parsing=True)
        if query.keys() - _QUERY_4 or "filename" not in query or "zip" not in query.get("output_formats", []):
            return error_4(400, "invalid_request_error", "invalid_request", f"{sorted(query)}")
        if request.headers.get("content-type") != "application/octet-stream":
            return error_4(415, "invalid_request_error", "invalid_request", "use application/octet-stream")
        task = Task(query["filename"][0], numbers_of(query.get("page_range", [""])[0]))
        self._take(task, request.body)
        return as_json(self._told4(self._kept(task), "queued"), 202)

    def _told4(self, task_id: str, state: str) -> dict[str, Any]:
        file: dict[str, Any] = {"name": "document.pdf", "page_range": "1", "status": "completed", "error": None}
        if state == "failed":
            error = {
                "type": self.behaviour.err_type,
                "code": self.behaviour.err_code,
                "message": self.behaviour.message,
            }
            file |= {"status": "failed", "error": error}
        where = f"/v1/tasks/{task_id}"
        return {
            "task_id": task_id, "status": state, "created_at": "2026-01-20T00:00:00Z", "tier": "standard",
            "progress": {"completed": 0, "failed": 0, "total": 1}, "files": [file], "status_url": where,
            "result_url": f"{where}/result",
        }  # fmt: skip

    # Common

    def _form_task(self, request: Request, known: set[str]) -> "Task | Response":
        values, file = form_of(request)
        if values.keys() - known or file is None:
            return as_json({"detail": f"unknown: {sorted(values.keys() - known)}"}, 422)
        task = Task("doc", [])
        if "start_page_id" in values:
            task.numbers = list(range(int(values["start_page_id"]) + 1, int(values["end_page_id"]) + 2))
        self._take(task, file)
        return task

    def _kept(self, task: Task) -> str:
        task_id = f"task-{len(self.tasks) + 1}"
        self.tasks[task_id] = task
        return task_id

    def _take(self, task: Task, body: bytes) -> None:
        task.total = pages_of(body)
        task.numbers = task.numbers or list(range(1, task.total + 1))

    def _zip(self, task: Task) -> Response:
        """Servers of 3.x and the hosted service cut a part out first, so it is counted from its own beginning."""
        flaw = self.behaviour.flaw
        if flaw.startswith("once "):
            flaw, self.behaviour.flaw = flaw.removeprefix("once "), ""
        return Response(200, results.archive(self.family, task.numbers, flaw), "application/zip")

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Mineru"]:
        alive: set[Connection] = set()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: Connection(self.handle, lambda _response: None, alive), "127.0.0.1", self.port
        )
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for connection in list(alive):
                connection.transport.abort()
            await server.wait_closed()


def mineru(family: str, **options: Any) -> Any:
    """A context manager that serves one family in this process."""
    return Mineru(family, **options).running()


async def _serve(family: str) -> None:
    async with mineru(family) as service:
        sys.stdout.write(json.dumps({"base_url": service.base_url, "token": service.token}) + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
