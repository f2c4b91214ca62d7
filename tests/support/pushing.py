"""A push subscription: an account that signs notifications, and the server where its keys are published."""

import base64
import json
from datetime import UTC, datetime
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from penstock.uploads.direct.ports import ObjectFacts
from penstock.uploads.direct.settings import DirectSettings
from tests.support.answering import Answering, Asked, Said

AUDIENCE = "https://penstock.test/_/gcs/callback"
EMAIL = "push@shelf.example"
ISSUER = "https://accounts.google.com"
KEYS = {f"key-{number}": rsa.generate_private_key(65537, 2048) for number in (1, 2)}


class Pusher:
    """`published` says which keys its server shows; `is_away` makes the server fail."""

    def __init__(self) -> None:
        self.published = ["key-1"]
        self.is_away = False
        self._server = Answering(self._answer)

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.__exit__()

    @property
    def fetches(self) -> int:
        return len(self._server.asked)

    def settings(self, **more: Any) -> DirectSettings:
        return DirectSettings(
            bucket_url="gs://shelf", callback_audience=AUDIENCE, callback_email=EMAIL,
            callback_jwks_url=self._server.address, **more,
        )  # fmt: skip

    def token(self, kid: str = "key-1", **changes: Any) -> str:
        """As Google makes them; None leaves a claim out."""
        now = int(datetime.now(UTC).timestamp())
        usual = {
            "aud": AUDIENCE, "azp": "117", "email": EMAIL, "email_verified": True, "exp": now + 3600, "iat": now,
            "iss": ISSUER, "sub": "117",
        }  # fmt: skip
        claims = {name: value for name, value in (usual | changes).items() if value is not None}
        return jwt.encode(claims, KEYS[kid], algorithm="RS256", headers={"kid": kid})

    def headers(self, kid: str = "key-1", **changes: Any) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token(kid, **changes)}", "Content-Type": "application/json"}

    def _answer(self, _asked: Asked) -> Said:
        if self.is_away:
            return Said(503)
        keys = [
            {**RSAAlgorithm.to_jwk(KEYS[kid].public_key(), as_dict=True), "kid": kid, "use": "sig", "alg": "RS256"}
            for kid in self.published
        ]
        return Said(200, {"keys": keys})


def notification(facts: ObjectFacts, event: str = "OBJECT_FINALIZE", **changes: Any) -> bytes:
    """What is pushed when an object is whole; None leaves a fact out."""
    md5 = base64.b64encode(bytes.fromhex(facts.md5_hex or "")).decode()
    resource = {
        "kind": "storage#object", "bucket": facts.bucket, "name": facts.name, "generation": facts.generation,
        "size": str(facts.size), "contentType": facts.content_type, "crc32c": "AAAAAA==", "etag": "CAE=",
        "md5Hash": md5, "timeCreated": "2026-11-15T10:00:00.000Z",
    }  # fmt: skip
    shown = {name: value for name, value in (resource | changes).items() if value is not None}
    message = {
        "data": base64.b64encode(json.dumps(shown).encode()).decode(), "messageId": "17", "message_id": "17",
        "attributes": {"eventType": event, "bucketId": facts.bucket, "objectId": facts.name},
    }  # fmt: skip
    return json.dumps({"subscription": "projects/p/subscriptions/s", "message": message}).encode()
