"""`penstock send`: a file goes from the command line straight to the bucket, whatever happens on the way."""

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.support import phone_page
from tests.support.direct_system import DirectSystem
from tests.support.phone_page import ANNOUNCE, ASK, BEGIN, LOOK, SEND, SETUP
from tests.support.phones import recorded
from tests.support.send_shell import document

CHUNK = 256 * 1024
CHUNKS = 8
MIDDLE = 3 * CHUNK + CHUNK // 2


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "holiday.mp4"
    made.write_bytes(recorded(CHUNKS * CHUNK).content)
    return made


def arrived(system: DirectSystem, upload: dict[str, Any], file: Path) -> None:
    """Complete, with the right bytes, and told once."""
    row = system.until_ended(upload["upload_id"])
    assert row["status"] == "completed"
    assert system.objects()[row["object_name"]] == file.read_bytes()
    assert system.told(upload["upload_id"]).count("video.upload.completed") == 1


class TestSending:
    def test_it_simply_works_and_a_second_time_there_is_nothing_to_do(self, system, shell, file):
        done = shell.run(str(file))
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.fullmatch(r"✓ holiday\.mp4 \(2\.1 MB\) → video [0-9a-f-]{36}\n", done.stdout)
        before = system.network.passed
        again = shell.chinese(str(file), "--json")
        assert again.returncode == 0
        said = document(again)
        assert (said["file"], said["size"], said["error"]) == (str(file), file.stat().st_size, None)
        assert said["upload"]["status"] == "completed"
        arrived(system, said["upload"], file)
        assert system.network.passed - before < CHUNK
        assert list(shell.notes.iterdir()) == []

    def test_a_type_that_is_not_taken_is_refused_in_the_persons_language(self, shell, file, tmp_path):
        odd = tmp_path / "notes.txt"
        odd.write_text("not a film")
        nameless = tmp_path / "film"
        nameless.write_bytes(file.read_bytes())
        english = shell.run(str(odd), str(nameless), str(tmp_path / "none.mp4"))
        chinese = shell.chinese(str(odd), "--json")
        assert (english.returncode, chinese.returncode) == (1, 1)
        first, second, third = english.stdout.splitlines()
        assert "DIRECT_TYPE_REFUSED" in first
        assert "video/mp4" in first
        assert "--type" in second
        assert third == "✗ none.mp4: There is no such file."
        refused = document(chinese)
        assert (refused["error"]["code"], refused["upload"]) == ("DIRECT_TYPE_REFUSED", None)
        assert re.search(r"[\u4e00-\u9fff]", refused["error"]["message"])


class TestWithCurl:
    def test_the_lines_of_the_page_send_a_film(self, system, file):
        said = phone_page.run_page(system, file.parent, SETUP, ANNOUNCE, BEGIN, SEND, ASK, LOOK)
        assert said[0] == "200"
        assert said[1].startswith("HTTP/1.1 200")
        arrived(system, phone_page.opened(file.parent), file)
        assert json.loads(said[-1])["upload_id"] == phone_page.opened(file.parent)["upload_id"]
        phone_page.run_page(system, file.parent, SETUP, ANNOUNCE)
        assert phone_page.opened(file.parent)["already_completed"]


class TestGoingOn:
    def test_after_ctrl_c_and_worse_only_the_rest_is_sent(self, system, shell, terminal, file):
        network = system.network
        network.stall_after(MIDDLE)
        first = terminal(str(file))
        network.until_stopped(60)
        first.until("/2.1 MB", 60)
        first.interrupt()
        assert first.end(60) == 130
        assert "Run the same command again to go on" in first.text
        assert "Traceback" not in first.text
        assert max(map(len, first.lines)) <= 80
        network.cut()  # what the network still held is lost
        network.stall_after(2 * CHUNK)
        second = shell.start(str(file))
        network.until_stopped(60)
        second.send_signal(signal.SIGKILL)
        assert "going on at" in second.communicate()[1]
        network.cut()
        network.mend()
        before = network.passed
        third = shell.run(str(file), "--json")
        assert third.returncode == 0, third.stdout + third.stderr
        assert network.passed - before < (CHUNKS - 3) * CHUNK
        arrived(system, document(third)["upload"], file)
        assert list(shell.notes.iterdir()) == []

    def test_killed_after_the_last_byte_it_asks_and_sends_nothing_again(self, system, shell, file):
        assert shell.run(str(file), PENSTOCK_FAILPOINT="client.sent_to_bucket=kill").returncode == -signal.SIGKILL
        before = system.network.passed
        again = shell.run(str(file), "--json")
        assert again.returncode == 0, again.stdout
        arrived(system, document(again)["upload"], file)
        assert system.network.passed - before < CHUNK

    def test_a_bucket_that_is_killed_and_started_again_is_waited_for(self, system, shell, file):
        network, before = system.network, system.network.passed
        network.stall_after(MIDDLE)
        running = shell.start(str(file), "--json")
        network.until_stopped(60)
        system.bucket.kill()
        network.cut()
        network.mend()
        system.bucket.start()
        out, error = running.communicate(timeout=60)
        assert running.returncode == 0, out + error
        arrived(system, json.loads(out)["upload"], file)
        assert network.passed - before < file.stat().st_size + 2 * CHUNK

    def test_answers_that_are_lost_or_refused_for_now_are_overcome(self, system, shell, file):
        system.order(fail_after_bytes=1000, lost_answers=1)
        done = shell.run(str(file), "--json")
        assert done.returncode == 0, done.stdout
        arrived(system, document(done)["upload"], file)

    def test_a_session_that_is_gone_is_begun_anew(self, system, shell, file):
        network = system.network
        network.stall_after(MIDDLE)
        first = shell.start(str(file))
        network.until_stopped(60)
        first.kill()
        first.communicate()
        network.cut()
        network.mend()
        [note] = shell.notes.iterdir()
        session = re.search(r'http://[^"]+', note.read_text())[0]
        assert system.bucket.http.delete(session).status_code == 499
        done = shell.run(str(file))
        assert done.returncode == 0, done.stdout + done.stderr
        assert "the bucket has ended the session" in done.stderr
        [row] = system.serve.query("select upload_id from catalog.uploads order by created_at desc limit 1")
        arrived(system, {"upload_id": str(row["upload_id"])}, file)


class TestAVerdictThatIsNo:
    @pytest.mark.parametrize(("language", "said"), [("C.UTF-8", "announced"), ("zh_CN.UTF-8", "不一致")])
    def test_a_file_that_is_changed_while_it_is_sent_is_not_taken(self, system, shell, file, language, said):
        system.network.stall_after(MIDDLE)
        running = shell.start(str(file), LANG=language)
        system.network.until_stopped(60)
        with file.open("r+b") as written:
            written.seek(-10, 2)
            written.write(b"other than")
        system.network.mend()
        out, error = running.communicate(timeout=60)
        assert running.returncode == 1, out + error
        assert "(MD5_MISMATCH)" in out
        assert said in out
        again = shell.run(str(file), "--json")
        assert again.returncode == 0, again.stdout
        arrived(system, document(again)["upload"], file)
