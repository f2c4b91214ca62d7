"""One suite over every adapter of the object store.

`gs` runs obstore's Google client against a stand-in (see tests/support/s3.py); signing is not run there.
"""

import asyncio
import errno
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support import s3

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.objectstore import ObjectStore, check_key
from penstock.kernel.objectstores import StoreUrlInvalid, open_store

MIB = 1024 * 1024


@dataclass(frozen=True)
class Place:
    kind: str
    store: ObjectStore
    root: Path | None = None


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3.s3_server() as address:
        yield address


@pytest.fixture
def local(tmp_path: Path) -> Place:
    return Place("file", open_store(f"file://{tmp_path}/store"), tmp_path / "store")


@pytest.fixture(params=["file", "s3", "gs"])
def place(request: pytest.FixtureRequest) -> Place:
    """A store that is empty, of each kind."""
    if request.param == "file":
        made: Place = request.getfixturevalue("local")
        return made
    address = request.getfixturevalue("endpoint")
    options = s3.s3_options(address) if request.param == "s3" else s3.gs_options(address)
    return Place(request.param, open_store(f"{request.param}://{s3.BUCKET}/{uuid4().hex}", options))


@pytest.fixture
def store(place: Place) -> ObjectStore:
    return place.store


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


class TestSeveralAtOnce:
    async def test_all_are_there_whether_their_folders_were_or_not(self, store):
        await store.put("a/old", b"before")
        await store.put_all({"a/old": b"1", "a/b/c/new": b"", "d": b"333"})
        assert [await store.get(key) for key in ("a/old", "a/b/c/new", "d")] == [b"1", b"", b"333"]

    async def test_each_of_many_is_there_afterwards(self, store):
        await store.put_all({f"{'ab'[n % 2]}/{n}": bytes([n]) for n in range(40)})
        assert [await store.get(f"{'ab'[n % 2]}/{n}") for n in (0, 7, 39)] == [b"\0", b"\7", bytes([39])]
        assert len(await keys_of(store)) == 40

    async def test_none_are_no_work(self, store):
        await store.put_all({})
        assert await keys_of(store) == []

    async def test_a_bad_key_is_refused_before_anything_is_written(self, local):
        with pytest.raises(PenstockError) as raised:
            await local.store.put_all({"good": b"1", "../bad": b"2"})
        assert_code(raised, error_codes.REQUEST_INVALID)
        assert [path for path in local.root.rglob("*") if path.is_file()] == []


class TestPeeking:
    @pytest.mark.parametrize(("body", "told"), [(b"0123456789", (10, b"0123")), (b"01", (2, b"01")), (b"", (0, b""))])
    async def test_size_and_first_bytes(self, store, body, told):
        await store.put("a/b", body)
        assert await store.peek("a/b", 4) == told

    @pytest.mark.parametrize("key", ["none", "a", "a/b/c"])
    async def test_what_is_no_object_is_not_found(self, store, key):
        await store.put("a/b", b"x")
        with pytest.raises(PenstockError) as raised:
            await store.peek(key, 4)
        assert_code(raised, error_codes.NOT_FOUND)


class TestPutting:
    async def test_what_was_put_is_read_back(self, store):
        await store.put("a/b", b"first")
        await store.put("a/b", b"second")
        assert await store.get("a/b") == b"second"

    async def test_an_empty_object_exists(self, store):
        await store.put("empty", b"")
        assert await store.get("empty") == b""
        assert (await store.head("empty")).size == 0

    async def test_a_stream_of_many_pieces_is_one_object(self, store):
        body = [os.urandom(700_000) for _ in range(30)]
        await store.put("large", pieces(*body))
        assert await store.get("large") == b"".join(body)
        assert b"".join([piece async for piece in store.stream("large")]) == b"".join(body)

    async def test_a_file_can_be_put(self, store, tmp_path):
        path = tmp_path / "source"
        path.write_bytes(b"x" * (2 * MIB + 1))
        await store.put("from-file", path)
        assert (await store.head("from-file")).size == 2 * MIB + 1

    async def test_a_body_that_fails_leaves_the_old_object_and_no_leftover(self, place, request):
        await place.store.put("key", b"old")
        with pytest.raises(ConnectionError, match="client went away"):
            await place.store.put("key", pieces(b"n" * 10 * MIB, then=ConnectionError("client went away")))
        assert await place.store.get("key") == b"old"
        if place.root is not None:
            assert list((place.root / ".tmp").iterdir()) == []
        else:
            uploads = s3.client(request.getfixturevalue("endpoint")).list_multipart_uploads(Bucket=s3.BUCKET)
            assert uploads.get("Uploads", []) == []

    async def test_readers_never_see_a_half_object(self, store):
        one, two = b"1" * 3 * MIB, b"2" * 3 * MIB
        await store.put("key", one)

        async def write() -> None:
            for _ in range(5):
                await store.put("key", pieces(two[:MIB], two[MIB:]))
                await store.put("key", one)

        writer = asyncio.create_task(write())
        while not writer.done():
            assert await store.get("key") in (one, two)
        await writer

    async def test_of_racing_first_writers_one_wins_and_its_bytes_stay(self, store):
        won = await asyncio.gather(*(store.put_if_absent("once", f"{n}".encode()) for n in range(8)))
        assert won.count(True) == 1
        assert await store.get("once") == f"{won.index(True)}".encode()


