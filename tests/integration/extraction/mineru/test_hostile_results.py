"""Results that nobody should unpack, links that nobody should follow, and a token that goes nowhere."""

import asyncio
import random
import socket
import time
import zipfile
from contextlib import asynccontextmanager, closing

import pytest
import structlog
from tests.integration.extraction.mineru.conftest import document_of, provider_at
from tests.standins import mineru_results as results
from tests.standins.mineru import TOKEN, Mineru
from tests.support.answering import Answering, Said
from tests.support.notebooks import opened

from penstock.extraction.providers.mineru import MineruSettings
from penstock.extraction.providers.mineru.parcel import open_parcel
from penstock.extraction.providers.mineru.refusals import LinkDead, ZipDamaged
from penstock.extraction.providers.mineru.web import Web
from penstock.kernel import error_codes as codes
from penstock.kernel.errors import PenstockError

FLAWS = {
    "parent": "ZIP_NAME_OUTSIDE",
    "absolute": "ZIP_NAME_OUTSIDE",
    "drive": "ZIP_NAME_OUTSIDE",
    "symlink": "ZIP_MEMBER_NOT_A_FILE",
    "bomb": "ZIP_RATIO",
    "many": "ZIP_TOO_MANY_MEMBERS",
}


def reason_for(path, data: bytes, **limits) -> str:
    path.write_bytes(data)
    with pytest.raises(PenstockError) as refusal:
        open_parcel(path, MineruSettings(**limits))
    assert refusal.value.code is codes.OCR_ANSWER_INVALID
    return refusal.value.details["reason"]


