"""The Python client, as its users run it."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.integration.uploads.conftest import Place
from tests.support.programs import start_python


def begun(place: Place, file: Path, **more: Any) -> "subprocess.Popen[str]":
    given = {"endpoint": place.endpoint, "token": place.token, "file": str(file), "retries": 300, **more}
    given["chunk_size"] = given.get("chunk_size", 200_000)
    return start_python(
        "-m", "tests.support.tuspy_client", json.dumps(given), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def address(client: "subprocess.Popen[str]") -> str:
    said, complaints = client.communicate(timeout=60)
    assert client.returncode == 0, complaints
    return said.strip()


class TestUploading:
    def test_a_file_arrives_whole(self, place: Place, file: Path, content: bytes):
        assert place.is_whole(address(begun(place, file, chunk_size=1 << 30)), content)

    def test_in_chunks_with_checksums_too(self, place: Place, file: Path, content: bytes):
        assert place.is_whole(address(begun(place, file, checksum=True)), content)

    def test_its_name_may_be_of_any_language(self, place: Place, file: Path, content: bytes):
        uploaded = address(begun(place, file, filename="价目表 2026.pdf"))
        assert place.is_whole(uploaded, content)
        assert place.gateway.row(uploaded)["filename"] == "价目表 2026.pdf"


class TestTrouble:
    def test_a_connection_that_drops_is_made_anew_and_the_upload_goes_on(
        self, place: Place, file: Path, content: bytes
    ):
        place.network.cut_after(700_000)
        assert place.is_whole(address(begun(place, file)), content)
        assert place.network.cuts == 1
        assert len(place.uploads()) == 1

    def test_another_process_goes_on_where_one_was_killed(
        self, place: Place, file: Path, content: bytes, tmp_path: Path
    ):
        storage = str(tmp_path / "addresses.json")
        place.network.stall_after(700_000)
        first = begun(place, file, storage=storage)
        place.network.until_stopped()
        first.kill()
        first.communicate()
        place.network.cut()
        place.network.mend()
        assert place.is_whole(address(begun(place, file, storage=storage)), content)
        assert len(place.uploads()) == 1
        assert place.network.passed < 1.8 * len(content)  # it did not begin anew

    def test_a_server_that_was_killed_goes_on_with_it(self, place: Place, file: Path, content: bytes):
        place.network.stall_after(700_000)
        client = begun(place, file)
        place.network.until_stopped()
        place.gateway.kill()
        place.network.cut()
        place.network.mend()
        place.gateway.start()
        assert place.is_whole(address(client), content)
        assert len(place.uploads()) == 1
