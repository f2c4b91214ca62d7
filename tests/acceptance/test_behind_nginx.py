"""Two servers behind a real nginx, as deploy/nginx sets it up."""

import json
import secrets
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

import pytest
from tests.support.following import completed
from tests.support.gateway import Gateway
from tests.support.instances import Merchant, Reading, revived, two_instances
from tests.support.jobs import fresh
from tests.support.nginx import Nginx
from tests.support.programs import start_python
from tests.support.tus import UPLOADS, id_of

Both = tuple[Gateway, Gateway]
MiB = 1 << 20
HEARTBEATS = 4


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("nginx")


@pytest.fixture(scope="module")
def both(postgres, redis_server, directory) -> Iterator[Both]:
    Nginx(directory, 1, 2)  # no need to start anything where there is no nginx
    with two_instances(postgres, redis_server) as made:
        yield made


@pytest.fixture(scope="module")
def nginx(directory: Path, both: Both) -> Iterator[Nginx]:
    with Nginx(directory, both[0].port, both[1].port) as made:
        yield made


@pytest.fixture
def mortal(both: Both) -> Iterator[Both]:
    with revived(*both):
        yield both


@pytest.fixture
def merchant() -> Merchant:
    return Merchant(f"m-{secrets.token_hex(6)}")


def until_both_serve(nginx: Nginx, both: Both) -> None:
    """An instance that was away is asked again a few seconds after it is back."""
    deadline = time.monotonic() + 20
    while True:
        for _ in both:
            with urllib.request.urlopen(f"{nginx.address}/health/live", timeout=10) as answer:
                assert answer.status == 200
        if {one.by for one in nginx.served("/health/live")[-2:]} == {_at(both[0]), _at(both[1])}:
            return
        assert time.monotonic() < deadline
        time.sleep(0.05)


def until_received(gateway: Gateway, path: str, number: int) -> None:
    deadline = time.monotonic() + 10
    while gateway.row(path)["received"] < number:
        assert time.monotonic() < deadline, gateway.row(path)
        time.sleep(0.02)


def _at(gateway: Gateway) -> tuple[str, ...]:
    return (f"127.0.0.1:{gateway.port}",)


