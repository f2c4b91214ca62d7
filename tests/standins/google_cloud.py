"""What Penstock asks of Google besides bytes: tokens for a service account, signatures by IAM, a bucket's JSON routes.

Objects are put by the test; `faults` are the statuses that the next requests of a kind get (0: the connection ends).
"""

import asyncio
import base64
import hashlib
import itertools
import json
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.standins.wire import Connection, Request, Response, as_json

EMAIL = "signer@project.iam.gserviceaccount.com"


@cache
def key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@dataclass(frozen=True)
class Stored:
    generation: int
    content: bytes
    content_type: str
    has_md5: bool = True


class GoogleCloud:
    def __init__(self) -> None:
        self.url = ""
        self._generations = itertools.count(1_700_000_000_000_001)
        self.forget()

    def forget(self) -> None:
        self.objects: dict[str, Stored] = {}
        self.faults: dict[str, list[int]] = defaultdict(list)
        self.seen: list[tuple[str, Request]] = []
        self.rewrite_calls = 1  # that a copy takes

    def put(self, name: str, content: bytes, content_type: str = "video/mp4", has_md5: bool = True) -> str:
        self.objects[name] = Stored(next(self._generations), content, content_type, has_md5)
        return str(self.objects[name].generation)

    def account_file(self, folder: Path) -> Path:
        """The key file of an account that gets its tokens here."""
        pem = key().private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        account = {
            "type": "service_account", "client_email": EMAIL, "private_key_id": "k1", "private_key": pem.decode(),
            "token_uri": f"{self.url}/token", "project_id": "p",
        }  # fmt: skip
        path = folder / "service-account.json"
        path.write_text(json.dumps(account))
        return path

    def asked(self, kind: str) -> list[Request]:
        return [request for known, request in self.seen if known == kind]

    def handle(self, request: Request) -> Response:
        kind, name, rest = _kind(request)
        self.seen.append((kind, request))
        if self.faults[kind]:
            status = self.faults[kind].pop(0)
            return Response(500, b"{}", cut=True) if status == 0 else _refusal(status)
        if kind == "token":
            return as_json({"access_token": "token-1", "expires_in": 3600, "token_type": "Bearer"})
        if request.headers.get("authorization") != "Bearer token-1":
            return _refusal(401)
        return getattr(self, f"_{kind}", lambda *_: _refusal(404))(request, name, rest)

    def _sign(self, request: Request, name: str, rest: str) -> Response:
        signature = key().sign(base64.b64decode(request.json()["payload"]), padding.PKCS1v15(), hashes.SHA256())
        return as_json({"keyId": "k1", "signedBlob": base64.b64encode(signature).decode()})

    def _find(self, request: Request, name: str, rest: str) -> Response:
        found = self._of(request, name, "generation")
        return as_json(_resource(name, found)) if found else _refusal(404)

    def _fetch(self, request: Request, name: str, rest: str) -> Response:
        found = self._of(request, name, "generation")
        if found is None:
            return _refusal(404)
        head = {"x-goog-hash": f"md5={_md5(found.content)}", "x-goog-generation": str(found.generation)}
        return Response(200, found.content, found.content_type, head)

    def _rewrite(self, request: Request, name: str, target: str) -> Response:
        source = self._of(request, name, "sourceGeneration")
        if source is None:
            return _refusal(404)
        if request.query.get("ifGenerationMatch") == "0" and target in self.objects:
            return _refusal(412)
        calls = int(request.query.get("rewriteToken", "1"))
        if calls < self.rewrite_calls:
            return as_json(
                {"done": False, "rewriteToken": str(calls + 1), "objectSize": "9", "totalBytesRewritten": "1"}
            )
        self.put(target, source.content, source.content_type)
        size = str(len(source.content))
        resource = _resource(target, self.objects[target])
        return as_json({"done": True, "objectSize": size, "totalBytesRewritten": size, "resource": resource})

    def _delete(self, request: Request, name: str, rest: str) -> Response:
        found = self.objects.get(name)
        if found is None:
            return _refusal(404)
        if request.query.get("ifGenerationMatch") != str(found.generation):
            return _refusal(412)
        del self.objects[name]
        return Response(204)

    def _of(self, request: Request, name: str, parameter: str) -> Stored | None:
        found = self.objects.get(name)
        wanted = request.query.get(parameter)
        return found if found and wanted in (None, str(found.generation)) else None

    @asynccontextmanager
    async def running(self) -> AsyncIterator["GoogleCloud"]:
        alive: set[Connection] = set()
        make = asyncio.get_running_loop().create_server
        server = await make(lambda: Connection(self.handle, lambda _: None, alive), "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for connection in list(alive):
                connection.transport.abort()
            await server.wait_closed()


def _kind(request: Request) -> tuple[str, str, str]:
    path = request.target.partition("?")[0]
    if path == "/token":
        return "token", "", ""
    if path.endswith(":signBlob"):
        return "sign", "", ""
    head, _, rest = path.partition("/o/")
    name, _, target = rest.partition("/rewriteTo/")
    if target:
        return "rewrite", unquote(name), unquote(target.partition("/o/")[2])
    if head.startswith("/download/"):
        return "fetch", unquote(name), ""
    if not rest:
        return "bucket", "", ""
    return {"GET": "find", "DELETE": "delete"}.get(request.method, "unknown"), unquote(name), ""


def _refusal(status: int) -> Response:
    return as_json(
        {"error": {"code": status, "message": "refused, see https://secret.example/?upload_id=s3cr3t"}}, status
    )


def _md5(content: bytes) -> str:
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()


def _resource(name: str, found: Stored) -> dict[str, Any]:
    resource = {
        "kind": "storage#object", "name": name, "bucket": "bucket", "generation": str(found.generation),
        "metageneration": "1", "size": str(len(found.content)), "contentType": found.content_type, "etag": "CAE=",
        "crc32c": "AAAAAA==", "timeCreated": "2026-11-15T10:00:00.123Z", "updated": "2026-11-15T10:00:00.123Z",
    }  # fmt: skip
    return resource | ({"md5Hash": _md5(found.content)} if found.has_md5 else {})
