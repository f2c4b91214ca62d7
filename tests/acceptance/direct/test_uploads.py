"""From a phone straight to the bucket, as a whole: server, worker, scheduler and bucket run; clients of several makers.

Announcing at once, guarding what is there, going on after a kill, being told twice, comparing MD5, giving up: and each
with a bucket that breaks off, loses answers, and tells too much, too late or in the wrong order.
"""

import io
import json
import os
import signal
from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc
import pytest
from google.api_core.exceptions import PreconditionFailed
from tests.support.browser import NodeStorage
from tests.support.bucket import NAME
from tests.support.direct_system import DirectSystem
from tests.support.edge import token
from tests.support.google_phone import GooglePhone
from tests.support.phones import QUANTUM, Phone, Recording, offset_in, recorded
from tests.support.programs import start_python

from penstock.embedded.bucket.keys import prepare_keys
from penstock.embedded.bucket.pushing import Envelope
from penstock.embedded.bucket.settings import BucketSettings
from penstock.kernel.clock import SystemClock
from penstock.rpc.video.v1 import upload_pb2 as wire
from penstock.rpc.video.v1.upload_pb2_grpc import UploadServiceStub

ONCE = ["direct_upload.pending", "video.processing", "direct_upload.completed", "video.upload.completed"]


@pytest.fixture
def film() -> Recording:
    return recorded()


def node(system: DirectSystem, film: Recording, place: Path, **given: Any) -> dict[str, Any]:
    file = place / "film.mp4"
    file.write_bytes(film.content)
    about = {"endpoint": system.bucket.address, "bucket": NAME, "token": system.bucket.token(), "file": str(file)}
    with NodeStorage(**about, **given) as client:
        return client.hear()


def is_complete(system: DirectSystem, upload_id: str, film: Recording) -> dict[str, Any]:
    """Once, with the right bytes, and told once; returns the row."""
    row = system.until_ended(upload_id)
    assert (row["status"], row["md5_hash"], row["size_bytes"]) == ("completed", film.md5, film.size)
    assert system.told(upload_id).count("video.upload.completed") == 1
    assert system.objects()[row["object_name"]] == film.content
    [video] = system.serve.query("select * from catalog.videos where video_id = %s", row["video_id"])
    assert (video["status"], video["container"], float(video["duration_seconds"])) == ("processing", "mp4", 3.0)
    assert video["raw_file_reference"] == f"gs://{NAME}/{row['object_name']}"
    return row


class TestConcurrentInit:
    def test_ten_at_once_are_one_upload_whichever_door_they_take(self, system, phone, film):
        address = f"127.0.0.1:{system.serve.settings['PENSTOCK_GRPC_PORT']}"
        who = [("authorization", f"Bearer {token(seconds=600)}")]
        with grpc.insecure_channel(address) as channel, ThreadPoolExecutor(10) as threads:
            stub = UploadServiceStub(channel)
            asked = wire.InitResumableUploadRequest(**phone.wish(film))
            by_http = [threads.submit(phone.announce, film) for _ in range(5)]
            by_grpc = [threads.submit(stub.InitResumableUpload, asked, metadata=who) for _ in range(5)]
            answers = [each.result() for each in by_http]
            answers += [
                {"upload_id": each.result().upload_id, "object_name": each.result().object_name} for each in by_grpc
            ]
        assert len({each["upload_id"] for each in answers}) == len({each["object_name"] for each in answers}) == 1
        rows = system.serve.query("select * from catalog.uploads where content_md5 = %s", film.md5)
        assert [row["object_name"] for row in rows] == [f"videos/{rows[0]['user_id']}/{film.md5}"]
        upload_id = phone.deliver(film)
        is_complete(system, upload_id, film)
        assert system.told(upload_id) == ONCE
        again = phone.announce(film)
        assert (again["already_completed"], again["resumable_init_url"]) == (True, None)