class TestFiles:
    """Files that go in without being read, and come out as files."""

    async def test_a_file_that_nobody_changes_any_more_is_put(self, store, tmp_path):
        source = tmp_path / "given"
        source.write_bytes(b"x" * 3 * MIB)
        for _ in range(2):  # replacing it by itself is as good
            await store.put_file("jobs/1/source.pdf", source)
        source.unlink()
        assert (await store.head("jobs/1/source.pdf")).size == 3 * MIB
        assert await keys_of(store) == ["jobs/1/source.pdf"]

    async def test_it_replaces_what_was_there(self, store, tmp_path):
        await store.put("a", b"old")
        (tmp_path / "given").write_bytes(b"new")
        await store.put_file("a", tmp_path / "given")
        assert await store.get("a") == b"new"

    async def test_a_local_store_shares_the_file_where_it_can(self, local, tmp_path):
        source = tmp_path / "given"
        source.write_bytes(b"shared")
        await local.store.put_file("a", source)
        assert (local.root / "a").stat().st_ino == source.stat().st_ino
        assert list((local.root / ".tmp").iterdir()) == []

    @pytest.mark.parametrize("why", [errno.EXDEV, errno.EPERM, errno.EMLINK])
    async def test_and_copies_it_where_it_cannot(self, local, tmp_path, monkeypatch, why):
        def refuse(*_: object, **__: object) -> None:
            raise OSError(why, os.strerror(why))

        source = tmp_path / "given"
        source.write_bytes(b"copied")
        monkeypatch.setattr(os, "link", refuse)
        await local.store.put_file("a", source)
        assert (local.root / "a").stat().st_ino != source.stat().st_ino
        assert await local.store.get("a") == b"copied"

    async def test_a_link_is_followed_and_not_shared(self, local, tmp_path):
        (tmp_path / "given").write_bytes(b"behind the link")
        (tmp_path / "link").symlink_to(tmp_path / "given")
        await local.store.put_file("a", tmp_path / "link")
        assert not (local.root / "a").is_symlink()
        assert await local.store.get("a") == b"behind the link"

    async def test_a_file_that_is_not_there_leaves_nothing(self, store, tmp_path):
        with pytest.raises((PenstockError, FileNotFoundError)):
            await store.put_file("a", tmp_path / "missing")
        assert await keys_of(store) == []

    async def test_an_object_can_be_had_as_a_file(self, store):
        await store.put("a/b", b"y" * MIB)
        async with store.on_disk("a/b") as path:
            assert path.read_bytes() == b"y" * MIB
        assert (await store.head("a/b")).size == MIB

    async def test_a_copy_is_made_where_it_is_wanted_and_not_left_there(self, place, tmp_path):
        await place.store.put("a/b", b"y")
        async with place.store.on_disk("a/b", tmp_path / "some" / "cache") as path:
            assert path.read_bytes() == b"y"
            assert place.kind == "file" or path.parent == tmp_path / "some" / "cache"
        assert path.exists() == (place.kind == "file")

    async def test_one_that_is_not_there_is_not_found(self, store):
        with pytest.raises(PenstockError) as raised:
            async with store.on_disk("a/b"):
                pass
        assert_code(raised, error_codes.NOT_FOUND)

    async def test_only_a_disk_has_an_end(self, place):
        free = await place.store.free_bytes()
        assert (free is not None and free > 0) if place.kind == "file" else free is None


