"""Google's JavaScript client in Node, as its users run it."""

import hashlib

from tests.support.browser import NodeStorage
from tests.support.bucket import NAME, QUANTUM, some_bytes


class TestGoogleCloudStorageInNode:
    def test_chunks_one_request_a_precondition_and_reading_back(self, bucket, name, tmp_path):
        content, file = some_bytes(2 * QUANTUM + 77), tmp_path / "video.mp4"
        file.write_bytes(content)
        given = {"endpoint": bucket.address, "token": bucket.token(), "bucket": NAME, "name": name, "file": str(file)}
        with NodeStorage(**given, do="tour", chunk=QUANTUM) as client:
            said = client.hear(60)
        sums = hashlib.md5(content, usedforsecurity=False)
        assert "error" not in said, said
        assert (said["refused"], said["names"]) == (412, ["chunked", "simple"])
        assert (said["md5"], int(said["size"]), said["type"]) == (sums.hexdigest(), len(content), "video/mp4")
