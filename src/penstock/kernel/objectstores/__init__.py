"""The object store's adapters, chosen by address."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from penstock.kernel.objectstore import ObjectStore
from penstock.kernel.objectstores.cloud import CloudStore
from penstock.kernel.objectstores.local import LocalStore

__all__ = ["CloudStore", "LocalStore", "StoreUrlInvalid", "open_store"]


class StoreUrlInvalid(ValueError):
    """The address names no store; the message is a sentence."""


def open_store(url: str, options: Mapping[str, Any] | None = None) -> ObjectStore:
    """`file:///dir`, `s3://bucket/prefix` or `gs://bucket/prefix`.

    Credentials and endpoints come from the cloud's own environment variables (AWS_…, GOOGLE_…); `options`
    overrides them. A local directory is made if it is missing; OSError says why it cannot be.
    """
    parts = urlsplit(url)
    if parts.query or parts.fragment or parts.username or parts.password:
        raise StoreUrlInvalid("an object store address has no user, query or fragment; use the cloud's own variables")
    if parts.scheme == "file":
        if parts.netloc not in {"", "localhost"} or not parts.path.startswith("/"):
            raise StoreUrlInvalid(f"{url} should be file:///absolute/directory")
        return LocalStore(unquote(parts.path))
    if parts.scheme in {"s3", "gs"}:
        if not parts.netloc:
            raise StoreUrlInvalid(f"{url} names no bucket: {parts.scheme}://bucket/prefix")
        return CloudStore(url.rstrip("/"), options or {})
    raise StoreUrlInvalid(f"{url} should start with file://, s3:// or gs://")
