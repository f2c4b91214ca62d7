"""What is asked of the stand-in of MinerU, taken apart, and the shapes of its short answers."""

import email.parser
import email.policy
import io
from typing import Any

import pikepdf

from tests.standins.wire import Request, Response, as_json


def form_of(request: Request) -> tuple[dict[str, str], bytes | None]:
    head = f"Content-Type: {request.headers.get('content-type', '')}\r\n\r\n".encode()
    message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + request.body)
    values, file = {}, None
    for part in message.iter_parts():
        name = part.get_param("name", header="content-disposition")
        if name == "files":
            file = part.get_payload(decode=True)
        else:
            values[str(name)] = part.get_payload(decode=True).decode()
    return values, file


def pages_of(body: bytes) -> int:
    if not body.startswith(b"%PDF-"):
        return 1
    with pikepdf.open(io.BytesIO(body)) as document:
        return len(document.pages)


def numbers_of(text: str) -> list[int]:
    if not text:
        return []
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def good(data: dict[str, Any]) -> Response:
    return as_json({"code": 0, "data": data, "msg": "ok", "trace_id": "t"})


def error_4(status: int, kind: str, code: str, message: str) -> Response:
    return as_json({"error": {"type": kind, "code": code, "message": message, "param": None}}, status)