class TestContent:
    async def test_content_is_named_by_its_sha256(self, store, tmp_path):
        body = os.urandom(3 * MIB)
        name = hashlib.sha256(body).hexdigest()
        path = tmp_path / "body"
        path.write_bytes(body)
        refs = [await store.put_content(given) for given in (body, path, pieces(body[:100], body[100:]))]
        assert {(ref.sha256, ref.size, ref.key) for ref in refs} == {
            (name, len(body), f"sha256/{name[:2]}/{name[2:4]}/{name}")
        }
        assert await store.get(refs[0].key) == body

    async def test_the_same_content_twice_is_one_object_written_once(self, store):
        first = await store.put_content(b"same")
        before = await store.head(first.key)
        assert await store.put_content(pieces(b"sa", b"me")) == first
        assert await store.head(first.key) == before
        assert await keys_of(store) == [first.key]

    async def test_content_of_a_stream_that_fails_is_not_stored(self, store):
        with pytest.raises(RuntimeError, match="broken"):
            await store.put_content(pieces(b"half", then=RuntimeError("broken")))
        assert await keys_of(store) == []


class TestReading:
    async def test_a_range_is_what_exists_of_it(self, store):
        await store.put("digits", b"0123456789")
        assert await store.get_range("digits", 2, 3) == b"234"
        assert await store.get_range("digits", 8, 100) == b"89"
        assert await store.get_range("digits", 10, 5) == b""
        assert await store.get_range("digits", 3, 0) == b""
        with pytest.raises(PenstockError) as raised:
            await store.get_range("digits", -1, 5)
        assert_code(raised, error_codes.REQUEST_INVALID)

    async def test_head_tells_size_etag_and_time(self, store):
        await store.put("thing", b"12345")
        info = await store.head("thing")
        assert (info.key, info.size) == ("thing", 5)
        assert info.etag
        assert abs(datetime.now(UTC) - info.modified) < timedelta(minutes=1)

    async def test_what_is_not_there_is_not_found(self, store):
        await store.put("folder/object", b"")
        for key in ("nothing", "folder", "folder/object/below"):
            for ask in (store.get(key), store.head(key), store.get_range(key, 0, 1), anext(store.stream(key))):
                with pytest.raises(PenstockError) as raised:
                    await ask
                assert_code(raised, error_codes.NOT_FOUND)

    async def test_a_list_has_everything_below_a_folder_and_nothing_beside_it(self, store):
        wanted = [f"list/{n % 3}/{n}" for n in range(30)]
        for key in [*wanted, "lists", "lis/t"]:
            await store.put(key, b"x")
        assert await keys_of(store, "list") == await keys_of(store, "list/") == sorted(wanted)
        assert await keys_of(store) == sorted([*wanted, "lists", "lis/t"])
        assert await keys_of(store, "none") == []

    async def test_a_list_goes_beyond_one_page(self, local):
        folder = local.root / "many"
        folder.mkdir()
        for n in range(1_100):
            (folder / str(n)).touch()
        assert len(await keys_of(local.store, "many")) == 1_100

    async def test_a_deleted_object_is_gone_and_deleting_again_is_fine(self, store):
        await store.put("a/b", b"x")
        await store.delete("a/b")
        await store.delete("a/b")
        await store.delete("a")
        await store.delete("a/b/c")
        assert await keys_of(store) == []


class TestKeys:
    REFUSED = (
        "", "/absolute", "end/", "a//b", "..", "a/../b", "a/./b", ".tmp/x", "a/.hidden", "a\x00b", "a\nb",
        "a\\b", "a%2e", "a#1", "a:b", " a", "a /b", "x" * 241, "/".join(["y" * 100] * 9), "é" * 121,
    )  # fmt: skip

    @pytest.mark.parametrize("key", REFUSED)
    async def test_a_key_no_store_should_hold_is_refused_by_every_method(self, local, key):
        store = local.store
        every = (
            lambda: store.put(key, b""),
            lambda: store.put_if_absent(key, b""),
            lambda: store.get(key),
            lambda: store.get_range(key, 0, 1),
            lambda: store.head(key),
            lambda: store.delete(key),
            lambda: anext(store.stream(key)),
            lambda: store.signed_url(key, lasts=timedelta(minutes=1)),
        )
        for ask in every:
            with pytest.raises(PenstockError) as raised:
                await ask()
            assert_code(raised, error_codes.REQUEST_INVALID)
            assert raised.value.details["reason"]

    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(key=st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=30).filter(accepted))
    async def test_any_key_that_is_not_refused_comes_back_as_it_was(self, store, key):
        await store.put(f"walk/{key}", b"x")
        assert await keys_of(store) == [f"walk/{key}"]
        await store.delete(f"walk/{key}")

    async def test_a_local_key_below_an_object_is_refused(self, local):
        await local.store.put("object", b"")
        with pytest.raises(PenstockError) as raised:
            await local.store.put("object/below", b"")
        assert_code(raised, error_codes.REQUEST_INVALID)


