"""How fast a merchant may begin and cancel uploads; its bytes are not counted."""

from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest
from tests.support.edge import EdgeParts, bearer

from penstock.api.app import create_app
from penstock.documents import CallLimits, DocumentSettings
from penstock.kernel.rategate import ForgivingGate

UPLOADS = "/api/v1/uploads"
WELL = {"Tus-Resumable": "1.0.0", "Upload-Length": "3", "Upload-Metadata": "filename YS5wZGY="}


@pytest.fixture
async def limited(parts: EdgeParts, redis_client, keys) -> AsyncIterator[httpx.AsyncClient]:
    """Of an application where a merchant may begin or cancel four uploads, and then one every hundred seconds."""
    slow = DocumentSettings(upload_burst=4, upload_rate_per_sec=0.01)
    app = create_app(replace(parts, limits=CallLimits(ForgivingGate(redis_client, keys), slow)))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://penstock.test") as made:
        yield made
    await app.state.readiness.close()


async def begin(client: httpx.AsyncClient, merchant: str = "m-1", **headers: str) -> httpx.Response:
    changed = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.post(UPLOADS, headers={**WELL, **bearer(merchant=merchant), **changed})


class TestUploadLimit:
    async def test_beginning_and_cancelling_count_and_another_merchant_is_not_held_up(self, limited):
        for _ in range(2):
            made = await begin(limited)
            assert made.status_code == 201
            gone = await limited.delete(made.headers["Location"], headers={**WELL, **bearer()})
            assert gone.status_code == 204
        refused = await begin(limited)
        assert (refused.status_code, refused.json()["code"]) == (429, "RATE_LIMITED")
        assert 50 < int(refused.headers["Retry-After"]) <= 100
        assert refused.headers["Tus-Resumable"] == "1.0.0"
        assert (await begin(limited, "m-2")).status_code == 201

    async def test_requests_that_are_refused_for_their_headers_count_as_well(self, limited):
        wrong = [await begin(limited, Upload_Length="zz"), await begin(limited, Upload_Length="-1")]
        wrong += [await begin(limited, Tus_Resumable="9"), await begin(limited, Upload_Metadata="?")]
        assert [answer.status_code for answer in wrong] == [400, 400, 412, 400]
        assert (await begin(limited, Upload_Length="zz")).status_code == 429

    async def test_bytes_and_offsets_are_not_counted(self, limited):
        made = await begin(limited)
        where = made.headers["Location"]
        for offset in range(3):
            sent = {"Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"}
            headers = {"Tus-Resumable": "1.0.0", **bearer()}
            assert (await limited.patch(where, headers={**headers, **sent}, content=b"x")).status_code == 204
            for _ in range(3):
                assert (await limited.head(where, headers=headers)).status_code == 200
