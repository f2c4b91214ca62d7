"""The adapter for Google's bucket against our own, which checks signatures, generations and preconditions."""

import asyncio
import uuid

import httpx
import pytest
from tests.support.bucket import NAME, BucketThread
from tests.support.shelf import CONTENT, md5_of

from penstock.embedded.bucket.keys import ACCOUNT_FILE
from penstock.kernel import error_codes
from penstock.kernel.clock import SystemClock
from penstock.kernel.errors import PenstockError
from penstock.uploads.direct.adapters import open_bucket
from penstock.uploads.direct.settings import DirectSettings


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    with BucketThread(tmp_path_factory.mktemp("bucket")) as running:
        yield running


@pytest.fixture(scope="module")
async def bucket(embedded):
    settings = DirectSettings(
        bucket_url=f"gs://{NAME}", endpoint=embedded.address, service_account_file=embedded.directory / ACCOUNT_FILE
    )
    opened = open_bucket(settings, SystemClock())
    yield opened
    await opened.close()


@pytest.fixture
def name():
    return f"videos/{uuid.uuid4()}/{md5_of(CONTENT)}"


async def _sent(bucket, name, content, most=None):
    """What a phone does, which has announced `most` bytes; the last answer."""
    start = await bucket.sign_start(name, "video/mp4", len(content) if most is None else most)
    async with httpx.AsyncClient(trust_env=False) as phone:
        begun = await phone.post(start.url, headers=dict(start.headers))
        assert begun.status_code == 201, begun.text
        return await phone.put(begun.headers["location"], content=content)


class TestAgainstTheEmbeddedBucket:
    async def test_what_is_signed_lets_a_phone_send(self, bucket, name, tmp_path):
        assert await bucket.find(name) is None
        assert (await _sent(bucket, name, CONTENT)).status_code == 200
        found = await bucket.find(name)
        assert (found.bucket, found.size, found.content_type) == (NAME, len(CONTENT), "video/mp4")
        assert found.md5_hex == md5_of(CONTENT)
        assert found.finished_at is not None
        await bucket.fetch(found, tmp_path / "film")
        assert (tmp_path / "film").read_bytes() == CONTENT

    async def test_other_headers_than_were_signed_are_refused(self, bucket, name):
        start = await bucket.sign_start(name, "video/mp4", 1000)
        async with httpx.AsyncClient(trust_env=False) as phone:
            for changed in (
                {"content-type": "image/gif"},
                {"x-goog-if-generation-match": "7"},
                {"x-goog-content-length-range": "0,2000"},
            ):
                answer = await phone.post(start.url, headers={**start.headers, **changed})
                assert answer.status_code == 403

    async def test_more_than_was_announced_is_refused(self, bucket, name):
        assert (await _sent(bucket, name, CONTENT, len(CONTENT) - 1)).status_code == 400
        assert await bucket.find(name) is None
        assert (await _sent(bucket, name, CONTENT, len(CONTENT))).status_code == 200

    async def test_a_second_session_does_not_overwrite(self, bucket, name):
        await _sent(bucket, name, CONTENT)
        assert (await _sent(bucket, name, b"another")).status_code == 412
        assert (await bucket.find(name)).size == len(CONTENT)

    async def test_moved_aside_by_several_at_once_it_frees_its_name(self, bucket, name, tmp_path):
        await _sent(bucket, name, b"wrong")
        wrong = await bucket.find(name)
        aside = f"quarantine/{uuid.uuid4()}/{wrong.generation}"
        await asyncio.gather(*(bucket.move_aside(name, wrong.generation, aside) for _ in range(5)))
        assert await bucket.find(name) is None
        assert (await bucket.find(aside)).size == len(b"wrong")
        await _sent(bucket, name, CONTENT)
        await bucket.move_aside(name, wrong.generation, aside)
        assert (await bucket.find(name)).size == len(CONTENT)
        with pytest.raises(PenstockError) as refused:
            await bucket.fetch(wrong, tmp_path / "film")
        assert refused.value.code is error_codes.NOT_FOUND
