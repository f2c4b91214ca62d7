"""A file that goes to its bucket in parts, over HTTP."""

from dataclasses import replace

import httpx
import pytest
from tests.support import s3
from tests.support.edge import bearer
from tests.support.parting import attended
from tests.support.shelf import md5_of

from penstock.api.app import create_app
from penstock.kernel.clock import SystemClock
from penstock.uploads.direct.adapters import open_bucket
from penstock.uploads.direct.settings import DirectSettings

MiB = 1024**2
FILM = b"a film in parts " * (6 * MiB // 16)  # two parts
UPLOADS = "/api/v1/direct-uploads"
WISH = {"filename": "f.mp4", "size_bytes": len(FILM), "content_type": "video/mp4", "content_md5_hex": md5_of(FILM)}


@pytest.fixture(scope="module")
def settings():
    with s3.s3_server() as address:
        yield DirectSettings(
            bucket_url=f"s3://{s3.BUCKET}", endpoint=address, s3_access_key="test", s3_secret_key="test",
            part_bytes=5 * MiB,
        )  # fmt: skip


@pytest.fixture
async def desk(parts, settings):
    bucket = open_bucket(settings, SystemClock())
    yield replace(parts.direct, bucket=bucket, settings=settings)
    await bucket.close()


@pytest.fixture
async def server(parts, desk):
    app = create_app(replace(parts, direct=desk))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://penstock.test") as made:
        yield made
    await app.state.readiness.close()


async def post(server, path, body=None, headers=None):
    return await server.post(f"{UPLOADS}{path}", headers=headers or bearer(), **({"json": body} if body else {}))


async def sent(offer):
    async with httpx.AsyncClient() as bucket:
        for each in offer["addresses"]:
            piece = FILM[(each["number"] - 1) * offer["part_bytes"] : each["number"] * offer["part_bytes"]]
            assert (await bucket.put(each["url"], content=piece, headers=each["headers"])).status_code == 200


class TestParts:
    async def test_a_file_is_sent_part_by_part_and_goes_on_after_trouble(self, server, desk):
        opened = (await post(server, "", WISH)).json()
        assert (opened["resumable_init_url"], opened["part_bytes"]) == (None, 5 * MiB)
        place = f"/{opened['upload_id']}"
        first = (await post(server, f"{place}/parts", {"numbers": [1]})).json()
        assert (first["status"], first["total"], [each["number"] for each in first["addresses"]]) == (
            "uploading",
            2,
            [1],
        )
        await sent(first)
        early = await post(server, f"{place}/complete")
        assert (early.status_code, early.json()["code"]) == (409, "DIRECT_PARTS_MISSING")
        assert early.json()["details"]["missing"] == [2]
        rest = (await post(server, f"{place}/parts")).json()
        assert rest["present"] == [{"number": 1, "size": 5 * MiB}]
        assert [each["number"] for each in rest["addresses"]] == [2]
        await sent(rest)
        for _ in range(2):
            assert (await post(server, f"{place}/complete")).status_code == 200
        assert (await attended(desk))["status"] == "completed"
        done = (await post(server, f"{place}/complete")).json()
        assert (done["status"], done["md5_hash_hex"]) == ("completed", md5_of(FILM))
        again = (await post(server, "", WISH)).json()
        assert (again["already_completed"], again["part_bytes"]) == (True, None)

    async def test_parts_that_cannot_be_are_refused(self, server):
        opened = (await post(server, "", WISH)).json()
        for numbers in ([0], [3], ["x"], [1] * 101):
            answer = await post(server, f"/{opened['upload_id']}/parts", {"numbers": numbers})
            assert (answer.status_code, answer.json()["code"]) == (400, "REQUEST_INVALID"), numbers

    async def test_to_others_there_is_no_such_upload(self, server):
        opened = (await post(server, "", WISH)).json()
        for deed in ("parts", "complete"):
            answer = await post(server, f"/{opened['upload_id']}/{deed}", headers=bearer(merchant="m-2"))
            assert (answer.status_code, answer.json()["code"]) == (404, "UPLOAD_NOT_FOUND")


class TestABucketWithoutParts:
    async def test_it_says_so(self, client, database):
        opened = (await post(client, "", WISH)).json()
        assert opened["part_bytes"] is None
        for deed in ("parts", "complete"):
            answer = await post(client, f"/{opened['upload_id']}/{deed}")
            assert (answer.status_code, answer.json()["code"]) == (400, "DIRECT_NO_PARTS")
