"""`penstock send` to a bucket of S3's kind: the same promises, with bytes that go in parts."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support import phone_page, s3
from tests.support.cutting_proxy import CuttingProxy
from tests.support.direct_system import DirectSystem
from tests.support.phone_page import A_PART, ANNOUNCE, COMPLETE, LOOK, SETUP
from tests.support.phones import recorded
from tests.support.send_shell import document

PART = 5 * 1024**2
SIZE = 3 * PART + PART // 2  # four parts
MIDDLE = PART + PART // 2  # the first is there, the second is not


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with s3.s3_server() as address:
        yield address


@pytest.fixture(scope="module")
def road(bucket: str) -> Iterator[CuttingProxy]:
    with CuttingProxy(httpx.URL(bucket).port) as road:
        yield road


@pytest.fixture(scope="module")
def bucket_settings(road: CuttingProxy) -> dict[str, str]:
    return {
        "DIRECT_BUCKET_URL": f"s3://{s3.BUCKET}", "DIRECT_ENDPOINT": road.address, "DIRECT_PART_BYTES": str(PART),
        "DIRECT_S3_ACCESS_KEY": "test", "DIRECT_S3_SECRET_KEY": "test",
    }  # fmt: skip


@pytest.fixture
def network(road: CuttingProxy) -> Iterator[CuttingProxy]:
    yield road
    road.mend()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "holiday.mp4"
    made.write_bytes(recorded(SIZE).content)
    return made


@pytest.fixture
def arrived(system: DirectSystem, bucket: str) -> Callable[[dict[str, Any], Path], None]:
    """Complete, with the right bytes, told once, and nothing left over."""

    def check(upload: dict[str, Any], file: Path) -> None:
        row = system.until_ended(upload["upload_id"])
        assert row["status"] == "completed"
        assert system.told(upload["upload_id"]).count("video.upload.completed") == 1
        raw = s3.client(bucket)
        assert raw.get_object(Bucket=s3.BUCKET, Key=row["object_name"])["Body"].read() == file.read_bytes()
        assert raw.list_multipart_uploads(Bucket=s3.BUCKET).get("Uploads", []) == []
        raw.close()

    return check


class TestSending:
    def test_several_files_arrive_and_a_second_time_there_is_nothing_to_do(self, shell, network, file, arrived):
        other = file.with_name("short.mp4")
        other.write_bytes(recorded(1000).content)
        done = shell.run(str(file), str(other), PENSTOCK_DEBUG="1", PENSTOCK_LOG_LEVEL="debug")
        assert done.returncode == 0, done.stdout + done.stderr
        assert [line.split(" ")[:2] for line in done.stdout.splitlines()] == [["✓", "holiday.mp4"], ["✓", "short.mp4"]]
        assert "X-Amz" not in done.stdout + done.stderr
        before = network.passed
        again = shell.run(str(file), "--json")
        assert again.returncode == 0
        arrived(document(again)["upload"], file)
        assert network.passed - before < PART
        assert list(shell.notes.iterdir()) == []


class TestWithCurl:
    def test_the_lines_of_the_page_send_a_film(self, system, network, file, arrived):
        file.write_bytes(recorded(PART + 1000).content)
        steps = (SETUP, ANNOUNCE, A_PART, A_PART, COMPLETE, LOOK)
        said = phone_page.run_page(system, file.parent, *steps)
        assert said[:2] == ["200", "200"]
        arrived(phone_page.opened(file.parent), file)


class TestGoingOn:
    def test_after_ctrl_c_and_worse_only_missing_parts_are_sent(self, shell, terminal, network, file, arrived):
        network.stall_after(MIDDLE)
        first = terminal(str(file))
        network.until_stopped(60)
        first.until("/18.4 MB", 60)
        first.interrupt()
        assert first.end(60) == 130
        assert "Run the same command again to go on" in first.text
        assert "Traceback" not in first.text
        network.cut()  # what the network still held is lost
        network.stall_after(MIDDLE)
        second = shell.start(str(file))
        network.until_stopped(60)
        second.send_signal(signal.SIGKILL)
        assert "going on at 28%" in second.communicate()[1]
        network.cut()
        network.mend()
        before = network.passed
        third = shell.run(str(file), "--json")
        assert third.returncode == 0, third.stdout + third.stderr
        assert network.passed - before < SIZE - 2 * PART + PART // 2
        arrived(document(third)["upload"], file)

    def test_a_server_that_is_killed_and_started_again_is_waited_for(self, system, shell, network, file, arrived):
        before = network.passed
        network.stall_after(MIDDLE)
        running = shell.start(str(file), "--json")
        network.until_stopped(60)
        system.serve.kill()
        network.cut()
        network.mend()
        system.serve.start()
        out, error = running.communicate(timeout=60)
        assert running.returncode == 0, out + error
        arrived(json.loads(out)["upload"], file)
        assert network.passed - before < SIZE + PART

    def test_killed_after_the_last_byte_and_once_more_it_sends_nothing_again(self, shell, network, file, arrived):
        assert shell.run(str(file), PENSTOCK_FAILPOINT="client.all_parts_sent=kill").returncode == -signal.SIGKILL
        before = network.passed
        assert shell.run(str(file), PENSTOCK_FAILPOINT="client.sent_to_bucket=kill").returncode == -signal.SIGKILL
        again = shell.run(str(file), "--json")
        assert again.returncode == 0, again.stdout
        arrived(document(again)["upload"], file)
        assert network.passed - before < PART

    def test_parts_that_were_cut_at_another_size_are_sent_anew(self, system, shell, network, file, arrived):
        network.stall_after(3 * PART + PART // 4)
        first = shell.start(str(file))
        network.until_stopped(60)
        first.kill()
        first.communicate()
        network.cut()
        network.mend()
        system.serve.kill()
        system.serve.settings["DIRECT_PART_BYTES"] = str(2 * PART)  # two parts, and the third is there already
        system.serve.start()
        done = shell.run(str(file), "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        arrived(document(done)["upload"], file)
