"""Google's JavaScript client in Node, as its users run it."""

import json
import subprocess

from tests.support.browser import HERE, needed
from tests.support.bucket import NAME, QUANTUM, some_bytes


class TestGoogleCloudStorageInNode:
    def test_chunks_one_request_a_precondition_and_reading_back(self, bucket, name, tmp_path):
        programs = needed("node")
        content, file = some_bytes(2 * QUANTUM + 77), tmp_path / "video.mp4"
        file.write_bytes(content)
        given = {"endpoint": bucket.address, "token": bucket.token(), "bucket": NAME, "name": name, "file": str(file)}
        ran = subprocess.run(
            [programs["node"], HERE / "bucket_client.mjs", json.dumps(given)],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        said = json.loads(ran.stdout)
        assert said["refused"] == 412
        assert said["md5"] == said["read"] == said["expected"]
        assert (said["size"], said["type"]) == (len(content), "video/mp4") or said["size"] == str(len(content))
        assert said["names"] == ["chunked", "simple"]
