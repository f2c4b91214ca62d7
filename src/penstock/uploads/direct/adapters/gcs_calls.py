"""The calls to a bucket of Google's kind, by its client library: they block, and end within their time-outs.

Errors of the library are never passed on nor chained: their texts name addresses, and some addresses are secrets.
"""

import contextlib
import errno
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import requests
from google.api_core.exceptions import GoogleAPICallError, GoogleAPIError, NotFound, PreconditionFailed
from google.auth.credentials import Signing
from google.auth.exceptions import GoogleAuthError
from google.auth.transport.requests import AuthorizedSession
from google.cloud import storage
from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
from google.cloud.storage.retry import DEFAULT_RETRY

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.uploads.direct.adapters.signers import REFRESH_SECONDS, TIMEOUT, Signer
from penstock.uploads.direct.adapters.whole_files import whole_file
from penstock.uploads.direct.ports import ObjectFacts, md5_hex

# Otherwise the library asks for the bucket's metadata behind our back, for traces that nobody reads.
os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")

_RETRY = DEFAULT_RETRY.with_timeout(20)
_LIMITS: dict[str, Any] = {"timeout": TIMEOUT, "retry": _RETRY}
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def open_calls(bucket: str, endpoint: str, signer: Signer) -> "GcsCalls":
    with _ours(bucket):
        session = AuthorizedSession(signer.credentials(), refresh_timeout=REFRESH_SECONDS)
        client = storage.Client(
            project=None,
            credentials=session.credentials,
            client_options={"api_endpoint": endpoint} if endpoint else None,
            _http=session,
        )
        return GcsCalls(client, client.bucket(bucket), _AsSigning(signer))


class GcsCalls:
    """All about one bucket; any thread may call."""

    def __init__(self, client: storage.Client, bucket: Any, signing: Signing) -> None:
        self._client, self._bucket, self._signing = client, bucket, signing

    def sign_start(self, name: str, content_type: str, most_bytes: int, lasts: timedelta) -> tuple[str, dict[str, str]]:
        headers = {  # a new one each time: the library adds to it
            "x-goog-if-generation-match": "0",
            "content-type": content_type,
            "x-upload-content-type": content_type,
            "x-goog-content-length-range": f"0,{most_bytes}",  # from 0: the request that begins has no body
        }
        with _ours(name):
            url = self._bucket.blob(name).generate_signed_url(
                version="v4", method="RESUMABLE", expiration=lasts, headers=headers, credentials=self._signing
            )
        return url, {key: value for key, value in headers.items() if key != "Host"}

    def find(self, name: str) -> ObjectFacts | None:
        with _ours(name):
            found = self._bucket.get_blob(name, **_LIMITS)
        if found is None:
            return None
        return ObjectFacts(
            self._bucket.name, name, str(found.generation), found.size, found.content_type, md5_hex(found.md5_hash),
            found.crc32c, found.etag, found.time_created,
        )  # fmt: skip

    def fetch(self, name: str, generation: int, to: Path) -> None:
        """As they are stored: a content encoding is not undone, for the MD5 is of what is stored."""
        with _ours(name), whole_file(to) as file:
            blob = self._bucket.blob(name, generation=generation)
            blob.download_to_file(file, raw_download=True, checksum="auto", **_LIMITS)

    def move_aside(self, name: str, generation: int, to: str) -> None:
        with _ours(name), contextlib.suppress(NotFound):  # gone: moved before, or deleted by somebody
            with contextlib.suppress(PreconditionFailed):  # copied before: only the deletion is left
                self._copy(self._bucket.blob(name, generation=generation), self._bucket.blob(to))
            with contextlib.suppress(PreconditionFailed):  # another one has the name by now: not ours to delete
                self._bucket.blob(name).delete(if_generation_match=generation, **_LIMITS)

    def close(self) -> None:
        self._client.close()

    @staticmethod
    def _copy(source: Any, target: Any) -> None:
        """Of that generation, and only onto nothing; a large object takes several calls."""
        token, _, _ = target.rewrite(source, if_generation_match=0, **_LIMITS)
        while token is not None:
            token, _, _ = target.rewrite(source, token=token, if_generation_match=0, **_LIMITS)


class _AsSigning(Signing):
    """A signer of ours, as the library wants to see it."""

    def __init__(self, signer: Signer) -> None:
        self._ours = signer

    def sign_bytes(self, message: bytes) -> bytes:
        return self._ours.sign(message)

    @property
    def signer_email(self) -> str:
        return self._ours.email

    @property
    def signer(self) -> Any:
        return self


@contextlib.contextmanager
def _ours(name: str) -> Iterator[None]:
    try:
        yield
    except NotFound:
        raise PenstockError(error_codes.NOT_FOUND, object=name) from None
    except GoogleAPICallError as failure:
        reason = f"the bucket answered {failure.code}"
        raise PenstockError(error_codes.STORE_UNAVAILABLE, object=name, reason=reason) from None
    except (GoogleAPIError, GoogleAuthError, InvalidResponse, DataCorruption) as failure:
        raise _away(name, failure) from None
    except requests.RequestException as failure:  # is an OSError: before those
        raise _away(name, failure) from None
    except OSError as failure:
        if failure.errno in _FULL:
            raise PenstockError(error_codes.DISK_FULL, object=name) from None
        raise PenstockError(error_codes.STORE_UNAVAILABLE, object=name, reason=failure.strerror) from None


def _away(name: str, failure: Exception) -> PenstockError:
    return PenstockError(error_codes.STORE_UNAVAILABLE, object=name, reason=type(failure).__name__)
