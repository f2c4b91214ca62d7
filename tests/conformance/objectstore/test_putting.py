"""What is put is there, whole, or what was there before: objects, several at once, content by its sum."""

import asyncio
import hashlib
import os

import pytest
from tests.support import s3
from tests.support.stores import MIB, assert_code, keys_of, pieces

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError


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
