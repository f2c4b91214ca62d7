"""A local server that speaks chat completions, strictly, and misbehaves on demand.

    async with openai_like(says({"total": 3}), refused(429, retry_after="1")) as model:
        LlmSettings(base_url=model.base_url, api_key=model.key, model="small")

Answers come from the script in order, the last one for ever; an entry is a function of the request. Requests that no
endpoint would take (no messages, JSON mode without the word, a strict schema that is not strict) are refused as the
real ones do.
"""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

KEY = "sk-standin-7f3b9c1d5e"
FIELDS = {"model", "messages", "temperature", "max_tokens", "max_completion_tokens", "response_format", "seed"}


@dataclass
class Asked:
    """One request."""

    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def format(self) -> str:
        return self.body.get("response_format", {}).get("type", "text")

    @property
    def texts(self) -> list[str]:
        return [message["content"] for message in self.body["messages"]]

    @property
    def system(self) -> str:
        return self.texts[0]


Says = Callable[[Asked, asyncio.StreamWriter], Awaitable[bytes | None]]  # None: it has written, and hangs up


@dataclass
class OpenAiLike:
    """`formats`: what response_format may ask for. `models`: None is any. `output_name`: the parameter it knows."""

    script: list[Says]
    key: str = KEY
    formats: frozenset[str] = frozenset({"text", "json_object", "json_schema"})
    models: frozenset[str] | None = None
    output_name: str | None = None
    scripts: dict[str, list[Says]] = field(default_factory=dict)  # by model, instead of `script`
    asked: list[Asked] = field(default_factory=list)
    port: int = 0
    open_now: int = 0
    most_open: int = 0

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def formats_asked(self) -> list[str]:
        return [asked.format for asked in self.asked]

    @property
    def models_asked(self) -> list[str]:
        return [asked.body["model"] for asked in self.asked]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (taken := await _request(reader)) is not None:
                path, asked = taken
                self.asked.append(asked)
                self.open_now += 1
                self.most_open = max(self.most_open, self.open_now)
                try:
                    answer = self._wrong(path, asked) or await self._next(asked)(asked, writer)
                finally:
                    self.open_now -= 1
                if answer is None:
                    return
                writer.write(answer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    def _next(self, asked: Asked) -> Says:
        model = asked.body["model"]
        script = self.scripts.get(model, self.script)
        before = sum(other.body["model"] == model for other in self.asked) if model in self.scripts else len(self.asked)
        return script[min(before, len(script)) - 1]

    def _wrong(self, path: str, asked: Asked) -> bytes | None:
        body = asked.body
        if path != "/v1/chat/completions":
            return error(404, "no such address")
        if self.key and asked.headers.get("authorization") != f"Bearer {self.key}":
            return error(401, f"Incorrect API key provided: {asked.headers.get('authorization')}", "invalid_api_key")
        if self.models is not None and body.get("model") not in self.models:
            return error(404, f"The model {body.get('model')} does not exist", "model_not_found")
        if unknown := body.keys() - FIELDS:
            return error(400, f"Unrecognized request argument supplied: {', '.join(unknown)}")
        if self.output_name == "max_completion_tokens" and "max_tokens" in body:
            text = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
            return error(400, text, "unsupported_parameter", "max_tokens")
        return self._wrong_format(asked)

    def _wrong_format(self, asked: Asked) -> bytes | None:
        if not asked.body.get("messages"):
            return error(400, "messages must not be empty")
        if asked.format not in self.formats:
            return error(400, "This response_format type is unavailable now", "invalid_request_error")
        if asked.format == "json_object" and "json" not in " ".join(asked.texts).lower():
            return error(400, "'messages' must contain the word 'json' to use 'response_format' of type 'json_object'")
        if asked.format == "json_schema":
            given = asked.body["response_format"]["json_schema"]
            if given["strict"] and (where := not_strict(given["schema"])) is not None:
                text = f"Invalid schema for response_format '{given['name']}': {where}"
                return error(400, text, "invalid_json_schema", "response_format")
        return None


def not_strict(schema: Any, where: str = "()") -> str | None:
    """Where a schema breaks the rules of strict, as far as objects go."""
    if isinstance(schema, list):
        return next((found for inner in schema if (found := not_strict(inner, where))), None)
    if not isinstance(schema, dict):
        return None
    if "properties" in schema:
        if schema.get("additionalProperties") is not False:
            return f"In context={where}, 'additionalProperties' is required to be supplied and to be false"
        if set(schema.get("required", ())) != set(schema["properties"]):
            return f"In context={where}, 'required' is required to include every key in properties"
    bad = {"oneOf", "allOf", "not", "patternProperties"} & schema.keys()
    if bad:
        return f"In context={where}, {bad} is not permitted"
    return next((found for name, inner in schema.items() if (found := not_strict(inner, f"{where}.{name}"))), None)


# What it can say --------------------------------------------------------------------------------------------------


def http(status: int, body: Any, **headers: str) -> bytes:
    """A whole answer; `retry_after="3"` is the header Retry-After."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    names = {"content-length": str(len(raw)), "content-type": "application/json"}
    names |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {value}" for name, value in names.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + raw


def error(status: int, message: str, code: str | None = None, param: str | None = None, **headers: str) -> bytes:
    told = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return http(status, {"error": told}, **headers)


def completion(content: Any, *, usage: tuple[int, int] | None = (100, 20), **more: Any) -> dict[str, Any]:
    """`more`: finish_reason, and fields of the message."""
    text = content if isinstance(content, str) or content is None else json.dumps(content)
    finish = more.pop("finish_reason", "stop")
    message = {"role": "assistant", "content": text, "refusal": None, **more}
    made: dict[str, Any] = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "served"}
    made["choices"] = [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}]
    if usage is not None:
        prompt, output = usage
        made["usage"] = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
    return made


def says(content: Any, *, headers: dict[str, str] | None = None, **more: Any) -> Says:
    """An answer, well-formed; a function makes it from the request."""

    async def answer(asked: Asked, _writer: asyncio.StreamWriter) -> bytes:
        made = content(asked) if callable(content) else content
        return http(200, completion(made, **dict(more)), **(headers or {}))

    return answer


def refused(status: int, message: str = "no", code: str | None = None, **headers: str) -> Says:
    return sends(error(status, message, code, **headers))


def refused_flat(status: int, message: str, kind: str = "BadRequestError") -> Says:
    """As older vLLM has it."""
    return sends(http(status, {"object": "error", "message": message, "type": kind, "param": None, "code": status}))


def sends(raw: bytes) -> Says:
    async def answer(_asked: Asked, _writer: asyncio.StreamWriter) -> bytes:
        return raw

    return answer


def hangs(seconds: float = 60.0) -> Says:
    """Nothing comes."""

    async def answer(_asked: Asked, _writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(seconds)

    return answer


def resets() -> Says:
    """The connection is torn after the request was read."""

    async def answer(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        plug = writer.get_extra_info("socket")
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    return answer


def cuts(content: Any) -> Says:
    """Half of an answer."""

    async def answer(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        raw = http(200, completion(content))
        writer.write(raw[: len(raw) - 30])
        await writer.drain()

    return answer


def keeps_alive(content: Any, *, lines: int, pause: float) -> Says:
    """Blank lines until the answer is there, as servers under load send them."""

    async def answer(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n")
        for _ in range(lines):
            writer.write(b"\n")
            await writer.drain()
            await asyncio.sleep(pause)
        writer.write(json.dumps(completion(content)).encode())
        await writer.drain()

    return answer


def endless(piece: bytes = b'{"choices": [' + b" " * 65_000) -> Says:
    """An answer that does not stop."""

    async def answer(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
        while True:
            writer.write(piece)
            await writer.drain()

    return answer


# Serving ------------------------------------------------------------------------------------------------------------


async def _request(reader: asyncio.StreamReader) -> tuple[str, Asked] | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return first.split(" ", 2)[1], Asked(headers, json.loads(body or b"{}"))


@asynccontextmanager
async def openai_like(*script: Says, **options: Any) -> AsyncIterator[OpenAiLike]:
    """`formats`, `models`, `output_name`, `key`; `scripts={"model": [..]}` for models that behave differently."""
    for name in ("formats", "models"):
        if isinstance(options.get(name), Iterable):
            options[name] = frozenset(options[name])
    model = OpenAiLike(list(script), **options)
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(model.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    model.port = server.sockets[0].getsockname()[1]
    try:
        yield model
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
