"""Writers that are killed, disks that are full, stores that are gone."""

import asyncio
import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support import s3
from tests.support.programs import environment
from tests.support.stores import assert_code, keys_of

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.objectstores import StoreUrlInvalid, open_store

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
    async def test_a_writer_killed_in_the_middle_leaves_nothing_visible(self, tmp_path, how):
        root = tmp_path / "store"
        command = [sys.executable, "-c", _WRITER, f"file://{root}", how]
        writer = subprocess.Popen(command, env=environment())  # noqa: ASYNC220  it only starts
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
