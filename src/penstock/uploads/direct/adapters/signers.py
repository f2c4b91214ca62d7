"""Who signs the addresses that phones get: a key of ours, or Google's IAM in the name of an account.

Signing blocks (a key takes a third of a millisecond of one core, IAM a call over the network) and is done in threads.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, Protocol
from urllib.parse import urlsplit

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.settings import SettingsError
from penstock.uploads.direct.settings import DirectSettings

TIMEOUT = (5, 15)  # to connect, to read; seconds
REFRESH_SECONDS = 15
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_FILE = "DIRECT_SERVICE_ACCOUNT_FILE"


class Signer(Protocol):
    """RSA over SHA-256, as PKCS#1 has it."""

    email: str
    threads: int  # more at once are no faster
    in_a_row: int  # by one thread without looking up: to go there and back costs a good part of a signature

    def sign(self, message: bytes) -> bytes: ...

    def credentials(self) -> Any:
        """What the bucket's own calls are made with, for google-auth."""


class KeySigner:
    """A service account's key file; the embedded bucket writes one of the same shape."""

    threads = 2  # the lock of the interpreter is free while the key works
    in_a_row = 16

    def __init__(self, path: Path) -> None:
        self._account = _read(path)
        self.email: str = self._account["client_email"]
        self._key = _key(path, self._account)
        self._padding, self._hash = padding.PKCS1v15(), hashes.SHA256()

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message, self._padding, self._hash)

    def credentials(self) -> Any:
        from google.oauth2 import service_account

        class OfAnother(service_account.Credentials):
            """Of a bucket that is not Google's: Google is not asked where it may be used, nor shown its tokens."""

            def _is_regional_access_boundary_lookup_required(self) -> bool:
                return False

        kind = service_account.Credentials if _is_googles(self._account["token_uri"]) else OfAnother
        return kind.from_service_account_info(self._account, scopes=[SCOPE])


class IamSigner:
    """No key anywhere: who we are comes from where we run, and IAM signs if we may ask it to."""

    threads = 16  # each waits for an answer
    in_a_row = 1

    def __init__(self, email: str, endpoint: str) -> None:
        self.email = email
        self._address = f"{endpoint.rstrip('/')}/v1/projects/-/serviceAccounts/{email}:signBlob"
        self._building = Lock()

    def sign(self, message: bytes) -> bytes:
        """The caller sees to errors of the libraries underneath."""
        session = self._ready()
        payload = {"payload": base64.b64encode(message).decode()}
        answer = session.post(self._address, json=payload, timeout=TIMEOUT)
        if answer.status_code != 200:
            raise PenstockError(
                error_codes.STORE_UNAVAILABLE, reason=f"IAM answered {answer.status_code} when asked to sign"
            )
        try:
            return base64.b64decode(answer.json()["signedBlob"], validate=True)
        except (ValueError, KeyError, TypeError, binascii.Error):
            raise PenstockError(error_codes.STORE_UNAVAILABLE, reason="IAM's answer has no signature") from None

    def credentials(self) -> Any:
        return self._ready().credentials

    def _ready(self) -> Any:
        with self._building:  # once, also when sixteen begin together
            return self._session

    @cached_property
    def _session(self) -> Any:
        import google.auth
        from google.auth.transport.requests import AuthorizedSession

        found, _ = google.auth.default(scopes=[SCOPE])
        return AuthorizedSession(found, refresh_timeout=REFRESH_SECONDS)


def signer_for(settings: DirectSettings) -> Signer:
    if settings.service_account_file is not None:
        return KeySigner(settings.service_account_file)
    email = settings.signer_service_account
    if not email:
        raise SettingsError(
            f"gs:// needs somebody who signs: set {_FILE}, or DIRECT_SIGNER_SERVICE_ACCOUNT where IAM is to do it"
        )
    if "@" not in email or not email.isascii() or any(c in "/:?# " or not c.isprintable() for c in email):
        raise SettingsError("DIRECT_SIGNER_SERVICE_ACCOUNT is not the e-mail address of an account")
    return IamSigner(email, settings.iam_endpoint)


def _is_googles(address: str) -> bool:
    host = urlsplit(address).hostname or ""
    return host == "googleapis.com" or host.endswith(".googleapis.com")


def _read(path: Path) -> Mapping[str, Any]:
    try:
        account = json.loads(path.read_bytes())
    except OSError as wrong:
        raise SettingsError(f"{_FILE}: {path} cannot be read: {wrong.strerror}") from None
    except ValueError:
        raise SettingsError(f"{_FILE}: {path} is not JSON") from None
    wanted = ("client_email", "private_key", "token_uri")
    if not isinstance(account, dict) or not all(isinstance(account.get(name), str) for name in wanted):
        raise SettingsError(f"{_FILE}: {path} is not the key file of a service account ({', '.join(wanted)})")
    return account


def _key(path: Path, account: Mapping[str, Any]) -> rsa.RSAPrivateKey:
    try:
        key = serialization.load_pem_private_key(account["private_key"].encode(), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, rsa.RSAPrivateKey):
        raise SettingsError(f"{_FILE}: the private key in {path} is not an RSA key in PEM")
    return key
