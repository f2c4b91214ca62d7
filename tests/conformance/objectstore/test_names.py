"""Keys that no store should hold, and addresses that let a stranger in for a while."""

from datetime import timedelta

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support import s3
from tests.support.stores import accepted, assert_code, keys_of

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.objectstores import open_store


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
