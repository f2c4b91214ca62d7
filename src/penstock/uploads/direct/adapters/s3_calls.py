"""The calls to a bucket of S3's kind, by boto3: they block, and end within their time-outs.

Errors of the library are never passed on nor chained: their texts name addresses, and some addresses are secrets.
"""

import contextlib
import errno
import hashlib
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.uploads.direct.adapters.whole_files import whole_file
from penstock.uploads.direct.ports import ObjectFacts, Part
from penstock.uploads.direct.settings import DirectSettings

_PIECE = 1024 * 1024
_COPIED_AT_ONCE = 4 * 1024**3  # S3 copies up to 5 GB in one request
_ABSENT = {"404", "NoSuchKey", "NotFound", "NoSuchUpload"}
_UNMET = {"412", "PreconditionFailed"}
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def open_calls(settings: DirectSettings) -> "S3Calls":
    config = Config(
        signature_version="s3v4", connect_timeout=5, read_timeout=30,
        retries={"mode": "standard", "max_attempts": 3},
        s3={"addressing_style": "path" if settings.endpoint else "auto"},
        request_checksum_calculation="when_required", response_checksum_validation="when_required",
    )  # fmt: skip
    with _ours(settings.bucket):
        client = boto3.session.Session().client(
            "s3",
            region_name=settings.s3_region,
            endpoint_url=settings.endpoint.rstrip("/") or None,
            aws_access_key_id=settings.s3_access_key.get_secret_value() or None,
            aws_secret_access_key=settings.s3_secret_key.get_secret_value() or None,
            config=config,
        )
    return S3Calls(client, settings.bucket)


