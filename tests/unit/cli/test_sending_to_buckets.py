"""Buckets that are in trouble of their own, as `penstock send` meets them."""

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from penstock.cli.bucket_session import BucketSession
from penstock.cli.bucket_wire import BucketWire
from penstock.cli.remote import Patience
from penstock.cli.screen import Refusal
from penstock.cli.upload_screen import what_for

FILE = b"film" * 100


@contextmanager
def bucket(answer: Callable[[int], int]) -> Iterator[str]:
    """Keeps nothing; says what it is told to say to the n-th chunk, and that it has nothing when it is asked."""
    chunks = 0

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            nonlocal chunks
            self.rfile.read(int(self.headers["Content-Length"]))
            status = 308
            if "*" not in self.headers["Content-Range"]:
                chunks += 1
                status = answer(chunks)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/o?upload_id=secret"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_TOKEN", "t")


@pytest.fixture
def send(monkeypatch) -> Iterator[Callable[[str], None]]:
    monkeypatch.setattr("time.sleep", lambda _: None)
    wire = BucketWire(here=True)
    session = BucketSession(wire, Patience(5.0, lambda *_: None))
    yield lambda address: session.send(address, io.BytesIO(FILE), len(FILE), 1 << 18, lambda _: None)
    wire.close()


class TestRefusals:
    @pytest.mark.parametrize(
        ("language", "said"), [("C.UTF-8", "There is no such file."), ("zh_CN.UTF-8", "文件不存在。")]
    )
    def test_they_are_said_in_the_persons_language(self, run, monkeypatch, language, said):
        monkeypatch.setenv("LANG", language)
        server = ("--server", "http://127.0.0.1:9")
        code, out, _ = run("send", "none.mp4", *server)
        assert (code, out) == (1, f"✗ none.mp4: {said}\n")
        code, out, _ = run("send", "none.mp4", *server, "--json")
        assert (code, json.loads(out)["error"]) == (1, {"code": None, "message": said})


class TestPatience:
    def test_a_bucket_that_is_busy_is_waited_for_although_it_answers_questions(self, send):
        with bucket(lambda chunk: 503 if chunk < 20 else 200) as address:
            send(address)

    def test_a_bucket_that_takes_no_byte_is_given_up(self, send):
        with bucket(lambda _: 308) as address, pytest.raises(Refusal, match="takes nothing more"):
            send(address)

    def test_what_is_said_of_a_bucket_that_is_away_names_only_its_host(self, monkeypatch):
        monkeypatch.setattr("time.sleep", lambda _: None)
        with bucket(lambda _: 200) as address:
            pass
        wire = BucketWire(here=True)
        with pytest.raises(Refusal) as away:
            BucketSession(wire, Patience(0.0, lambda *_: None)).offset(address, 1)
        wire.close()
        said = away.value.sentence
        assert "bucket" in said.en
        assert "存储桶" in said.zh
        assert what_for(away.value, 7) == "the bucket does not answer; trying again for up to 7 s"
        assert "secret" not in f"{said.en} {said.zh} {away.value!r} {away.value.__cause__!r}"
