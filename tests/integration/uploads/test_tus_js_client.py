"""The JavaScript client in Node, as its users run it."""

import time
from pathlib import Path
from typing import Any

import pytest
from tests.integration.uploads.conftest import Place
from tests.support.browser import NodeUpload

MIDDLE = 700_000
LATE = 1_200_000  # when all parts have begun
CHUNK = 200_000


def begun(place: Place, file: Path, **more: Any) -> NodeUpload:
    return NodeUpload(place.endpoint, place.token, file, **more)


def until_noted(storage: Path) -> None:
    """The client writes down where its upload is, when it knows."""
    deadline = time.monotonic() + 20
    while not (storage.exists() and "ploadUrl" in storage.read_text()):
        assert time.monotonic() < deadline, "it was never written down"
        time.sleep(0.02)


class TestUploading:
    @pytest.mark.parametrize(
        "how",
        [
            {},
            {"chunkSize": CHUNK},
            {"uploadDataDuringCreation": True},
            {"overridePatchMethod": True, "chunkSize": CHUNK},
        ],
        ids=["at once", "in chunks", "with its creation", "by POST"],
    )
    def test_a_file_arrives_whole(self, place: Place, file: Path, content: bytes, how: dict[str, Any]):
        with begun(place, file, **how) as client:
            assert place.is_whole(client.result(), content)
        assert len(place.uploads()) == 1

    def test_a_stream_whose_length_is_known_at_its_end(self, place: Place, file: Path, content: bytes):
        with begun(place, file, deferred=True, chunkSize=CHUNK) as client:
            assert place.is_whole(client.result(), content)

    def test_parts_side_by_side_become_one_file(self, place: Place, file: Path, content: bytes):
        with begun(place, file, parallelUploads=3) as client:
            assert place.is_whole(client.result(), content)
        assert [row["concat"].partition(";")[0] for row in place.uploads()].count("partial") == 3


class TestTrouble:
    @pytest.mark.parametrize(
        "how", [{}, {"chunkSize": CHUNK}, {"parallelUploads": 3}], ids=["whole", "chunks", "parts"]
    )
    def test_a_connection_that_drops_is_made_anew(self, place: Place, file: Path, content: bytes, how: dict[str, Any]):
        place.network.cut_after(MIDDLE)
        with begun(place, file, **how) as client:
            assert place.is_whole(client.result(), content)
        assert place.network.cuts == 1

    def test_a_server_that_was_killed_goes_on_with_it(self, place: Place, file: Path, content: bytes):
        place.network.stall_after(MIDDLE)
        with begun(place, file, chunkSize=CHUNK) as client:
            place.network.until_stopped()
            place.gateway.kill()
            place.network.cut()
            place.network.mend()
            place.gateway.start()
            assert place.is_whole(client.result(), content)
        assert len(place.uploads()) == 1

    @pytest.mark.parametrize("how", [{}, {"parallelUploads": 3}], ids=["whole", "parts"])
    def test_another_process_finds_it_and_goes_on(
        self, place: Place, file: Path, content: bytes, tmp_path: Path, how: dict[str, Any]
    ):
        storage = tmp_path / "addresses.json"
        place.network.stall_after(LATE)
        with begun(place, file, storage=str(storage), **how) as first:
            place.network.until_stopped()
            until_noted(storage)
            first.kill()
        place.network.cut()
        place.network.mend()
        with begun(place, file, storage=str(storage), resume=True, **how) as second:
            assert second.until("found")["number"] == 1
            assert place.is_whole(second.result(), content)
        assert len(place.uploads()) == (4 if how else 1)
        assert place.network.passed < 1.8 * len(content)

    def test_a_pause_on_a_stalled_line_costs_no_waiting(self, place: Place, file: Path, content: bytes):
        place.network.stall_after(MIDDLE)
        with begun(place, file) as client:
            place.network.until_stopped()
            client.tell("pause")
            client.until("paused")
            place.network.mend()
            client.tell("resume")
            assert place.is_whole(client.result(), content)
        assert len(place.uploads()) == 1


class TestCancelling:
    def test_the_upload_is_gone(self, place: Place, file: Path):
        place.network.stall_after(MIDDLE)
        with begun(place, file, chunkSize=CHUNK) as client:
            place.network.until_stopped()
            place.network.mend()
            client.tell("terminate")
            client.until("terminated")
        [row] = place.uploads()
        assert row["status"] == "CANCELLED"
        assert place.is_gone(row["upload_id"])
