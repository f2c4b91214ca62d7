"""What is there is told: all of it, a part, what it is, what lies beside it."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.support.stores import assert_code, keys_of

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError


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