class TestArchives:
    @pytest.mark.parametrize("flaw", FLAWS)
    async def test_a_hostile_one_is_refused_whole(self, hosted, document, notebook, flaw):
        hosted.behave(flaw=flaw)
        async with provider_at(hosted.base_url, max_members=1000) as provider:
            with pytest.raises(PenstockError) as refusal:
                await provider.read(document, notebook)
        assert (refusal.value.code, refusal.value.details["reason"]) == (codes.OCR_ANSWER_INVALID, FLAWS[flaw])
        assert await notebook.numbers() == frozenset()

    async def test_a_torn_one_is_fetched_once_more(self, queueing, document, tmp_path):
        for flaw in ("once torn", "once damaged"):
            queueing.behave(flaw=flaw)
            async with provider_at(queueing.base_url) as provider:
                reading = await provider.read(document, await opened(tmp_path / flaw))
            assert reading.page_count == 2
        assert queueing.calls["submit"] == 2

    async def test_one_that_stays_damaged_ends_the_task(self, hosted, document, notebook):
        hosted.behave(flaw="damaged")
        async with provider_at(hosted.base_url) as provider:
            with pytest.raises(PenstockError, match="ZIP_DAMAGED") as refusal:
                await provider.read(document, notebook)
        assert refusal.value.code is codes.OCR_ANSWER_INVALID
        assert hosted.calls["submit"] == 1

    async def test_one_that_never_ends_is_left_at_the_limit(self, hosted, document, notebook):
        with Answering(lambda _: Said(200, b"PK" + bytes(3 << 20))) as cdn:
            web = Web(MineruSettings(base_url=cdn.address, max_result_mb=1))
            with pytest.raises(PenstockError, match="RESULT_TOO_LARGE"):
                await web.download(f"{cdn.address}/x.zip", document.path.parent / "result")
            await web.close()

    def test_members_and_totals_have_limits(self, tmp_path):
        data = results.archive("hosted", [1])
        path = tmp_path / "big.zip"
        with zipfile.ZipFile(path, "w") as packed:
            packed.writestr("full.md", bytes(3 << 20))
            packed.writestr("other.md", bytes(3 << 20))
        big = path.read_bytes()
        assert reason_for(path, big, max_member_mb=2) == "ZIP_MEMBER_TOO_LARGE"
        assert reason_for(path, big, max_unpacked_mb=5) == "ZIP_TOO_LARGE"
        path.write_bytes(data)
        parcel = open_parcel(path, MineruSettings())
        assert parcel.markdown()
        parcel.close()

    def test_a_member_is_read_no_further_than_it_says(self, tmp_path):
        """Announced as a few bytes, packed as many."""
        path = tmp_path / "lying.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("full.md", b"x" * 5_000_000)
        data = path.read_bytes().replace((5_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
        path.write_bytes(data)
        with closing(open_parcel(path, MineruSettings())) as parcel, pytest.raises(ZipDamaged):
            parcel.markdown()

    def test_a_directory_is_measured_before_it_is_loaded(self, tmp_path):
        end = b"PK\x05\x06" + bytes(6) + b"\xff\xff" + (17 << 20).to_bytes(4, "little") + bytes(6)
        assert reason_for(tmp_path / "x", b"PK\x03\x04" + bytes(100) + end) == "ZIP_DIRECTORY_TOO_LARGE"
        large_form = b"PK\x06\x07" + bytes(16) + b"PK\x05\x06" + bytes(18)
        assert reason_for(tmp_path / "x", b"PK\x03\x04" + bytes(100) + large_form) == "ZIP_DIRECTORY_TOO_LARGE"

    @pytest.mark.parametrize("seed", range(3))
    def test_noise_in_an_archive_never_crashes(self, tmp_path, seed):
        chance, good = random.Random(seed), results.archive("v3", [1, 2])
        for number in range(60):
            data = bytearray(good)
            for _ in range(chance.randint(1, 30)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            path = tmp_path / str(number)
            path.write_bytes(data[: chance.choice((len(data), chance.randrange(len(data))))])
            try:
                with closing(open_parcel(path, MineruSettings())) as parcel:
                    parcel.markdown(), parcel.content_list(), parcel.middle(), parcel.image(results.image_name(1))
            except (ZipDamaged, PenstockError):
                continue


class TestWhatIsInside:
    @pytest.mark.parametrize(
        ("name", "data"),
        [
            ("x_content_list.json", b"[{"),
            ("x_content_list.json", b'{"a": 1}'),
            ("x_content_list.json", b'[{"type": "text", "page_idx": -1}]'),
            ("x_content_list.json", b'[{"type": "text", "page_idx": 900000000}]'),
            ("x_content_list.json", b"[" * 100_000),
            ("x_content_list.json", b"[]"),
            ("layout.json", b'{"pdf_info": 3}'),
            ("layout.json", b'{"pages": [{"page_idx": 7, "blocks": []}]}'),
            ("layout.json", b"{}"),
            ("readme.txt", b"hello"),
        ],
    )
    async def test_nonsense_is_refused(self, document, notebook, name, data):
        made = document.path.parent / "made.zip"
        with zipfile.ZipFile(made, "w") as packed:
            packed.writestr(name, data)
        async with _service_with(made.read_bytes()) as provider:
            with pytest.raises(PenstockError) as refusal:
                await provider.read(document, notebook)
        assert refusal.value.code is codes.OCR_ANSWER_INVALID

    async def test_odd_boxes_and_missing_pictures_are_warned_of(self, document, notebook):
        made = document.path.parent / "made.zip"
        listed = (
            '[{"type":"text","text":"a\\u0000b","page_idx":0,"bbox":[900,900,-50,2000]},'
            '{"type":"text","text":"flat","page_idx":0,"bbox":[1,1,1,1]},'
            '{"type":"image","img_path":"images/gone.jpg","page_idx":0},'
            '{"type":"image","img_path":"images/evil.jpg","page_idx":0,"bbox":[0,0,10,10]},'
            '{"type":"table","table_body":"<table><tr></tr></table>","page_idx":1,"bbox":[0,0,10,10]}]'
        )
        with zipfile.ZipFile(made, "w") as packed:
            packed.writestr("a_content_list.json", listed)
            packed.writestr("full.md", "![](images/evil.jpg) ![](https://example.com/x.png)")
            packed.writestr("images/evil.jpg", b"<script>alert(1)</script>")
        async with _service_with(made.read_bytes()) as provider:
            reading = await provider.read(document, notebook)
        first = await notebook.page(1)
        assert first.spans[0].text == "a\N{REPLACEMENT CHARACTER}b"
        assert [first.spans[0].box.x0, first.spans[0].box.y1] == [0, 1]
        assert {"box_missing", "image_missing"} <= set(first.warnings)
        assert [image.key for image in first.images] == [None, None]
        assert (await notebook.page(2)).tables == []
        assert "https://example.com/x.png" in reading.markdown
        assert b"<script>" not in await notebook.everything()


@asynccontextmanager
async def _service_with(archive: bytes):
    """A 2.x server that answers with just this."""
    absent = Said(404, {"detail": "Not Found"})
    with Answering(lambda asked: Said(200, archive) if asked.method == "POST" else absent) as server:
        async with provider_at(server.address) as provider:
            yield provider


class TestLinks:
    @pytest.mark.parametrize("knob", ["link", "upload_link"])
    @pytest.mark.parametrize(
        ("link", "reason"),
        [
            ("http://example.com/x.zip", "LINK_NOT_HTTPS"),
            ("file:///etc/passwd", "LINK_MALFORMED"),
            ("https://user:secret@example.com/x.zip", "LINK_MALFORMED"),
            ("http://[::1/x", "LINK_MALFORMED"),
            ("gopher://127.0.0.1/", "LINK_MALFORMED"),
        ],
    )
    async def test_a_link_that_is_no_good_is_not_followed(self, hosted, document, notebook, knob, link, reason):
        hosted.behave(**{knob: link})
        async with provider_at(hosted.base_url) as provider:
            with pytest.raises(PenstockError) as refusal:
                await provider.read(document, notebook)
        assert (refusal.value.code, refusal.value.details["reason"]) == (codes.OCR_ANSWER_INVALID, reason)
        assert "example.com" not in str(refusal.value)

    @pytest.mark.parametrize(
        "address", ["127.0.0.1", "10.0.0.8", "169.254.169.254", "[::1]", "[::ffff:10.0.0.1]", "100.64.0.1", "localhost"]
    )
    async def test_a_service_in_the_world_does_not_send_us_into_our_own_network(self, address, tmp_path):
        web = Web(MineruSettings(base_url="https://198.41.0.4/api/v4"))  # public, and never called here
        with pytest.raises(PenstockError) as refusal:
            await web.download(f"https://{address}/x.zip", tmp_path / "result")
        assert refusal.value.details["reason"] == "LINK_TO_PRIVATE"
        await web.close()

    async def test_redirects_are_judged_as_links_are(self, tmp_path):
        with Answering(lambda _: Said(302, b"", {"Location": "http://example.com/x.zip"})) as cdn:
            web = Web(MineruSettings(base_url=cdn.address))
            with pytest.raises(PenstockError, match="LINK_NOT_HTTPS"):
                await web.download(f"{cdn.address}/x.zip", tmp_path / "result")
            await web.close()

    async def test_redirects_end(self, tmp_path):
        with Answering(lambda asked: Said(302, b"", {"Location": asked.path + "x"})) as cdn:
            web = Web(MineruSettings(base_url=cdn.address))
            with pytest.raises(PenstockError, match="TOO_MANY_REDIRECTS"):
                await web.download(f"{cdn.address}/x.zip", tmp_path / "result")
            assert len(cdn.asked) == 4
            await web.close()

    async def test_the_connection_goes_to_the_address_that_was_checked(self, tmp_path, monkeypatch):
        """A name that leads elsewhere a moment later does not matter."""
        answers = iter([["127.0.0.1"], ["192.0.2.1"]])
        real = socket.getaddrinfo

        def changing(host, port, **options):
            if host == "cdn.test":
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers)[0], port))]
            return real(host, port, **options)

        monkeypatch.setattr(socket, "getaddrinfo", changing)
        with Answering(lambda _: Said(404)) as cdn:
            port = cdn.address.rpartition(":")[2]
            web = Web(MineruSettings(base_url=f"http://cdn.test:{port}"))
            with pytest.raises(LinkDead):
                await web.download(f"http://cdn.test:{port}/x.zip", tmp_path / "result")
            assert cdn.asked[0].headers["host"] == f"cdn.test:{port}"
            await web.close()


