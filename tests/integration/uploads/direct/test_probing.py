"""What a video is, by its bytes."""

import asyncio
import hashlib
from dataclasses import replace

import pytest
from tests.support.arriving import QUICKTIME, arrived
from tests.support.films import Film, claiming, tiny_boxes, webm, with_lying_box

from penstock.kernel.db import fetch_all
from penstock.kernel.errors import PenstockError
from penstock.kernel.sandbox import SandboxSettings
from penstock.kernel.statemachine import Step, move
from penstock.pdf import PdfSettings, pdf_sandbox
from penstock.uploads.direct.probing import LIMITS, ProbeRoom, become_video
from penstock.uploads.direct.states import VIDEO, VideoStatus

HTML = b"<!doctype html><html><body>502 Bad Gateway</body></html>" * 30
CUT_OFF = "the file ends before its data does"
OVERSTATED = "its index claims more samples than it holds"
NO_INDEX = "it has no index (moov)"


@pytest.fixture(scope="session")
async def sandbox():
    async with pdf_sandbox(PdfSettings(), SandboxSettings(workers=1)) as made:
        yield made


@pytest.fixture
def room(desk, sandbox, tmp_path):
    return ProbeRoom(desk.database, desk.bucket, desk.settings, sandbox, tmp_path)


@pytest.fixture
def probed(desk, room, phone):
    """The video that came of a file."""

    async def do(content, **more):
        row = await arrived(desk, phone, content, **more)
        await become_video(room, row)
        return await _video(desk, row)

    return do


async def _video(desk, row):
    async with desk.database.transaction() as tx:
        [video] = await fetch_all(tx, "select * from catalog.videos where video_id = %s", (row["video_id"],))
    return video


async def _failures(desk):
    async with desk.database.transaction() as tx:
        return await fetch_all(tx, "select * from outbox_events where event_type = 'video.failed'")


class TestFilms:
    @pytest.mark.parametrize(
        ("content", "content_type", "container"),
        [
            pytest.param(Film().mp4(), "video/mp4", "mp4", id="MP4"),
            pytest.param(Film(sound=True).mp4(), "video/mp4", "mp4", id="with sound"),
            pytest.param(Film(brand=b"qt  ").mp4(), QUICKTIME, "quicktime", id="QuickTime"),
            pytest.param(Film(brand=b"qt  ").mp4(), "video/mp4", "quicktime", id="QuickTime called MP4"),
            pytest.param(Film().mp4(), QUICKTIME, "mp4", id="MP4 called QuickTime"),
            pytest.param(Film().mp4()[len(Film().ftyp()) :], QUICKTIME, "quicktime", id="old QuickTime, no type"),
            pytest.param(Film().index_last(), "video/mp4", "mp4", id="index at the end"),
            pytest.param(Film().fragmented(), "video/mp4", "mp4", id="fragments"),
            pytest.param(Film(wide=True).mp4(), "video/mp4", "mp4", id="sizes of 64 bits"),
            pytest.param(Film().mp4() + b"SEFT" * 9, "video/mp4", "mp4", id="a camera's own trailer"),
        ],
    )
    async def test_its_length_and_container_are_noted(self, probed, content, content_type, container):
        video = await probed(content, content_type=content_type)
        assert (video["status"], float(video["duration_seconds"])) == ("processing", 12.5)
        assert (video["container"], video["error_code"]) == (container, None)

    async def test_one_that_ends_with_the_last_allowed_second_is_taken(self, probed):
        assert (await probed(Film(300.9).mp4()))["status"] == "processing"

    async def test_fetched_copies_do_not_stay(self, probed, tmp_path):
        await probed(Film().mp4())
        await probed(HTML)
        assert list(tmp_path.iterdir()) == []


class TestTooLong:
    @pytest.mark.parametrize(
        "content",
        [
            pytest.param(Film(301).mp4(), id="a second too long"),
            pytest.param(Film(301).fragmented(7), id="in fragments"),
            pytest.param(Film(301, says=5).mp4(), id="headers say 5 seconds"),
            pytest.param(Film(301, says=5).fragmented(7), id="headers say 5 seconds, in fragments"),
            pytest.param(Film(12, says=36_000).mp4(), id="headers say 10 hours"),
            pytest.param(Film(12, says=4_294_967).mp4(), id="headers say 50 days"),
        ],
    )
    async def test_the_longest_that_the_file_claims_counts(self, probed, desk, content):
        video = await probed(content)
        assert (video["status"], video["error_code"]) == ("failed", "VIDEO_TOO_LONG")
        assert float(video["duration_seconds"]) > 300
        assert video["container"] == "mp4"
        assert "300 s allowed" in video["error_message"]
        assert len(await _failures(desk)) == 1

    async def test_a_policy_may_have_no_limit(self, desk, room, phone):
        settings = desk.settings
        policies = tuple(each.model_copy(update={"longest_seconds": None}) for each in settings.policies)
        free = replace(room, settings=settings.model_copy(update={"policies": policies}))
        row = await arrived(desk, phone, Film(301).mp4())
        await become_video(free, row)
        assert (await _video(desk, row))["status"] == "processing"


