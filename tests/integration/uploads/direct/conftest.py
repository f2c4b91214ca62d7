"""A desk with a bucket that stands on a shelf."""

import pytest
from tests.support.shelf import CONTENT, ShelfBucket, md5_of

from penstock.kernel.clock import SystemClock
from penstock.kernel.identity import Caller, Role
from penstock.kernel.queue import Queue
from penstock.uploads.direct.desk import DirectDesk
from penstock.uploads.direct.opening import Wish
from penstock.uploads.direct.settings import DirectSettings


@pytest.fixture
def bucket():
    return ShelfBucket()


@pytest.fixture
def desk(database, bucket, redis_client, keys):
    settings = DirectSettings(bucket_url="gs://shelf")
    return DirectDesk(database, bucket, settings, SystemClock(), Queue(redis_client, keys), owner="w-1")


@pytest.fixture
def phone():
    return Caller("5a0c7f6e-1111-4222-8333-444455556666", "m-1", Role.UPLOADER)


@pytest.fixture
def wish():
    return Wish("holiday.mp4", len(CONTENT), "video/mp4", md5_of(CONTENT), 42)