class TestTheToken:
    async def test_it_is_in_no_log_error_note_or_metadata(self, document, notebook, tmp_path):
        heard: list[object] = []
        with structlog.testing.capture_logs() as lines:
            for family in ("hosted", "v4"):
                async with Mineru(family).running() as service, provider_at(service.base_url) as provider:
                    book = await opened(tmp_path / family)
                    heard += [await provider.read(document, book), provider.version, await book.everything()]
                    for fault in (-10002, 500, 400, "gateway"):
                        service.behave(faults={"submit": [fault] * 2}, message=f"bad header Bearer {TOKEN}")
                        with pytest.raises(PenstockError) as refusal:
                            await provider.read(document, await opened(tmp_path / f"{family}{fault}"))
                        heard += [str(refusal.value), refusal.value.details, repr(refusal.value.__cause__)]
                    heard += [repr(provider), repr(vars(provider)["_settings"])]
        assert lines
        assert TOKEN not in f"{lines}{heard}"

    async def test_it_goes_to_the_service_and_not_to_its_links(self, hosted, document, notebook):
        async with provider_at(hosted.base_url) as provider:
            await provider.read(document, notebook)
        with_token = {seen.path.split("/")[1] for seen in hosted.seen if "authorization" in seen.headers}
        without = {seen.path.split("/")[1] for seen in hosted.seen if "authorization" not in seen.headers}
        assert (with_token, without) == ({"api"}, {"upload", "cdn"})
        assert not any(TOKEN in seen.target for seen in hosted.seen)


class TestTidiness:
    async def test_no_file_is_left_behind(self, hosted, document, notebook, tmp_path, monkeypatch):
        monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
        (tmp_path / "temporary").mkdir()
        monkeypatch.setattr("tempfile.tempdir", None)
        async with provider_at(hosted.base_url) as provider:
            await provider.read(document, notebook)
            hosted.behave(flaw="bomb")
            with pytest.raises(PenstockError):
                await provider.read(document_of(tmp_path / "other", 3), await opened(tmp_path / "other-book"))
        assert list((tmp_path / "temporary").iterdir()) == []

    async def test_cancelling_ends_it_at_once(self, hosted, document, notebook):
        hosted.behave(states=["running"])
        async with provider_at(hosted.base_url, poll_first_seconds="60", poll_most_seconds="60") as provider:
            reading = asyncio.create_task(provider.read(document, notebook))
            while not notebook.told:
                await asyncio.sleep(0.01)
            began = time.monotonic()
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
        assert time.monotonic() - began < 30

    async def test_a_long_call_gives_signs_of_life(self, document, notebook, monkeypatch):
        monkeypatch.setattr("penstock.extraction.providers.mineru.errand._LIFE_SECONDS", 0.01)
        async with Mineru("v2").running() as service, provider_at(service.base_url) as provider:
            service.behave(delay=0.3)
            await provider.read(document, notebook)
        assert notebook.told.count((0, 2)) >= 3
