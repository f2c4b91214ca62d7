"""Direct uploads and videos over HTTP."""

import httpx
import pytest
import structlog
from tests.support.edge import bearer
from tests.support.shelf import CONTENT, md5_of

from penstock.api.app import create_app
from penstock.uploads.direct.finishing import News, judge

UPLOADS, VIDEOS = "/api/v1/direct-uploads", "/api/v1/videos"
WISH = {
    "filename": "f.mp4",
    "size_bytes": len(CONTENT),
    "content_type": "video/mp4",
    "content_md5_hex": md5_of(CONTENT),
}
NOBODY = "3f0c8a52-1f0e-4b59-9a35-0c6f5b0f6a11"


@pytest.fixture
async def server(parts):
    app = create_app(parts)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://penstock.test") as made:
        yield made
    await app.state.readiness.close()


async def announced(server, headers=None, **changes):
    return await server.post(UPLOADS, json=WISH | changes, headers=headers or bearer())


async def arrived(parts, object_name, content=CONTENT):
    facts = parts.direct.bucket.put(object_name, content)
    async with parts.database.transaction() as tx:
        outcome, _ = await judge(tx, parts.direct.settings, News(facts, "callback", f"gs://shelf/{object_name}"))
        return outcome


def code(answer):
    return answer.status_code, answer.json()["code"]