class TestOverwriteGuard:
    def test_of_two_sessions_the_first_to_end_counts_and_the_second_learns_it_at_its_end(self, system, phone, film):
        opened = phone.announce(film)
        first, second = phone.begin(opened), phone.begin(phone.announce(film))
        assert first != second
        half = 2 * QUANTUM
        assert [offset_in(phone.put(each, film.content, 0, half)) for each in (first, second)] == [half, half]
        assert phone.put(first, film.content, half).status_code == 200
        before = is_complete(system, opened["upload_id"], film)
        assert phone.put(second, film.content, half).status_code == 412
        assert phone.look(opened["upload_id"])["status"] == "completed"
        assert system.row(opened["upload_id"])["gcs_generation"] == before["gcs_generation"]
        assert system.told(opened["upload_id"]) == ONCE

    def test_clients_that_hold_a_key_are_refused_as_well(self, system, phone, film, tmp_path):
        upload_id = phone.send(film)
        name = is_complete(system, upload_id, film)["object_name"]
        with system.official() as there, pytest.raises(PreconditionFailed):
            there.blob(name).upload_from_string(b"other", content_type="video/mp4", if_generation_match=0)
        assert node(system, recorded(), tmp_path, do="save", name=name)["error"] == 412
        seen = node(system, film, tmp_path, do="read", name=name)
        assert (seen["md5"], b64decode(seen["md5Hash"]).hex()) == (film.md5, film.md5)

    def test_what_one_of_them_writes_without_asking_is_noted_and_changes_nothing(self, system, phone, film):
        before = is_complete(system, upload_id := phone.send(film), film)
        violations = system.count("penstock_direct_generation_violation_total")
        with system.official() as there:
            there.blob(before["object_name"]).upload_from_string(b"other", content_type="video/mp4")
        system.until(lambda: len(system.heard(before)) == 2, "the other generation is noted")
        assert system.row(upload_id) == before
        assert system.told(upload_id) == ONCE
        system.until(
            lambda: system.count("penstock_direct_generation_violation_total") == violations + 1, "it is counted"
        )


class TestResume:
    FILM_CHUNKS, SENT = 10, 6

    @pytest.fixture
    def killed(self, system: DirectSystem, phone: Phone, tmp_path: Path) -> tuple[Recording, dict[str, Any], str]:
        """A film, sixty percent of which a process had sent when it was killed; its upload, and its session."""
        film = recorded(self.FILM_CHUNKS * QUANTUM)
        file = tmp_path / "sent.mp4"
        file.write_bytes(film.content)
        opened = phone.announce(film)
        session = phone.begin(opened)
        sixty = self.SENT * QUANTUM
        arguments = ("-m", "tests.support.google_phone", session, str(file), str(sixty))
        sender = start_python(*arguments, stdout=-1)
        said = [int(sender.stdout.readline()) for _ in range(self.SENT)]
        sender.send_signal(signal.SIGKILL)
        assert sender.wait() == -signal.SIGKILL
        sender.stdout.close()
        assert said[-1] == sixty
        asked = phone.asked(session, film.size)
        assert (asked.status_code, asked.headers["range"]) == (308, f"bytes=0-{sixty - 1}")
        assert phone.look(opened["upload_id"])["status"] == "pending"
        return film, opened, session

    def test_google_resumable_media_recovers_and_sends_the_rest(self, system, killed):
        film, opened, session = killed
        before = system.network.passed
        again = GooglePhone(session, io.BytesIO(film.content), film.size)
        again.recover()
        assert again.at == self.SENT * QUANTUM
        while not again.finished:
            again.send_one()
        again.close()
        assert system.network.passed - before < film.size / 2
        is_complete(system, opened["upload_id"], film)

    def test_google_cloud_storage_for_node_goes_on_with_the_same_session(self, system, killed, tmp_path):
        film, opened, session = killed
        before = system.network.passed
        said = node(
            system, film, tmp_path, do="resume", name=opened["object_name"], uri=session, chunk=2 * QUANTUM
        )  # fmt: skip
        assert "error" not in said, said
        assert system.network.passed - before < film.size / 2
        is_complete(system, opened["upload_id"], film)

    def test_plain_http_goes_on_after_the_bucket_was_killed_too(self, system, killed, phone):
        film, opened, session = killed
        system.bucket.kill()
        system.bucket.start()
        start = offset_in(phone.asked(session, film.size))
        assert start == self.SENT * QUANTUM
        assert phone.put(session, film.content, start).status_code == 200
        is_complete(system, opened["upload_id"], film)

    def test_a_bucket_that_breaks_off_in_the_middle_keeps_what_came(self, system, phone, film):
        session = phone.begin(opened := phone.announce(film))
        assert offset_in(phone.put(session, film.content, 0, QUANTUM)) == QUANTUM
        system.order(fail_after_bytes=1000)
        assert phone.put(session, film.content, QUANTUM).status_code == 503
        start = offset_in(phone.asked(session, film.size))
        assert QUANTUM <= start < film.size
        assert phone.put(session, film.content, start).status_code == 200
        is_complete(system, opened["upload_id"], film)

    def test_google_cloud_storage_overcomes_that_by_itself(self, system, phone):
        film = recorded(9 * 1024 * 1024)  # smaller ones it sends at once
        opened = phone.announce(film)
        system.order(fail_after_bytes=2 * 1024 * 1024)
        with system.official() as there:
            blob = there.blob(opened["object_name"], chunk_size=3 * 1024 * 1024)
            blob.upload_from_file(io.BytesIO(film.content), content_type="video/mp4", if_generation_match=0)
        is_complete(system, opened["upload_id"], film)

    def test_a_lost_last_answer_is_found_out_by_asking_for_the_upload(self, system, phone, film):
        opened = phone.announce(film)
        system.order(lost_answers=1)
        assert phone.put(phone.begin(opened), film.content).status_code == 500
        is_complete(system, opened["upload_id"], film)
        # Who has forgotten the session, and that there was one, sends everything again to learn that it is there.
        other = phone.begin(opened)
        assert phone.put(other, film.content).status_code == 412
        assert phone.look(opened["upload_id"])["status"] == "completed"
        assert phone.announce(film)["already_completed"]
        assert system.told(opened["upload_id"]) == ONCE