class TestUnreadable:
    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            pytest.param(Film().without_index(), NO_INDEX, id="no index"),
            pytest.param(Film().mp4()[:-3000], CUT_OFF, id="cut off in the data"),
            pytest.param(Film().index_last()[:-200], CUT_OFF, id="cut off in the index at the end"),
            pytest.param(Film().index_last()[:4000], CUT_OFF, id="cut off before the index"),
            pytest.param(Film().mp4()[:300], CUT_OFF, id="cut off in the index"),
            pytest.param(Film(60).fragmented(60)[:-100], CUT_OFF, id="cut off in a fragment"),
            pytest.param(claiming(Film().fragmented(), b"trun", 1 << 31), OVERSTATED, id="a fragment of 2^31 samples"),
            pytest.param(claiming(Film().mp4(), b"stts", 1 << 31), OVERSTATED, id="2^31 rows of times"),
            pytest.param(Film(picture=False, sound=True).mp4(), "there is no picture in it", id="sound only"),
            pytest.param(HTML, "it is not a film of any known kind", id="HTML"),
            pytest.param(b"%PDF-1.7\n" + b" " * 900, "there is no picture in it", id="PDF"),
            pytest.param(b"\0", "it is not a film of any known kind", id="one byte"),
            pytest.param(with_lying_box(b"mdat", 1 << 62), CUT_OFF, id="4 EiB of data"),
            pytest.param(with_lying_box(b"moov", 1 << 40, [b"x" * 500]), CUT_OFF, id="an index of 1 TiB"),
            pytest.param(with_lying_box(b"moov", (1 << 64) - 1, [b"x" * 500]), CUT_OFF, id="an index of 16 EiB"),
            pytest.param(with_lying_box(b"moov", 0xFFFFFFFF, [b"x" * 500]), CUT_OFF, id="an index of 4 GiB"),
            pytest.param(with_lying_box(b"moov", 3, [b"x" * 500]), NO_INDEX, id="a box smaller than its head"),
            pytest.param(with_lying_box(b"moov", 0, [b"x" * 500]), "there is no picture in it", id="rubbish as index"),
        ],
    )
    async def test_a_file_that_is_no_film_fails_with_its_reason(self, probed, desk, content, reason):
        video = await probed(content)
        assert (video["status"], video["error_code"], video["duration_seconds"]) == ("failed", "VIDEO_UNREADABLE", None)
        assert video["error_message"].endswith(f": {reason}")
        [event] = await _failures(desk)
        assert event["payload"]["error_code"] == "VIDEO_UNREADABLE"

    async def test_an_empty_file(self, desk, room, phone):
        row = await arrived(desk, phone, Film().mp4())
        facts, _ = desk.bucket.objects[row["object_name"]]
        desk.bucket.objects[row["object_name"]] = (facts, b"")
        empty = dict(row) | {"size_bytes": 0, "content_md5": hashlib.md5(b"", usedforsecurity=False).hexdigest()}
        await become_video(room, empty)
        assert (await _video(desk, row))["error_message"].endswith("the file is empty")

    async def test_another_container_than_announced(self, probed):
        video = await probed(webm(), content_type="video/mp4")
        assert (video["status"], video["error_code"]) == ("failed", "VIDEO_UNREADABLE")
        assert video["error_message"].endswith("it was announced as video/mp4 and is webm")

    async def test_an_object_that_is_gone(self, desk, room, phone):
        row = await arrived(desk, phone, Film().mp4())
        desk.bucket.objects.clear()
        await become_video(room, row)
        video = await _video(desk, row)
        assert (video["status"], video["error_code"]) == ("failed", "VIDEO_UNREADABLE")

    async def test_a_file_that_keeps_the_reader_busy_is_given_up(self, desk, room, phone):
        row = await arrived(desk, phone, tiny_boxes(64 << 20))
        await become_video(replace(room, limits=replace(LIMITS, cpu_seconds=1)), row)
        video = await _video(desk, row)
        assert (video["status"], video["error_code"]) == ("failed", "VIDEO_UNREADABLE")
        assert "timed_out" in video["error_message"]