class S3Calls:
    """All about one bucket; any thread may call."""

    def __init__(self, client: Any, bucket: str) -> None:
        self._client, self._bucket = client, bucket

    def find(self, name: str) -> ObjectFacts | None:
        head = self._head(name)
        if head is None:
            return None
        return ObjectFacts(
            self._bucket, name, _generation(head), head["ContentLength"], head.get("ContentType"), None,
            etag=head["ETag"], finished_at=head["LastModified"],
        )  # fmt: skip

    def md5_of(self, found: ObjectFacts) -> str:
        digest = hashlib.md5(usedforsecurity=False)
        with _ours(found.name):
            for piece in self._bytes(found):
                digest.update(piece)
        return digest.hexdigest()

    def fetch(self, found: ObjectFacts, to: Path) -> None:
        with _ours(found.name), whole_file(to) as file:
            for piece in self._bytes(found):
                file.write(piece)

    def move_aside(self, name: str, generation: str, to: str) -> None:
        """The copy is named after the generation: made again, it is the same. The deletion is of that object only."""
        head = self._head(name)
        if head is None or _generation(head) != generation:
            return
        with _ours(name), _Unless(_ABSENT | _UNMET):
            self._client.copy(
                {"Bucket": self._bucket, "Key": name}, self._bucket, to,
                ExtraArgs={"CopySourceIfMatch": head["ETag"]},
                Config=TransferConfig(multipart_threshold=_COPIED_AT_ONCE, use_threads=False),
            )  # fmt: skip
            self._client.delete_object(Bucket=self._bucket, Key=name, IfMatch=head["ETag"])

    def begin_parts(self, name: str, content_type: str) -> str:
        """One that is there already is gone on with: whoever began it may have been killed before he could note it."""
        if known := self._begun(name):
            return known[0]
        with _ours(name):
            made = self._client.create_multipart_upload(Bucket=self._bucket, Key=name, ContentType=content_type)
        return str(made["UploadId"])

    def sign_part(self, name: str, multipart_id: str, part: tuple[int, int | None], lasts: timedelta) -> str:
        """The number of the part, and its size, which is signed too: a body of another length is refused."""
        number, size = part
        wanted = {"PartNumber": number} | ({} if size is None else {"ContentLength": size})
        with _ours(name):
            url = self._client.generate_presigned_url(
                "upload_part",
                Params=self._of(name, multipart_id) | wanted,
                ExpiresIn=int(lasts.total_seconds()),
            )
        return str(url)

    def parts(self, name: str, multipart_id: str) -> list[Part] | None:
        with _ours(name), _Unless({"NoSuchUpload", "404"}):
            pages = self._client.get_paginator("list_parts").paginate(**self._of(name, multipart_id))
            return [
                Part(part["PartNumber"], part["Size"], part["ETag"]) for page in pages for part in page.get("Parts", [])
            ]
        return None

    def complete_parts(self, name: str, multipart_id: str, parts: Sequence[Part]) -> None:
        whole = {"Parts": [{"PartNumber": part.number, "ETag": part.etag} for part in parts]}
        with _ours(name):
            try:
                self._client.complete_multipart_upload(
                    **self._of(name, multipart_id), MultipartUpload=whole, IfNoneMatch="*"
                )
            except ClientError as failure:
                if _code(failure) in _UNMET:
                    raise PenstockError(error_codes.DIRECT_OBJECT_EXISTS, object=name) from None
                raise

    def abort_parts(self, name: str, multipart_id: str) -> None:
        with _ours(name), _Unless(_ABSENT):
            self._client.abort_multipart_upload(**self._of(name, multipart_id))

    def abort_all_parts(self, name: str) -> None:
        for multipart_id in self._begun(name):
            self.abort_parts(name, multipart_id)

    def close(self) -> None:
        self._client.close()

    def _head(self, name: str) -> Any:
        with _ours(name), _Unless(_ABSENT):
            return self._client.head_object(Bucket=self._bucket, Key=name)
        return None

    def _begun(self, name: str) -> list[str]:
        """The oldest first. An object's name is no other's beginning: it ends with an MD5."""
        with _ours(name):
            found = self._client.list_multipart_uploads(Bucket=self._bucket, Prefix=name).get("Uploads", [])
        return [each["UploadId"] for each in sorted(found, key=lambda each: each["Initiated"]) if each["Key"] == name]

    def _bytes(self, found: ObjectFacts) -> Iterator[bytes]:
        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=found.name, IfMatch=_etag(found.generation))
        except ClientError as failure:
            if _code(failure) in _UNMET:
                raise PenstockError(error_codes.NOT_FOUND, object=found.name) from None
            raise
        if _generation(answer) != found.generation:
            raise PenstockError(error_codes.NOT_FOUND, object=found.name)
        yield from answer["Body"].iter_chunks(_PIECE)

    def _of(self, name: str, multipart_id: str) -> dict[str, Any]:
        return {"Bucket": self._bucket, "Key": name, "UploadId": multipart_id}


def _generation(head: Any) -> str:
    """Fit for a name."""
    return f"{int(head['LastModified'].timestamp())}-{head['ETag'].strip(chr(34))}"


def _etag(generation: str) -> str:
    return f'"{generation.partition("-")[2]}"'


def _code(failure: ClientError) -> str:
    return str(failure.response.get("Error", {}).get("Code", ""))


class _Unless:
    """These refusals only say that there is nothing to do."""

    def __init__(self, codes: set[str]) -> None:
        self._codes = codes

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, failure: BaseException | None, __: object) -> bool:
        return isinstance(failure, ClientError) and _code(failure) in self._codes


@contextlib.contextmanager
def _ours(name: str) -> Iterator[None]:
    try:
        yield
    except ClientError as failure:
        if _code(failure) in _ABSENT:
            raise PenstockError(error_codes.NOT_FOUND, object=name) from None
        reason = f"the bucket answered {_code(failure)[:60]}"
        raise PenstockError(error_codes.STORE_UNAVAILABLE, object=name, reason=reason) from None
    except (BotoCoreError, HTTPClientError) as failure:
        reason = type(failure).__name__
        raise PenstockError(error_codes.STORE_UNAVAILABLE, object=name, reason=reason) from None
    except OSError as failure:
        if failure.errno in _FULL:
            raise PenstockError(error_codes.DISK_FULL, object=name) from None
        raise PenstockError(error_codes.STORE_UNAVAILABLE, object=name, reason=failure.strerror) from None
