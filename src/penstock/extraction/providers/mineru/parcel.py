"""What a service sends back: a zip, or JSON with everything inside. A stranger's, so nothing is unpacked to disk.

A zip is refused whole when a name leads out of it, when a member is no plain file, or when it is larger than the
limits, before anything is read; its directory is measured before it is loaded. Members are read one at a time, each
no further than its announced size. OCR_ANSWER_INVALID says which rule was broken; ZipDamaged, that it is torn.
"""

import base64
import binascii
import stat
import zipfile
import zlib
from collections import defaultdict
from pathlib import Path, PurePosixPath
from typing import Protocol

import msgspec

from penstock.extraction.providers.mineru.refusals import ZipDamaged, not_understood
from penstock.extraction.providers.mineru.settings import MineruSettings
from penstock.kernel.errors import PenstockError

_MIB = 1024 * 1024
_TORN = (  # OSError: a member that begins before the file does
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError,
)  # fmt: skip
_MOST_RATIO = 200  # text packs to a tenth at best, pictures hardly at all
_SMALL = 4 * _MIB  # below this no ratio is worth refusing
_DIRECTORY = 16 * _MIB
_END, _END_SIZE, _LONGEST_COMMENT = b"PK\x05\x06", 22, 65_535
_LOCATOR, _LOCATOR_SIZE = b"PK\x06\x07", 20
_MARKDOWN = ("full.md", "markdown.md", ".md")
_CONTENT_LIST = ("content_list.json",)
_MIDDLE = ("layout.json", "middle_json.json", "_middle.json", "middle.json")


class Parcel(Protocol):
    """The parts of a result, by what they are. Absent ones are None."""

    def markdown(self) -> bytes | None: ...

    def content_list(self) -> bytes | None: ...

    def middle(self) -> bytes | None: ...

    def image(self, name: str) -> bytes | None: ...

    def close(self) -> None: ...


def open_parcel(path: Path, settings: MineruSettings) -> Parcel:
    with path.open("rb") as file:
        start = file.read(4)
    if start[:2] == b"PK":
        return ZipParcel(path, settings)
    if start[:1] == b"{":
        return JsonParcel(path, settings)
    raise ZipDamaged


class ZipParcel:
    def __init__(self, path: Path, settings: MineruSettings) -> None:
        self._largest = settings.max_member_mb * _MIB
        _check_directory(path)
        try:
            self._archive = zipfile.ZipFile(path)
        except _TORN:
            raise ZipDamaged from None
        members = self._archive.infolist()
        try:
            _check_members(members, settings)
        except PenstockError:
            self.close()
            raise
        files = [member for member in members if not member.is_dir()]
        self._names = sorted((member.filename for member in files), key=lambda name: (name.count("/"), name))
        self._by_last: dict[str, list[str]] = defaultdict(list)
        for name in self._names:
            self._by_last[PurePosixPath(name).name].append(name)

    def close(self) -> None:
        self._archive.close()

    def markdown(self) -> bytes | None:
        return self._first_that_ends(_MARKDOWN)

    def content_list(self) -> bytes | None:
        return self._first_that_ends(_CONTENT_LIST)

    def middle(self) -> bytes | None:
        return self._first_that_ends(_MIDDLE)

    def image(self, name: str) -> bytes | None:
        """By the end of the path: archives put results into folders of their own."""
        candidates = self._by_last.get(PurePosixPath(name).name)
        if not candidates:
            return None
        return self._read(next((held for held in candidates if f"/{held}".endswith(f"/{name}")), candidates[0]))

    def _first_that_ends(self, endings: tuple[str, ...]) -> bytes | None:
        for ending in endings:
            for name in self._names:
                if name.endswith(ending):
                    return self._read(name)
        return None

    def _read(self, name: str) -> bytes:
        try:
            with self._archive.open(name) as member:
                data = member.read(self._largest + 1)
        except _TORN:
            raise ZipDamaged from None
        if len(data) > self._largest:
            raise not_understood("ZIP_MEMBER_TOO_LARGE")
        return data


class _Result(msgspec.Struct):
    md_content: str | None = None
    middle_json: str | None = None
    content_list: str | None = None
    images: dict[str, str] = {}


class _Results(msgspec.Struct):
    results: dict[str, _Result]


class JsonParcel:
    """How servers answer that know no zip: one object, pictures as data URIs."""

    def __init__(self, path: Path, settings: MineruSettings) -> None:
        if path.stat().st_size > settings.max_member_mb * _MIB:
            raise not_understood("RESULT_TOO_LARGE", limit_mb=settings.max_member_mb)
        try:
            results = msgspec.json.decode(path.read_bytes(), type=_Results).results
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise not_understood("RESULT_MALFORMED") from None
        if len(results) != 1:
            raise not_understood("RESULT_COUNT", count=len(results))
        self._result = next(iter(results.values()))

    def close(self) -> None: ...

    def markdown(self) -> bytes | None:
        return _encoded(self._result.md_content)

    def content_list(self) -> bytes | None:
        return _encoded(self._result.content_list)

    def middle(self) -> bytes | None:
        return _encoded(self._result.middle_json)

    def image(self, name: str) -> bytes | None:
        found = self._result.images.get(name) or self._result.images.get(PurePosixPath(name).name)
        if found is None:
            return None
        try:
            return base64.b64decode(found.partition(",")[2], validate=True)
        except (binascii.Error, ValueError):
            return None


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "replace")


def _check_directory(path: Path) -> None:
    """Loading a directory makes an object of every entry: look at how large it says it is first."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - _END_SIZE - _LONGEST_COMMENT - _LOCATOR_SIZE))
        tail = file.read()
    at = tail.rfind(_END)
    if at < 0 or at + _END_SIZE > len(tail):
        raise ZipDamaged
    directory = int.from_bytes(tail[at + 12 : at + 16], "little")
    has_large_form = at >= _LOCATOR_SIZE and tail[at - _LOCATOR_SIZE :].startswith(_LOCATOR)
    if directory > _DIRECTORY or has_large_form:
        raise not_understood("ZIP_DIRECTORY_TOO_LARGE")


def _check_members(members: list[zipfile.ZipInfo], settings: MineruSettings) -> None:
    if len(members) > settings.max_members:
        raise not_understood("ZIP_TOO_MANY_MEMBERS", limit=settings.max_members)
    if sum(member.file_size for member in members) > settings.max_unpacked_mb * _MIB:
        raise not_understood("ZIP_TOO_LARGE", limit_mb=settings.max_unpacked_mb)
    for member in members:
        if not _is_inside(member.orig_filename):
            raise not_understood("ZIP_NAME_OUTSIDE")
        kind = stat.S_IFMT(member.external_attr >> 16)
        if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
            raise not_understood("ZIP_MEMBER_NOT_A_FILE")
        if member.flag_bits & 1:
            raise not_understood("ZIP_ENCRYPTED")
        if member.file_size > settings.max_member_mb * _MIB:
            raise not_understood("ZIP_MEMBER_TOO_LARGE", limit_mb=settings.max_member_mb)
        if member.file_size > _SMALL and member.file_size > _MOST_RATIO * member.compress_size:
            raise not_understood("ZIP_RATIO")


def _is_inside(name: str) -> bool:
    if not name or "\\" in name or "\x00" in name or name.startswith("/") or ":" in name.split("/", maxsplit=1)[0]:
        return False
    return ".." not in name.split("/")