class TestCallbackIdempotence:
    def test_told_four_times_it_is_done_once(self, system, phone, film):
        before = system.count('penstock_direct_callback_total{outcome="duplicate"}')
        system.order(extra_deliveries=3)
        row = is_complete(system, upload_id := phone.send(film), film)
        system.until(
            lambda: system.count('penstock_direct_callback_total{outcome="duplicate"}') >= before + 3, "all have come"
        )
        assert system.heard(row) == [row["gcs_generation"]]
        assert system.told(upload_id) == ONCE
        assert system.row(upload_id) == row

    def test_told_in_the_wrong_order_what_was_right_stays(self, system, phone, film):
        """Wrong bytes first, then the right ones; the news of both comes late, of the right ones first."""
        system.order(hold_notifications=True, newest_first=True)
        opened = phone.announce(film)
        assert phone.put(phone.begin(opened), film.content[::-1]).status_code == 200
        system.look_now(opened["upload_id"])
        failed = system.until_ended(opened["upload_id"])
        assert (failed["status"], failed["error_code"]) == ("failed", "MD5_MISMATCH")
        again = phone.announce(film)
        assert phone.put(phone.begin(again), film.content).status_code == 200
        system.order(hold_notifications=False)
        row = is_complete(system, opened["upload_id"], film)
        duplicates = 'penstock_direct_callback_total{outcome="duplicate"}'
        system.until(lambda: len(system.heard(row)) == 2 and system.count(duplicates) >= 1, "both have come")
        assert system.row(opened["upload_id"]) == row
        assert system.told(opened["upload_id"]).count("video.upload.completed") == 1

    def test_told_never_it_is_found_and_told_at_last_nothing_is_done_twice(self, system, phone, film):
        found = system.count("penstock_direct_reconciled_total")
        duplicates = system.count('penstock_direct_callback_total{outcome="duplicate"}')
        system.order(hold_notifications=True)
        system.look_now(upload_id := phone.send(film))
        row = is_complete(system, upload_id, film)
        system.until(lambda: system.count("penstock_direct_reconciled_total") == found + 1, "it is counted")
        system.order(hold_notifications=False)
        system.until(
            lambda: system.count('penstock_direct_callback_total{outcome="duplicate"}') > duplicates, "it has come"
        )
        assert (system.row(upload_id), system.told(upload_id)) == (row, ONCE)

    def test_replayed_by_hand_it_is_acknowledged_and_forged_it_is_refused(self, system, phone, film):
        row = is_complete(system, upload_id := phone.send(film), film)
        address = f"{system.serve.address}/_/gcs/callback"
        keys = prepare_keys(system.bucket.directory, system.bucket.address)
        settings = BucketSettings(push_url=address, push_issuer=system.bucket.address)
        genuine = Envelope(keys, settings, system.bucket.address, SystemClock()).token()
        settings = BucketSettings(push_url=address, push_issuer="https://elsewhere.example")
        other = Envelope(keys, settings, "", SystemClock()).token()
        message = json.dumps(self.message(row, row["gcs_generation"])).encode()
        newer = json.dumps(self.message(row, str(int(row["gcs_generation"]) + 1))).encode()
        for credentials, body, status in (
            (genuine, message, 204), (other, newer, 401), ("x", newer, 401), (genuine[:-8] + "AAAAAAAA", newer, 401),
            (genuine, b"no JSON", 204), (genuine, b"{}", 204),
        ):  # fmt: skip
            answer = phone.http.post(address, content=body, headers={"authorization": f"Bearer {credentials}"})
            assert (status, answer.status_code // 100) in ((204, 2), (401, 4)), (status, answer.text)
        assert (system.row(upload_id), system.told(upload_id)) == (row, ONCE)
        assert system.heard(row) == [row["gcs_generation"]]

    def message(self, row: dict[str, Any], generation: str) -> dict[str, Any]:
        from tests.support.shelf import pushed

        from penstock.uploads.direct.ports import ObjectFacts

        facts = ObjectFacts(
            row["bucket"], row["object_name"], generation, row["size_bytes"], row["content_type"], row["md5_hash"]
        )
        return dict(json.loads(pushed(facts)))


class TestMd5Reconciliation:
    def test_other_bytes_fail_are_kept_aside_and_the_file_can_be_sent_again(self, system, phone, film):
        mismatches = system.count("penstock_direct_md5_mismatch_total")
        other = os.urandom(film.size)
        opened = phone.announce(film)
        assert phone.put(phone.begin(opened), other).status_code == 200
        row = system.until_ended(opened["upload_id"])
        assert (row["status"], row["error_code"], row["video_id"]) == ("failed", "MD5_MISMATCH", None)
        assert system.told(opened["upload_id"]) == ["direct_upload.pending", "direct_upload.failed"]
        assert system.count("penstock_direct_md5_mismatch_total") == mismatches + 1
        kept = system.objects()
        assert row["object_name"] not in kept
        assert kept[f"quarantine/{opened['upload_id']}/{row['gcs_generation']}"] == other
        assert phone.send(film) == opened["upload_id"]
        is_complete(system, opened["upload_id"], film)

    def test_a_video_that_waits_for_the_file_goes_on_waiting(self, system, phone, film):
        video = phone.call("POST", "/videos", json={"title": "Holiday"}).json()
        opened = phone.announce(film, video_id=video["video_id"])
        assert phone.put(phone.begin(opened), film.content[::-1]).status_code == 200
        assert system.until_ended(opened["upload_id"])["status"] == "failed"
        assert phone.video(video["video_id"])["status"] == "pending_upload"
        phone.send(film, video_id=video["video_id"])
        assert str(is_complete(system, opened["upload_id"], film)["video_id"]) == video["video_id"]

    def test_a_film_that_is_longer_than_it_was_said_to_be_fails_by_its_bytes(self, system, phone):
        film = recorded(seconds=301)
        row = system.until_ended(phone.send(film, duration_seconds=299))
        assert row["status"] == "completed"
        video = phone.video(str(row["video_id"]))
        assert (video["status"], video["error_code"]) == ("failed", "VIDEO_TOO_LONG")


class TestSessionExpiry:
    def test_what_never_came_is_given_up_counted_and_can_be_begun_again(self, system, phone, film):
        expired = system.count("penstock_direct_session_expired_total")
        opened = phone.announce(film)
        session = phone.begin(opened)
        phone.put(session, film.content, 0, QUANTUM)
        system.look_now(opened["upload_id"], days_later=9)
        row = system.until_ended(opened["upload_id"])
        assert (row["status"], row["error_code"]) == ("failed", "SESSION_EXPIRED")
        system.until(lambda: system.count("penstock_direct_session_expired_total") == expired + 1, "people can be told")
        system.order(expire_sessions=True)
        assert phone.put(session, film.content, QUANTUM).status_code == 410
        system.order(expire_sessions=False)
        assert phone.deliver(film) == opened["upload_id"]
        is_complete(system, opened["upload_id"], film)

    def test_what_comes_after_all_hope_still_counts_if_it_is_right(self, system, phone, film):
        opened = phone.announce(film)
        session = phone.begin(opened)
        system.look_now(opened["upload_id"], days_later=9)
        assert system.until_ended(opened["upload_id"])["status"] == "failed"
        assert phone.put(session, film.content).status_code == 200
        system.until(lambda: system.row(opened["upload_id"])["status"] == "completed", "it came")
        is_complete(system, opened["upload_id"], film)

    def test_six_days_are_not_too_long(self, system, phone, film):
        opened = phone.announce(film)
        system.look_now(opened["upload_id"], days_later=6)
        system.until(lambda: system.row(opened["upload_id"])["looks"] >= 1, "it was looked for")
        assert system.row(opened["upload_id"])["status"] == "pending"


class TestPdfs:
    def test_a_pdf_becomes_a_job(self, system, phone):
        from tests.support.jobs import pdf

        film = Recording(pdf(str(uuid4())), "spring.pdf", "application/pdf")
        row = system.until_ended(phone.send(film, duration_seconds=None))
        assert row["status"] == "completed"
        job = phone.call("GET", f"/jobs/{row['job_id']}").json()
        assert (job["source_file"], job["total_pages"]) == ("spring.pdf", 1)


class TestSecrets:
    def test_no_signature_and_no_session_is_in_any_log(self, system, phone, film):
        """Over all that happened above."""
        session = phone.begin(opened := phone.announce(film))
        phone.put(session, film.content)
        is_complete(system, opened["upload_id"], film)
        written = {path.name: path.read_text(errors="replace") for path in system.files()}
        assert {"serve.log", "worker.log", "scheduler.log", "bucket.log"} <= set(written)
        assert all(written.values())
        secrets = ("X-Goog-Signature", "upload_id=", session.rpartition("=")[2], "PRIVATE KEY")
        assert [(name, each) for name, text in written.items() for each in secrets if each in text] == []