class TestRepeats:
    async def test_a_repeat_changes_nothing(self, desk, room, phone):
        for content in (Film().mp4(), Film(301).mp4(), HTML):
            row = await arrived(desk, phone, content)
            await become_video(room, row)
            before = await _video(desk, row)
            desk.bucket.is_away = True  # nor is anything fetched again
            await become_video(room, row)
            assert await _video(desk, row) == before
            desk.bucket.is_away = False
        assert len(await _failures(desk)) == 2

    async def test_several_at_once_end_in_one_failure(self, desk, room, phone):
        row = await arrived(desk, phone, HTML)
        await asyncio.gather(*(become_video(room, row) for _ in range(5)))
        assert len(await _failures(desk)) == 1

    async def test_a_video_that_is_shown_already_stays_shown(self, desk, room, phone):
        row = await arrived(desk, phone, Film(301).mp4())
        async with desk.database.transaction() as tx:
            for source, target in (
                (VideoStatus.PROCESSING, VideoStatus.READY),
                (VideoStatus.READY, VideoStatus.PUBLISHED),
            ):
                await move(tx, VIDEO, Step(str(row["video_id"]), source, target, by="media", trigger="reported"))
        await become_video(room, row)
        video = await _video(desk, row)
        assert (video["status"], video["error_code"], float(video["duration_seconds"])) == ("published", None, 301.0)


class TestTrouble:
    """Of ours: it says nothing of the file, which is looked at another time."""

    async def _comes_later(self, desk, room, row, code):
        with pytest.raises(PenstockError) as refused:
            await become_video(room, row)
        assert refused.value.code.code == code
        video = await _video(desk, row)
        assert (video["status"], video["duration_seconds"]) == ("processing", None)
        assert list(room.directory.iterdir()) == []

    async def test_a_bucket_that_is_away(self, desk, room, phone):
        row = await arrived(desk, phone, Film().mp4())
        desk.bucket.is_away = True
        await self._comes_later(desk, room, row, "STORE_UNAVAILABLE")
        desk.bucket.is_away = False
        await become_video(room, row)
        assert (await _video(desk, row))["container"] == "mp4"

    @pytest.mark.parametrize("garbled", [Film().mp4()[:-1], Film().mp4()[:-1] + b"!"], ids=["shorter", "other bytes"])
    async def test_a_copy_that_went_wrong_on_its_way(self, desk, room, phone, garbled):
        row = await arrived(desk, phone, Film().mp4())
        facts, _ = desk.bucket.objects[row["object_name"]]
        desk.bucket.objects[row["object_name"]] = (facts, garbled)
        await self._comes_later(desk, room, row, "STORE_UNAVAILABLE")

    async def test_a_disk_without_room(self, desk, room, phone):
        row = await arrived(desk, phone, Film().mp4())
        await self._comes_later(desk, room, dict(row) | {"size_bytes": 1 << 60}, "DISK_FULL")

    async def test_a_sandbox_that_does_not_run(self, desk, room, phone):
        row = await arrived(desk, phone, Film().mp4())
        closed = pdf_sandbox(PdfSettings(), SandboxSettings(workers=1))
        await self._comes_later(desk, replace(room, sandbox=closed), row, "SANDBOX_UNAVAILABLE")

    async def test_a_sandbox_that_is_closed_while_it_reads(self, desk, room, phone):
        row = await arrived(desk, phone, tiny_boxes(32 << 20))
        async with pdf_sandbox(PdfSettings(), SandboxSettings(workers=1)) as closing:
            looking = asyncio.create_task(
                self._comes_later(desk, replace(room, sandbox=closing), row, "SANDBOX_UNAVAILABLE")
            )
            while not list(room.directory.iterdir()):  # fetched, and reading it takes long
                await asyncio.sleep(0.01)
            await closing.close()
            await looking

    async def test_a_machine_that_is_too_slow(self, desk, room, phone):
        row = await arrived(desk, phone, tiny_boxes(32 << 20))
        hurried = replace(room, limits=replace(LIMITS, wall_seconds=0.2))
        await self._comes_later(desk, hurried, row, "SANDBOX_UNAVAILABLE")
