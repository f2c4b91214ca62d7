"""The JavaScript client in Node, with the proto as it is given away."""

import asyncio
import base64

import grpc
import pytest
from tests.support.browser import NodeCalls, needed
from tests.support.edge import bearer
from tests.support.rpc import WISH, Refusal, running
from tests.support.shelf import md5_of

CODES = {code.value[0]: code for code in grpc.StatusCode}
LARGE = 5_000_000_000  # more than a number of 32 bits, and than any policy takes


@pytest.fixture(autouse=True)
def node():
    needed("node")


async def said(parts, metadata, *calls):
    """What came of each call."""

    def all_of_it():
        with NodeCalls(f"127.0.0.1:{parts.settings.runtime.grpc_port}", metadata, list(calls)) as client:
            return [client.hear() for _ in calls]

    async with running(parts):
        return await asyncio.to_thread(all_of_it)


def refusal(answer):
    return Refusal(CODES[answer["code"]], answer["message"], base64.b64decode(answer["details"]))


class TestGrpcJs:
    async def test_it_announces_a_file_and_asks_for_it(self, parts):
        who = {"authorization": bearer()["Authorization"]}
        [first] = await said(parts, who, ("InitResumableUpload", WISH))
        opened = first["answer"]
        assert opened["object_name"].endswith(WISH["content_md5_hex"])
        assert opened["resumable_init_url"].startswith("https://shelf/")
        assert int(opened["expires_at_unixms"]) > 1_700_000_000_000
        again, seen = await said(
            parts, who, ("InitResumableUpload", WISH), ("GetUpload", {"upload_id": opened["upload_id"]})
        )
        assert again["answer"]["upload_id"] == opened["upload_id"]
        assert seen["answer"]["status"] == "pending"

    async def test_it_reads_why_it_was_refused(self, parts):
        who = {"authorization": bearer()["Authorization"], "accept-language": "zh"}
        large = WISH | {"size_bytes": LARGE, "content_md5_hex": md5_of(b"large")}
        answers = await said(parts, who, ("InitResumableUpload", large), ("GetUpload", {"upload_id": "7"}))
        too_large, unknown = map(refusal, answers)
        assert (too_large.code, too_large.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "FILE_SIZE_EXCEEDED")
        assert too_large.details["ErrorInfo"].metadata["size"] == str(LARGE)
        assert (unknown.code, unknown.reason) == (grpc.StatusCode.NOT_FOUND, "UPLOAD_NOT_FOUND")
        assert unknown.details["LocalizedMessage"].locale == "zh"

    async def test_without_a_token_it_gets_nowhere(self, parts):
        [answer] = await said(parts, {}, ("GetUpload", {"upload_id": "7"}))
        assert refusal(answer).code is grpc.StatusCode.UNAUTHENTICATED
