"""The two keys of the embedded bucket: one signs addresses and asks for tokens, the other signs notifications.

Both are made once, in files that only their owner can read. `service-account.json` is as Google gives it out, so the
official libraries take it as it is; it says where tokens are had, and is written anew when that has moved.
"""

import base64
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from penstock.embedded.failure import EmbeddedFailure, cannot_use

ACCOUNT_FILE = "service-account.json"
_PUSH_FILE = "push-key.pem"
_PROJECT = "penstock"
SIGNER = "uploads@penstock.iam.gserviceaccount.com"
PUSHER = "notifications@penstock.iam.gserviceaccount.com"


@dataclass(frozen=True, slots=True)
class Keys:
    """Of one bucket."""

    signer: rsa.RSAPrivateKey
    pusher: rsa.RSAPrivateKey

    @property
    def push_key_id(self) -> str:
        return _key_id(self.pusher)

    def published(self) -> dict[str, Any]:
        """The JWKS that those who are told check tokens with."""
        numbers = self.pusher.public_key().public_numbers()
        fields = {"n": _number(numbers.n), "e": _number(numbers.e)}
        return {"keys": [{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": self.push_key_id, **fields}]}


def prepare_keys(directory: Path, address: str) -> Keys:
    """Made at the first call; `address` is where this bucket answers."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        account = _account(directory / ACCOUNT_FILE, f"{address}/token")
        pusher = directory / _PUSH_FILE
        if not pusher.exists():
            _write(pusher, _new_pem())
        return Keys(_loaded(account["private_key"].encode()), _loaded(pusher.read_bytes()))
    except OSError as failure:
        raise cannot_use(directory, failure) from failure
    except (ValueError, KeyError, TypeError) as wrong:
        raise EmbeddedFailure(
            f"{directory} holds a key that cannot be read: remove {ACCOUNT_FILE} and {_PUSH_FILE} there."
            " New ones are made then.",
            f"{directory} 中的密钥无法读取：请删除其中的 {ACCOUNT_FILE} 与 {_PUSH_FILE} 以重新生成。",
        ) from wrong


def _account(path: Path, token_uri: str) -> dict[str, Any]:
    known: dict[str, Any] = json.loads(path.read_bytes()) if path.exists() else {}
    pem = known.get("private_key") or _new_pem().decode()
    wanted = {
        "type": "service_account",
        "project_id": _PROJECT,
        "private_key_id": _key_id(_loaded(pem.encode())),
        "private_key": pem,
        "client_email": SIGNER,
        "client_id": "1",
        "token_uri": token_uri,
    }
    if known != wanted:
        _write(path, json.dumps(wanted, indent=2).encode())
    path.chmod(0o600)
    return wanted


def _new_pem() -> bytes:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _loaded(pem: bytes) -> rsa.RSAPrivateKey:
    key = serialization.load_pem_private_key(pem, None)
    if not isinstance(key, rsa.RSAPrivateKey):
        raise TypeError("not an RSA key")
    return key


def _key_id(key: rsa.RSAPrivateKey) -> str:
    plain = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )  # fmt: skip
    return hashlib.sha256(plain).hexdigest()[:40]


def _number(value: int) -> str:
    plain = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(plain).rstrip(b"=").decode()


def _write(path: Path, content: bytes) -> None:
    draft = path.with_name(f"{path.name}.new.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as target:
        target.write(content)
        target.flush()
        os.fsync(descriptor)
    draft.replace(path)