class TestSigning:
    async def test_a_signed_address_reads_and_writes_without_credentials(self, endpoint):
        store = open_store(f"s3://{s3.BUCKET}/signing", s3.s3_options(endpoint))
        await store.put("signed", b"content")
        lasts = timedelta(minutes=5)
        async with httpx.AsyncClient(trust_env=False) as client:
            read = await client.get(await store.signed_url("signed", lasts=lasts))
            assert read.content == b"content"
            address = await store.signed_url("written", method="PUT", lasts=lasts)
            assert (await client.put(address, content=b"direct")).status_code == 200
        assert await store.get("written") == b"direct"

    async def test_a_local_store_refuses_to_sign(self, local):
        with pytest.raises(PenstockError) as raised:
            await local.store.signed_url("key", lasts=timedelta(minutes=5))
        assert_code(raised, error_codes.STORE_CANNOT_SIGN)


_WRITER = """
import asyncio, sys
from penstock.kernel.objectstores import open_store

async def endless():
    while True:
        yield b"x" * 1_000_000
        await asyncio.sleep(0.005)

store = open_store(sys.argv[1])
asyncio.run(store.put("victim", endless()) if sys.argv[2] == "put" else store.put_content(endless()))
"""


class TestTrouble:
    @pytest.mark.parametrize("how", ["put", "put_content"])
    async def test_a_writer_killed_in_the_middle_leaves_nothing_visible(self, tmp_path, how, child_environment):
        root = tmp_path / "store"
        command = [sys.executable, "-c", _WRITER, f"file://{root}", how]
        writer = subprocess.Popen(command, env=child_environment)  # noqa: ASYNC220  it only starts
        while not any(path.stat().st_size > 2_000_000 for path in (root / ".tmp").glob("*")):
            assert writer.poll() is None
            await asyncio.sleep(0.01)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        store = open_store(f"file://{root}")
        assert await keys_of(store) == []
        assert await store.sweep(older_than=timedelta(hours=1)) == 0
        [leftover] = (root / ".tmp").iterdir()
        os.utime(leftover, (time.time() - 7200,) * 2)
        assert await store.sweep(older_than=timedelta(hours=1)) == 1
        assert not leftover.exists()

    async def test_a_full_disk_says_so(self, tmp_path, monkeypatch):
        store = open_store(f"file://{tmp_path}")

        def full(descriptor: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(PenstockError) as raised:
            await store.put("key", b"x")
        assert_code(raised, error_codes.DISK_FULL)
        monkeypatch.undo()
        assert await keys_of(store) == []

    async def test_nothing_is_answered_before_file_and_directory_are_synced(self, tmp_path, monkeypatch):
        store, synced = open_store(f"file://{tmp_path}"), []
        real = os.fsync

        def noted(descriptor: int) -> None:
            synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().relative_to(tmp_path).as_posix())
            real(descriptor)

        monkeypatch.setattr(os, "fsync", noted)
        await store.put("a/b/c", b"x")
        assert synced[0].startswith(".tmp/")
        assert synced[1:] == [".", "a", "a/b"]
        synced.clear()
        assert await store.put_if_absent("a/b/c", b"y") is False
        assert synced[1:] == ["a/b"]

    async def test_a_store_that_has_vanished_says_so(self, tmp_path, endpoint):
        local, bucket = open_store(f"file://{tmp_path}/s"), open_store("s3://no-bucket", s3.s3_options(endpoint))
        shutil.rmtree(tmp_path / "s")
        for ask in (local.put("k", b"x"), local.put_content(b"x"), bucket.put("k", b"x"), bucket.put_content(b"x")):
            with pytest.raises(PenstockError) as raised:
                await ask
            assert_code(raised, error_codes.STORE_UNAVAILABLE)

    async def test_a_store_that_does_not_answer_says_so(self):
        options = s3.s3_options("http://127.0.0.1:9") | {"retry_config": {"max_retries": 0}}
        store = open_store(f"s3://{s3.BUCKET}", options)
        for ask in (store.get("key"), store.put("key", b"x"), store.put_content(b"x"), store.head("key")):
            with pytest.raises(PenstockError) as raised:
                await ask
            assert_code(raised, error_codes.STORE_UNAVAILABLE)

    @pytest.mark.parametrize(
        "url", ["", "data/store", "file://host/x", "http://x/y", "s3:///x", "s3://user:pass@bucket", "file:///x?y=1"]
    )
    def test_an_address_that_names_no_store_is_refused(self, url):
        with pytest.raises(StoreUrlInvalid):
            open_store(url)

    def test_a_directory_that_cannot_be_made_is_told_at_once(self, tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises(NotADirectoryError):
            open_store(f"file://{tmp_path}/file/store")


@pytest.fixture
def child_environment() -> dict[str, str]:

    return os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
