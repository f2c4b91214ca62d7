"""Files that go in without being read, and come out as files."""

import errno
import os

import pytest
from tests.support.stores import MIB, assert_code, keys_of

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError


class TestFiles:
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
