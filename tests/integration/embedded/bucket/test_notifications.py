"""Whoever wants to know of new objects is told, as Pub/Sub tells."""

import time

import jwt
import msgspec
import pytest
from jwt import PyJWK
from structlog.testing import capture_logs
from tests.support.bucket import NAME, BucketThread, Listener, listening, until


def told(listener: Listener, count: int = 1) -> None:
    until(lambda: len(listener.heard) >= count, f"{count} were told")


class TestTelling:
    def test_the_envelope(self, bucket, listener, name):
        generation = bucket.send(name, b"hello").headers["x-goog-generation"]
        told(listener)
        message = listener.heard[0]["message"]
        assert message["messageId"] == message["message_id"]
        assert message["publishTime"] == message["publish_time"]
        assert message["attributes"] | {
            "eventType": "OBJECT_FINALIZE", "bucketId": NAME, "objectId": name, "objectGeneration": generation,
            "payloadFormat": "JSON_API_V1",
        } == message["attributes"]  # fmt: skip
        assert listener.objects()[0] | {
            "bucket": NAME, "name": name, "generation": generation, "size": "5", "contentType": "video/mp4",
            "md5Hash": "XUFAKrxLKna5cZ2REBfFkg==",
        } == listener.objects()[0]  # fmt: skip

    def test_the_token(self, bucket, listener, name):
        bucket.send(name, b"hello")
        told(listener)
        token = listener.tokens[0]
        published = {key["kid"]: key for key in bucket.http.get(f"{bucket.address}/oauth2/v3/certs").json()["keys"]}
        key = PyJWK(published[jwt.get_unverified_header(token)["kid"]])
        claims = jwt.decode(token, key, algorithms=["RS256"], audience=listener.url, issuer=bucket.address)
        assert claims["exp"] - claims["iat"] == 3600
        assert claims["email_verified"] is True

    def test_it_names_what_was_overwritten(self, bucket, listener, name):
        before = bucket.send(name, b"one").headers["x-goog-generation"]
        bucket.put(bucket.begin(name, generation_match=None), b"two")
        told(listener, 2)
        second = next(each for each in listener.heard if "overwroteGeneration" in each["message"]["attributes"])
        assert second["message"]["attributes"]["overwroteGeneration"] == before

    def test_a_copy_is_told_too(self, bucket, listener, name):
        bucket.send(name, b"one")
        bucket.api("POST", f"/storage/v1/b/{NAME}/o/{name.replace('/', '%2F')}/copyTo/b/{NAME}/o/{name[7:]}")
        told(listener, 2)
        assert listener.names() == [name, name[7:]]

    def test_nothing_is_told_of_an_upload_that_failed(self, bucket, listener, name):
        bucket.send(name, b"one")
        assert bucket.send(name, b"two").status_code == 412
        bucket.send(f"{name}/last", b"x")
        until(lambda: f"{name}/last" in listener.names(), "the last was told")
        assert listener.names().count(name) == 1


class TestTryingAgain:
    @pytest.mark.parametrize("answer", [400, 401, 404, 500, 503, 302])
    def test_whatever_is_no_acknowledgement(self, bucket, listener, name, answer):
        listener.answers.append(answer)
        bucket.send(name, b"x")
        told(listener, 2)
        first, second = listener.heard
        assert first["message"] == second["message"]
        assert (first["deliveryAttempt"], second["deliveryAttempt"]) == (1, 2)

    def test_a_server_that_comes_later(self, tmp_path, name):
        with listening() as gone:
            url = gone.url
        with BucketThread(tmp_path, push_url=url, push_attempts=2, push_wait=0.01) as bucket:
            bucket.send(name, b"x")
            record = next((tmp_path / "bucket" / "objects").iterdir())
            until(lambda: not msgspec.json.decode(record.read_bytes())["notices"], "it was laid aside")
        dead = msgspec.json.decode(next((tmp_path / "bucket" / "dead").iterdir()).read_bytes())
        assert dead["object"]["name"] == name
        with listening() as listener, BucketThread(tmp_path, push_url=listener.url) as bucket:
            bucket.send("next", b"x")
            told(listener)
            assert listener.names() == ["next"]

    def test_one_that_is_always_too_large_is_laid_aside_after_its_tries_and_it_is_said_why(self, tmp_path, name):
        with (
            listening() as listener,
            capture_logs() as said,
            BucketThread(tmp_path, push_url=listener.url, push_attempts=3, push_wait=0.01) as bucket,
        ):
            listener.answers.extend([413] * 9)
            bucket.send(name, b"x")
            record = next((tmp_path / "bucket" / "objects").iterdir())
            until(lambda: not msgspec.json.decode(record.read_bytes())["notices"], "it was laid aside")
            listener.answers.clear()
            bucket.send("next", b"x")
            until(lambda: "next" in listener.names(), "the next is told")
            assert listener.names() == [name] * 3 + ["next"]
        (given_up,) = [each for each in said if each["event"] == "bucket.notification_given_up"]
        assert (given_up["object"], given_up["attempts"], given_up["answer"]) == (name, 3, 413)

    def test_what_was_not_heard_before_a_restart(self, tmp_path, name):
        with listening() as gone:
            url = gone.url
        with BucketThread(tmp_path, push_url=url) as bucket:
            bucket.send(name, b"x")
            bucket.put(bucket.begin(name, generation_match=None), b"y")
            bucket.api("DELETE", f"/storage/v1/b/{NAME}/o/{name.replace('/', '%2F')}")
        with listening() as listener, BucketThread(tmp_path, push_url=listener.url):
            told(listener, 2)
            assert listener.names() == [name, name]
            until(lambda: not list((tmp_path / "bucket" / "objects").iterdir()), "nothing is left of it")


class TestFaults:
    def test_twice(self, bucket, listener, name):
        bucket.faults.extra_deliveries = 2
        bucket.send(name, b"x")
        told(listener, 3)
        assert len({each["message"]["messageId"] for each in listener.heard}) == 1

    def test_late_and_out_of_order(self, bucket, listener, name):
        bucket.faults.hold_notifications = True
        for at in range(3):
            bucket.send(f"{name}/{at}", b"x")
        assert not listener.heard
        bucket.faults.newest_first = True
        bucket.faults.hold_notifications = False
        told(listener, 3)
        assert listener.names() == [f"{name}/{at}" for at in (2, 1, 0)]

    def test_later(self, bucket, listener, name):
        bucket.faults.notification_delay = 0.3
        begun = time.monotonic()
        bucket.send(name, b"x")
        told(listener)
        assert time.monotonic() - begun >= 0.3

    def test_switches_work_over_the_network_when_a_setting_says_so(self, tmp_path, name):
        with BucketThread(tmp_path, fault_switches=True) as bucket:
            answer = bucket.http.post(f"{bucket.address}/_/faults", json={"lost_answers": 1})
            assert answer.status_code == 204
            assert bucket.send(name, b"x").status_code == 500
            for wrong in ({"other": 1}, {"lost_answers": "x"}, []):
                assert bucket.http.post(f"{bucket.address}/_/faults", json=wrong).status_code == 400
