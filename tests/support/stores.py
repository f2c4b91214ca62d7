"""Object stores for tests: where one is, and what is asked of each."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.kernel.errors import PenstockError
from penstock.kernel.objectstore import ObjectStore, check_key

MIB = 1024 * 1024


@dataclass(frozen=True)
class Place:
    kind: str
    store: ObjectStore
    root: Path | None = None


def assert_code(raised: pytest.ExceptionInfo[PenstockError], code: object) -> None:
    assert raised.value.code is code


def accepted(key: str) -> bool:
    try:
        return check_key(key) == key
    except PenstockError:
        return False


async def pieces(*given: bytes, then: Exception | None = None) -> AsyncIterator[bytes]:
    for piece in given:
        yield piece
    if then is not None:
        raise then


async def keys_of(store: ObjectStore, folder: str = "") -> list[str]:
    return sorted([found.key async for found in store.list(folder)])