class TestAnnouncing:
    async def test_it_tells_where_and_how_to_begin(self, server):
        answer = await announced(server)
        told = answer.json()
        assert answer.status_code == 200
        assert told["object_name"].startswith("videos/")
        assert told["resumable_init_url"].startswith("https://shelf/")
        assert told["resumable_init_headers"]["x-goog-resumable"] == "start"
        assert told["resumable_init_headers"]["x-goog-content-length-range"] == f"0,{len(CONTENT)}"
        assert (told["status"], told["already_completed"]) == ("pending", False)
        assert answer.headers["cache-control"] == "no-store"

    async def test_a_merchant_with_too_much_open_is_refused_until_some_has_come(self, server, parts):
        largest = int(parts.direct.settings.open_bytes_per_merchant)
        for number in range(largest // (1 << 31)):
            answer = await announced(server, size_bytes=1 << 31, content_md5_hex=md5_of(str(number).encode()))
            assert answer.status_code == 200
        full = await announced(server)
        assert code(full) == (429, "UPLOAD_SLOTS_FULL")
        assert full.headers["retry-after"] == "60"

    async def test_a_size_that_is_not_known_may_be_as_large_as_its_type(self, server, parts):
        told = (await announced(server, size_bytes=0)).json()
        largest = int(parts.direct.settings.policy_for("video/mp4").largest)
        assert told["resumable_init_headers"]["x-goog-content-length-range"] == f"0,{largest}"

    async def test_again_is_the_same_upload(self, server):
        first, second = (await announced(server)).json(), (await announced(server)).json()
        assert first["upload_id"] == second["upload_id"]

    async def test_a_complete_file_is_not_sent_again(self, server, parts):
        await arrived(parts, (await announced(server)).json()["object_name"])
        told = (await announced(server)).json()
        assert (told["status"], told["already_completed"], told["resumable_init_url"]) == ("completed", True, None)

    @pytest.mark.parametrize(
        ("changes", "refusal"),
        [
            ({"content_md5_hex": "xyz"}, (400, "REQUEST_INVALID")),
            ({"size_bytes": -1}, (400, "REQUEST_INVALID")),
            ({"size_bytes": 2**63}, (400, "REQUEST_INVALID")),
            ({"filename": ""}, (400, "REQUEST_INVALID")),
            ({"filename": "a\u202eb"}, (400, "REQUEST_INVALID")),
            ({"more": 1}, (400, "REQUEST_INVALID")),
            ({"content_type": "image/gif"}, (400, "DIRECT_TYPE_REFUSED")),
            ({"duration_seconds": 301}, (400, "VIDEO_TOO_LONG")),
            ({"size_bytes": 3 << 30}, (413, "FILE_SIZE_EXCEEDED")),
            ({"video_id": NOBODY}, (404, "VIDEO_NOT_FOUND")),
        ],
        ids=str,
    )
    async def test_what_cannot_work_is_refused(self, server, changes, refusal):
        assert code(await announced(server, **changes)) == refusal

    async def test_other_facts_of_the_same_content_are_a_conflict(self, server):
        await announced(server)
        answer = await announced(server, content_type="video/quicktime")
        assert code(answer) == (409, "DIRECT_UPLOAD_DIFFERS")
        assert answer.json()["details"]["fields"] == {"content_type": "video/mp4"}

    async def test_a_bucket_that_is_away_says_so(self, server, parts):
        parts.direct.bucket.is_away = True
        assert code(await announced(server)) == (503, "STORE_UNAVAILABLE")

    async def test_a_signed_address_is_in_the_answer_and_nowhere_else(self, server):
        with structlog.testing.capture_logs() as logs:
            told = (await announced(server)).json()
        assert "?signed" in told["resumable_init_url"]
        assert "?signed" not in str(logs)
        one = await server.get(f"{UPLOADS}/{told['upload_id']}", headers=bearer())
        assert "?signed" not in one.text


class TestLooking:
    async def test_it_is_shown_to_its_user_and_to_operators(self, server, parts):
        told = (await announced(server)).json()
        await arrived(parts, told["object_name"])
        for headers in (bearer(), bearer("operator", "m-9")):
            one = (await server.get(f"{UPLOADS}/{told['upload_id']}", headers=headers)).json()
            assert (one["status"], one["size_bytes"], one["md5_hash_hex"]) == (
                "completed",
                len(CONTENT),
                md5_of(CONTENT),
            )
            assert one["video_id"]

    async def test_to_others_there_is_no_such_upload(self, server):
        told = (await announced(server)).json()
        for address, headers in ((told["upload_id"], bearer(merchant="m-2")), (NOBODY, bearer())):
            assert code(await server.get(f"{UPLOADS}/{address}", headers=headers)) == (404, "UPLOAD_NOT_FOUND")

    @pytest.mark.parametrize(("language", "word"), [("zh", "不一致"), ("en", "MD5")])
    async def test_what_went_wrong_is_said_in_the_readers_language(self, server, parts, language, word):
        told = (await announced(server)).json()
        await arrived(parts, told["object_name"], b"something else")
        headers = bearer() | {"Accept-Language": language}
        one = (await server.get(f"{UPLOADS}/{told['upload_id']}", headers=headers)).json()
        assert (one["status"], one["error_code"]) == ("failed", "MD5_MISMATCH")
        assert word in one["error_message"]


class TestLists:
    async def listed(self, server, path, name, headers, **asked):
        found, cursor = [], None
        while True:
            params = {"limit": 2, **asked} | ({"cursor": cursor} if cursor else {})
            part = (await server.get(path, params=params, headers=headers)).json()
            found += [row[name] for row in part[path.rpartition("-")[2].rpartition("/")[2]]]
            cursor = part["next_cursor"]
            if cursor is None:
                return found

    async def test_parts_hold_each_upload_once_newest_first(self, server):
        made = [(await announced(server, content_md5_hex=f"{n:032x}")).json()["upload_id"] for n in range(5)]
        await announced(server, bearer(merchant="m-2"))
        assert await self.listed(server, UPLOADS, "upload_id", bearer()) == made[::-1]
        assert await self.listed(server, UPLOADS, "upload_id", bearer("operator", "m-9"), merchant="m-1") == made[::-1]
        assert len(await self.listed(server, UPLOADS, "upload_id", bearer("admin", "m-9"))) == 6

    async def test_videos_likewise(self, server):
        made = [
            (await server.post(VIDEOS, json={"title": f"film {n}"}, headers=bearer())).json()["video_id"]
            for n in range(3)
        ]
        await server.post(VIDEOS, json={"title": "another's"}, headers=bearer(merchant="m-2"))
        assert await self.listed(server, VIDEOS, "video_id", bearer()) == made[::-1]
        assert len(await self.listed(server, VIDEOS, "video_id", bearer("admin"))) == 4

    @pytest.mark.parametrize("path", [UPLOADS, VIDEOS])
    async def test_another_merchants_or_a_made_up_cursor_is_refused(self, server, path):
        assert code(await server.get(path, params={"merchant": "m-2"}, headers=bearer())) == (403, "MERCHANT_DENIED")
        for cursor in ("x", "WyJ2aWRlb3MiLCIxIiwiMiJd", "WyJ2aWRlb3MiLCIyMDI2LTAxLTAxIiwiMiJd"):
            assert code(await server.get(path, params={"cursor": cursor}, headers=bearer())) == (400, "CURSOR_INVALID")


class TestVideos:
    @pytest.fixture
    async def film(self, server):
        return (await server.post(VIDEOS, json={"title": "By the sea"}, headers=bearer())).json()["video_id"]

    async def report(self, server, film, status, role="operator", **more):
        return await server.post(f"{VIDEOS}/{film}/status", json={"status": status, **more}, headers=bearer(role))

    async def test_one_is_made_waits_gets_its_file_and_is_moved_on(self, server, parts, film):
        opened = (await announced(server, video_id=film)).json()
        assert opened["video_id"] == film
        await arrived(parts, opened["object_name"])
        one = (await server.get(f"{VIDEOS}/{film}", headers=bearer())).json()
        assert (one["status"], one["raw_file_reference"]) == ("processing", f"gs://shelf/{opened['object_name']}")
        for status in ("ready", "ready", "published"):
            assert (await self.report(server, film, status)).json()["status"] == status
        assert code(await self.report(server, film, "failed")) == (409, "STATE_CHANGED")

    async def test_the_pipelines_words_are_kept(self, server, parts, film):
        await arrived(parts, (await announced(server, video_id=film)).json()["object_name"])
        told = (await self.report(server, film, "failed", reason="no picture in it")).json()
        assert (told["status"], told["error_message"]) == ("failed", "no picture in it")

    async def test_a_step_that_does_not_follow_is_refused(self, server, film):
        assert code(await self.report(server, film, "published")) == (409, "STATE_CHANGED")

    async def test_users_do_not_move_videos(self, server, film):
        assert code(await self.report(server, film, "ready", role="uploader")) == (403, "ROLE_DENIED")

    async def test_a_video_that_has_its_file_takes_no_other(self, server, parts, film):
        await arrived(parts, (await announced(server, video_id=film)).json()["object_name"])
        assert code(await announced(server, video_id=film, content_md5_hex="0" * 32)) == (409, "VIDEO_TAKEN")

    async def test_to_other_merchants_there_is_no_such_video(self, server, film):
        answer = await server.get(f"{VIDEOS}/{film}", headers=bearer(merchant="m-2"))
        assert code(answer) == (404, "VIDEO_NOT_FOUND")