def begun(nginx: Nginx, merchant: Merchant, file: Path, **more: int | bool) -> "subprocess.Popen[str]":
    """tuspy, as its users run it."""
    given = {"endpoint": nginx.address + UPLOADS, "token": merchant.token, "file": str(file), **more}
    return start_python(
        "-m", "tests.support.tuspy_client", json.dumps(given), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def address(client: "subprocess.Popen[str]") -> str:
    said, complaints = client.communicate(timeout=60)
    assert client.returncode == 0, complaints
    return said.strip()


class TestTheFile:
    def test_nginx_has_nothing_to_say_against_it(self, tmp_path: Path):
        checked = Nginx(tmp_path, 8000, 8010).check()
        assert checked.returncode == 0, checked.stderr
        assert "[" not in checked.stderr  # [warn], [emerg]
        assert "test is successful" in checked.stderr

    @pytest.mark.parametrize(
        "path", ["/", UPLOADS, f"{UPLOADS}/upl_1", "/api/v1/jobs", "/api/v1/jobs/1/events", "/api/v1/dashboard/events"]
    )
    def test_an_instance_learns_who_asked_whom_and_how(self, tmp_path: Path, path: str):
        with Recorder() as recorder, Nginx(tmp_path, recorder.server_port, recorder.server_port) as nginx:
            urllib.request.urlopen(nginx.address + path, timeout=10).close()
            [head] = recorder.heads
        assert head["Host"] == f"127.0.0.1:{nginx.port}"
        assert (head["X-Forwarded-For"], head["X-Forwarded-Proto"]) == ("127.0.0.1", "http")
        assert head["Connection"] is None  # it may be used again

    def test_what_watches_is_closed_from_outside(self, tmp_path: Path):
        with Recorder() as recorder, Nginx(tmp_path, recorder.server_port, recorder.server_port) as nginx:
            for path in ("/metrics", "/health"):
                with pytest.raises(urllib.error.HTTPError, match="404"):
                    urllib.request.urlopen(nginx.address + path, timeout=10)
            for path in ("/health/live", "/health/ready"):
                urllib.request.urlopen(nginx.address + path, timeout=10).close()
            assert len(recorder.heads) == 2

    def test_one_address_has_only_so_many_connections(self, tmp_path: Path):
        with Recorder() as recorder, Nginx(tmp_path, recorder.server_port, recorder.server_port) as nginx:
            half = [socket.create_connection(("127.0.0.1", nginx.port)) for _ in range(201)]
            for one in half:  # nginx counts a connection from the end of its headers on
                one.sendall(b"POST /api/v1/uploads HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n")
            with pytest.raises(urllib.error.HTTPError, match="429"):
                until_refused(nginx)
            for one in half:
                one.close()


def until_refused(nginx: Nginx) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        urllib.request.urlopen(nginx.address + "/health/live", timeout=10).close()


class Recorder(ThreadingHTTPServer):
    """Stands where an instance would, and keeps the heads of requests."""

    def __init__(self) -> None:
        self.heads: list = []
        heads = self.heads

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                heads.append(self.headers)
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class TestUploading:
    def test_chunks_go_to_both_instances_and_come_together(
        self, nginx: Nginx, both: Both, merchant: Merchant, tmp_path: Path
    ):
        content = b"%PDF-1.7\n" + secrets.token_bytes(10 * MiB)
        (tmp_path / "upload.pdf").write_bytes(content)
        until_both_serve(nginx, both)
        made = address(begun(nginx, merchant, tmp_path / "upload.pdf", chunk_size=3 * MiB // 2))
        assert made.startswith(nginx.address + UPLOADS)
        assert both[0].row(made)["status"] == "FINISHED"
        assert both[0].bytes_of(made) == content
        chunks = [one for one in nginx.served(id_of(made)) if one.method == "PATCH"]
        assert [one.status for one in chunks] == [204] * 7
        assert {one.by for one in chunks} == {_at(both[0]), _at(both[1])}

    def test_location_is_right_whatever_the_address_of_the_proxy(self, nginx: Nginx, both: Both, merchant: Merchant):
        answer = merchant.tus(nginx.address).create(10)
        assert answer["Location"] == f"{UPLOADS}/{id_of(answer['Location'] or '')}"
        assert merchant.tus(nginx.address).head(answer["Location"] or "").offset == 0

    def test_bytes_go_through_as_they_come_and_a_break_keeps_them(self, nginx: Nginx, both: Both, merchant: Merchant):
        content, tus = secrets.token_bytes(5 * MiB), merchant.tus(nginx.address)
        path = tus.created(len(content))
        with tus.begin_patch(path, 0, len(content), content[: 2 * MiB]) as wire:
            until_received(both[0], path, 2 * MiB)  # while the client is still at it
            wire.send(content[2 * MiB : 3 * MiB])
            until_received(both[0], path, 3 * MiB)
            wire.drop()
        assert tus.head(path).offset == 3 * MiB
        assert tus.patch(path, 3 * MiB, content[3 * MiB :]).status == 204
        assert both[0].bytes_of(path) == content

    def test_a_writer_that_stalls_is_taken_over(self, nginx: Nginx, both: Both, merchant: Merchant):
        content, tus = secrets.token_bytes(2 * MiB), merchant.tus(nginx.address)
        path = tus.created(len(content))
        with tus.begin_patch(path, 0, len(content), content[:MiB]):
            until_received(both[0], path, MiB)
            began = time.monotonic()
            answer = tus.patch(path, MiB, content[MiB:])
            print(f"taken over in {(time.monotonic() - began) * 1000:.0f} ms")  # noqa: T201
            assert answer.status == 204
        assert both[0].bytes_of(path) == content

    def test_refusals_come_through_while_the_client_still_sends(self, nginx: Nginx, both: Both, merchant: Merchant):
        """And are not held against the instances: nobody else is turned away."""
        content, tus = b"x" * (8 * MiB), merchant.tus(nginx.address)
        path = tus.created(len(content))
        refused = [tus.patch(path, 5, content).refusal for _ in range(12)]
        refused += [tus.patch(path, 0, content, authorization="Bearer nobody").refusal for _ in range(12)]
        refused += [merchant.call(nginx.address, "POST", "/none", text="x" * (3 * MiB // 2)).refusal for _ in range(6)]
        assert set(refused) == {(409, "OFFSET_MISMATCH"), (401, "TOKEN_INVALID"), (405, "METHOD_NOT_ALLOWED")}
        assert {one.by for one in nginx.served(id_of(path))} == {_at(both[0]), _at(both[1])}  # none was passed on
        assert "upstream" not in nginx.complaints()


class TestFollowing:
    def test_events_come_one_by_one_and_so_does_the_end(self, nginx: Nginx, both: Both, merchant: Merchant):
        upload = merchant.tus(nginx.address).uploaded(fresh(5))
        job_id = merchant.new_job(nginx.address, upload)
        with merchant.follow(nginx.address, job_id) as follower, Reading(both[0].database_url, job_id) as reading:
            assert follower.expect("snapshot").data["status"] == "UPLOADED"
            for number in range(1, 6):
                reading.go(1)  # the next page only when this one was heard of: whoever holds back ends this
                asked, heard = time.monotonic(), follower.expect("page_completed")
                print(f"page {number} after {(heard.at - asked) * 1000:.0f} ms")  # noqa: T201
                assert heard.data["page_no"] == number
            merchant.cancel(nginx.address, job_id)
            assert [heard.data["to"] for heard in follower.rest()] == ["CANCELLED"]
            assert not follower.broken

    def test_heartbeats_come_when_they_are_due(self, nginx: Nginx, both: Both, merchant: Merchant):
        with merchant.dashboard(nginx.address) as follower:
            follower.expect("snapshot")
            beats = [follower.hear() for _ in range(HEARTBEATS)]
        assert [beat.name for beat in beats] == ["heartbeat"] * HEARTBEATS
        assert beats[-1].at - beats[0].at > 0.5  # 1.5 s; held back they would come together


class TestADeath:
    def test_a_follower_comes_back_and_has_missed_nothing(self, nginx: Nginx, mortal: Both, merchant: Merchant):
        until_both_serve(nginx, mortal)
        job_id = merchant.new_job(nginx.address, merchant.tus(nginx.address).uploaded(fresh(6)))
        with (
            merchant.follow(nginx.address, job_id) as one,
            merchant.follow(nginx.address, job_id) as other,
            Reading(mortal[1].database_url, job_id) as reading,
        ):
            for who in (one, other):
                who.expect("snapshot")  # pages that are done by then are only in there
            reading.go(3)
            heard = {who: who.until(completed(3)) for who in (one, other)}
            mortal[0].kill()
            reading.go(3)
            for who in (one, other):
                heard[who] += who.until(completed(6), or_the_end=True)
            [cut] = [who for who in (one, other) if who.broken]  # two streams are spread over two instances
            with merchant.follow(nginx.address, job_id, cut.last) as again:
                heard[cut] += again.until(completed(6))
        for events in heard.values():
            assert [event.data["page_no"] for event in events if event.name == "page_completed"] == [1, 2, 3, 4, 5, 6]

    def test_requests_go_on_and_it_is_asked_again_when_it_is_back(self, nginx: Nginx, mortal: Both, merchant: Merchant):
        until_both_serve(nginx, mortal)
        mortal[0].kill()
        for _ in range(15):
            assert merchant.call(nginx.address, "GET", "").status == 200
            assert merchant.tus(nginx.address).create(10).status == 201
        mortal[0].start()
        until_both_serve(nginx, mortal)

    def test_an_upload_goes_on(self, nginx: Nginx, mortal: Both, merchant: Merchant, tmp_path: Path):
        content = b"%PDF-1.7\n" + secrets.token_bytes(4 * MiB)
        (tmp_path / "upload.pdf").write_bytes(content)
        client = begun(nginx, merchant, tmp_path / "upload.pdf", chunk_size=50_000, retries=300)
        deadline = time.monotonic() + 20
        while not self.received(mortal[1], merchant) > 500_000:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        mortal[0].kill()
        assert self.received(mortal[1], merchant) < len(content)
        assert mortal[1].bytes_of(address(client)) == content

    def received(self, gateway: Gateway, merchant: Merchant) -> int:
        query = "select coalesce(max(received), 0) as received from tus_uploads where merchant_id = %s"
        return int(gateway.query(query, merchant.name)[0]["received"])
