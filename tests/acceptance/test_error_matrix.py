"""Everything that can be refused, or fail, on the way from a file to a job: by real requests to a real server.

The table is the promise to clients: status, code, severity, whether to try again, and what `details` hold. Every
row is asked for in Chinese and in English. A code that can be said of a file and has no row here fails a test.
"""

import contextlib
import json
import re
import resource
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from tests.support import provocations
from tests.support import refused_files as files
from tests.support.callers import JOBS, Caller, at_once
from tests.support.gateway import Gateway
from tests.support.places import mounted, needs_root
from tests.support.provocations import UNKNOWN
from tests.support.standalone import Standalone, standalone, stopped, until
from tests.support.tus import UPLOADS, Answer, checksum, metadata

from penstock.api.openapi import FILE_FAULTS
from penstock.kernel.error_codes import REGISTRY

MiB = 1 << 20
LIMITS = {
    "GW_JOB_BURST": "2",
    "GW_JOB_RATE_PER_MIN": "1",
    "GW_TUS_SLOTS_PER_MERCHANT": "2",
    "GW_TUS_CHUNK_TIMEOUT_SEC": "3",
    "GW_TUS_MAX_SIZE_GB": str(1 << 29),  # more than any disk has, so that a file may be allowed and not fit
}
AGAIN, NOT_AGAIN = True, False


@dataclass(frozen=True)
class Row:
    """One refusal. In `details`, `...` stands for any value; other details may come on top."""

    scenario: str
    provoke: Callable[[Caller], Answer]
    status: int
    code: str
    severity: str
    retry: bool
    details: Mapping[str, Any] = field(default_factory=dict)
    issue: str = ""  # what the first thing wrong with a file is told as


def bad_file(scenario: str, made: bytes | Callable[[], bytes], code: str, issue: str, status: int = 400) -> Row:
    """A file that becomes a REJECTED job."""

    def send(caller: Caller) -> Answer:
        return caller.send(made if isinstance(made, bytes) else made())

    return Row(scenario, send, status, code, "error", NOT_AGAIN, {"job_id": ..., "issues": ...}, issue)


FILES = [
    # validation
    bad_file("a picture named .pdf", files.picture, "INVALID_MIME", "no %PDF-"),
    bad_file("1,001 pages", files.too_many_pages, "PAGE_COUNT_EXCEEDED", "1001 pages, 1000 are allowed", 413),
    bad_file("no pages", files.no_pages, "EMPTY_PDF", "no pages"),
    bad_file("cut off in the middle", files.cut_off, "PDF_TRUNCATED", "the end of the file is missing"),
    bad_file("nothing that could be read", files.garbage, "PDF_UNREADABLE", "trailer"),
    # security
    bad_file("a password", files.with_password, "SECURITY_ENCRYPTED_PDF", "password"),
    bad_file("a script", files.with_script, "SECURITY_JAVASCRIPT_EMBEDDED", "JavaScript"),
    bad_file("work without end", files.endless_work, "SECURITY_PARSE_TIMEOUT", "3 s of CPU time"),
    bad_file("too many objects", files.too_many_objects, "SECURITY_OBJECT_COUNT_EXCEEDED", "3000 are allowed"),
    bad_file("a program to start", files.opening("<</S/Launch/F(calc.exe)>>"), "SECURITY_LAUNCH_ACTION", "Launch"),
    bad_file("a form that is sent", files.opening("<</S/SubmitForm/F(x:y)>>"), "SECURITY_SUBMIT_ACTION", "SubmitForm"),
    bad_file("another file", files.opening("<</S/GoToR/F(a.pdf)/D[0/Fit]>>"), "SECURITY_REMOTE_ACTION", "GoToR"),
    bad_file("an address that opens", files.opening("<</S/URI/URI(https://x)>>"), "SECURITY_URI_ACTION", "https://x"),
    bad_file("an attachment", files.with_attachment, "SECURITY_EMBEDDED_FILE", "files"),
    bad_file("a stream that swells", files.bomb, "SECURITY_DECOMPRESSION_BOMB", "inflates beyond"),
    bad_file("a form that draws itself", files.drawing_itself, "SECURITY_RECURSION", "draws itself"),
    bad_file("a page of miles", files.huge_page, "SECURITY_DIMENSIONS_EXCEEDED", "points"),
    bad_file("more memory than allowed", files.too_much_memory, "SECURITY_MEMORY_EXCEEDED", "memory"),
    bad_file("a key said twice", files.saying_two_things, "SECURITY_PARSE_FAILED", "said twice"),
]  # fmt: skip


REQUESTS = [
    # uploads
    Row("a job of an upload that nobody knows", lambda caller: caller.order(UNKNOWN),
        404, "UPLOAD_NOT_FOUND", "error", NOT_AGAIN, {"upload_id": UNKNOWN}),
    Row("bytes for an upload that nobody knows", lambda caller: caller.tus.patch(f"{UPLOADS}/{UNKNOWN}", 0, b"x"),
        404, "UPLOAD_NOT_FOUND", "error", NOT_AGAIN, {"upload_id": UNKNOWN}),
    Row("a chunk at the wrong offset", lambda caller: caller.tus.patch(caller.tus.created(6), 3, b"abc"),
        409, "OFFSET_MISMATCH", "warning", AGAIN, {"offset": 0, "sent": 3}),
    Row("a checksum that does not match", provocations.wrong_checksum,
        460, "CHECKSUM_FAILED", "warning", AGAIN, {"algorithm": "sha1"}),
    Row("bytes for a cancelled upload", provocations.cancelled_upload,
        410, "UPLOAD_GONE", "error", NOT_AGAIN, {"upload_id": ..., "status": "CANCELLED"}),
    Row("a job of half an upload", lambda caller: caller.order(caller.tus.created(6).rpartition("/")[2]),
        409, "UPLOAD_UNFINISHED", "warning", AGAIN, {"offset": 0, "length": 6}),
    Row("a body that stops coming", provocations.silence,
        408, "UPLOAD_STALLED", "warning", AGAIN, {"seconds": 3}),
    Row("a whole of half a part", provocations.joining_half_a_part,
        400, "UPLOAD_CONCAT_INVALID", "error", NOT_AGAIN, {"part": ..., "reason": "it is not finished"}),
    Row("bytes for a whole that was joined", provocations.bytes_for_a_whole,
        403, "UPLOAD_FINAL", "error", NOT_AGAIN, {"upload_id": ...}),
    Row("cancelling an upload that became a job", provocations.cancelling_what_became_a_job,
        409, "UPLOAD_ADMITTED", "warning", NOT_AGAIN, {"upload_id": ..., "job_id": ...}),
    Row("a file larger than allowed", lambda caller: caller.tus.create((1 << 59) + 1),
        413, "FILE_SIZE_EXCEEDED", "error", NOT_AGAIN, {"limit_bytes": 1 << 59}),
    Row("a file of another type", lambda caller: caller.tus.create(3, upload_metadata=metadata(filename="a.exe")),
        400, "INVALID_FILE_TYPE", "error", NOT_AGAIN, {"filename": "a.exe"}),
    Row("too many unfinished uploads", provocations.third_unfinished_upload,
        429, "UPLOAD_SLOTS_FULL", "warning", AGAIN, {"slots": 2, "retry_after": 60}),
    Row("a file larger than the disk", lambda caller: caller.tus.create(1 << 59),
        503, "DISK_FULL", "critical", NOT_AGAIN, {"free_bytes": ..., "needed_bytes": ...}),
    # jobs
    Row("content that was sent before", provocations.same_content_twice,
        409, "FILE_HASH_DUPLICATE", "warning", NOT_AGAIN, {"job_id": ...}),
    Row("one key for two requests", provocations.one_key_for_two_requests,
        422, "IDEMPOTENCY_KEY_REUSED", "error", NOT_AGAIN, {"job_id": ...}),
    Row("jobs faster than allowed", provocations.third_job_of_a_minute,
        429, "RATE_LIMITED", "warning", AGAIN, {"scope": "jobs", "retry_after": ...}),
    Row("requeuing a job that is no orphan", lambda caller: provocations.requeue(caller, caller.job(files.good())),
        409, "JOB_NOT_ORPHANED", "warning", NOT_AGAIN, {"job_id": ..., "status": "UPLOADED"}),
    Row("requeuing an orphan once too often", provocations.requeued_too_often,
        429, "REQUEUE_LIMIT", "warning", NOT_AGAIN, {"job_id": ..., "requeues": 3, "limit": 3}),
    Row("cancelling a job that has ended", provocations.cancelled_twice,
        409, "JOB_TERMINAL", "warning", NOT_AGAIN, {"job_id": ..., "status": "CANCELLED"}),
]  # fmt: skip

OUTAGES = {
    "DB_UNAVAILABLE": Row("PostgreSQL is away", lambda caller: caller.get(JOBS),
                          503, "DB_UNAVAILABLE", "critical", AGAIN),
    "REDIS_UNAVAILABLE": Row("Redis is away", lambda caller: caller.follow("/api/v1/dashboard/events"),
                             503, "REDIS_UNAVAILABLE", "critical", AGAIN, {"retry_after": ...}),
    "DISK_FULL": Row("the disk fills", lambda caller: caller.tus.create(1 << 59),
                     503, "DISK_FULL", "critical", NOT_AGAIN),
}  # fmt: skip

PROMISED = {
    "INVALID_MIME", "PAGE_COUNT_EXCEEDED", "EMPTY_PDF", "FILE_SIZE_EXCEEDED", "FILE_HASH_DUPLICATE", "RATE_LIMITED",
    "SECURITY_ENCRYPTED_PDF", "SECURITY_JAVASCRIPT_EMBEDDED", "SECURITY_PARSE_TIMEOUT",
    "SECURITY_OBJECT_COUNT_EXCEEDED", "UPLOAD_NOT_FOUND", "OFFSET_MISMATCH", "CHECKSUM_FAILED", "JOB_NOT_ORPHANED",
    "REQUEUE_LIMIT", "JOB_TERMINAL", "DB_UNAVAILABLE", "REDIS_UNAVAILABLE", "DISK_FULL",
}  # fmt: skip

both_languages = pytest.mark.parametrize("language", ["zh", "en"])


@pytest.fixture(scope="module")
def place() -> Iterator[Standalone]:
    with standalone(**files.BOUNDS, **LIMITS) as made:
        yield made


@pytest.fixture
def gateway(place: Standalone) -> Gateway:
    return place.gateway


def assert_told(answer: Answer, row: Row, language: str) -> dict[str, Any]:
    """All that the row promises, in the language that was asked for; returns the details."""
    body, known = answer.error, REGISTRY[row.code]
    assert (answer.status, body["code"], body["severity"]) == (row.status, row.code, row.severity), body
    assert known.retryable is row.retry
    assert (body["message"], body["remedy"]) == (getattr(known.message, language), getattr(known.remedy, language))
    for said in (body["message"], body["remedy"]):
        assert bool(re.search(r"[\u4e00-\u9fff]", said)) is (language == "zh")
    assert body["request_id"] == answer["X-Request-Id"]
    details: dict[str, Any] = body["details"]
    assert set(row.details) <= set(details)
    exact = {name: value for name, value in row.details.items() if value is not ...}
    assert {name: details[name] for name in exact} == exact
    if "retry_after" in details:
        assert int(answer["Retry-After"] or 0) >= 1
    return details


class TestRefusedFiles:
    @both_languages
    @pytest.mark.parametrize("row", FILES, ids=lambda row: row.scenario)
    def test_it_is_told_why_and_kept_as_a_rejected_job_that_is_counted_once(self, gateway, row, language):
        caller = Caller(gateway, language)
        before = caller.metric("gateway_security_rejected_total")
        details = assert_told(row.provoke(caller), row, language)
        first = details["issues"][0]
        assert first["code"] == row.code
        assert row.issue in first["detail"]
        job = self.recorded(gateway, details["job_id"], row.code)
        again = assert_told(caller.order(job["upload_id"]), row, language)
        assert again == details
        after = caller.metric("gateway_security_rejected_total")
        grown = {label: value - before.get(label, 0) for label, value in after.items() if value != before.get(label)}
        reason = row.code.removeprefix("SECURITY_").lower()
        assert grown == ({f'{{reason="{reason}"}}': 1} if row.code.startswith("SECURITY_") else {})

    def recorded(self, gateway: Gateway, job_id: str, code: str) -> dict[str, Any]:
        [job] = gateway.query("select * from pdf_jobs where job_id = %s", job_id)
        assert (job["status"], job["error_codes"][0]) == ("REJECTED", code)
        assert job["error_message"] == REGISTRY[code].message.en
        steps = gateway.query("select * from state_transitions where entity_type = 'job' and entity_id = %s", job_id)
        assert [(step["from_status"], step["to_status"]) for step in steps] == [(None, "REJECTED")]
        [event] = gateway.query("select * from outbox_events where entity_type = 'job' and entity_id = %s", job_id)
        assert (event["notice"], event["payload"]["error_code"]) == ("job_failed", code)
        return job

    @both_languages
    def test_blank_pages_are_not_refused_but_go_to_people(self, gateway, language):
        answer = Caller(gateway, language).send(files.document())
        assert answer.status == 201
        job = json.loads(answer.body)
        assert (job["status"], job["route"], job["degrade_reason"]) == ("DEGRADED_HUMAN", "HUMAN_ALL", "prescan_reject")
        assert (job["user_status"], job["error_codes"]) == ("needs_manual", [])
        notices = gateway.query("select notice from outbox_events where entity_id = %s", job["job_id"])
        assert "human_needed" in {each["notice"] for each in notices}
        assert "job_failed" not in {each["notice"] for each in notices}


class TestRefusedRequests:
    @both_languages
    @pytest.mark.parametrize("row", REQUESTS, ids=lambda row: row.scenario)
    def test_it_is_told_why(self, gateway, row, language):
        assert_told(row.provoke(Caller(gateway, language)), row, language)

    def test_what_may_be_tried_again_succeeds_as_the_remedy_says(self, gateway):
        tus = Caller(gateway).tus
        path = tus.created(6)
        assert tus.patch(path, 0, b"abc", upload_checksum=checksum(b"other")).code == "CHECKSUM_FAILED"
        assert tus.patch(path, 0, b"abc", upload_checksum=checksum(b"abc")).status == 204
        assert tus.patch(path, 0, b"abc").code == "OFFSET_MISMATCH"
        assert tus.patch(path, tus.head(path).offset, b"def").status == 204
        assert gateway.bytes_of(path) == b"abcdef"


class TestTheTable:
    def test_every_code_that_can_be_said_of_a_file_has_its_row(self):
        families = {code for code in REGISTRY if code.startswith(("SECURITY_", "PDF_", "VALIDATION_"))}
        assert {row.code for row in FILES} == {code.code for code in FILE_FAULTS} | families

    def test_no_code_that_clients_were_promised_is_left_out(self):
        assert {row.code for row in (*FILES, *REQUESTS, *OUTAGES.values())} >= PROMISED


class TestAFullDisk:
    """Allowed to be written up to some byte, or really full: the offset stays true and the upload goes on later."""

    def fills_and_goes_on(self, gateway: Gateway, language: str, full: Callable[[], Any]) -> None:
        caller, content = Caller(gateway, language), b"%PDF-1.7\n" + bytes(range(256)) * (8 * MiB // 256)
        path = caller.tus.created(len(content))
        assert caller.tus.patch(path, 0, content[:MiB]).status == 204
        with full():
            assert_told(caller.tus.patch(path, MiB, content[MiB:]), OUTAGES["DISK_FULL"], language)
            offset = caller.tus.head(path).offset
            assert MiB <= offset < len(content)
            assert gateway.bytes_of(path) == content[:offset]
        assert caller.tus.patch(path, offset, content[offset:]).status == 204
        assert gateway.bytes_of(path) == content

    @both_languages
    def test_an_upload_that_hits_the_limit_of_its_process_goes_on_when_it_is_raised(self, gateway, language):
        pid = gateway.process.pid

        @contextlib.contextmanager
        def short() -> Iterator[None]:
            before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (6 * MiB, before[1]))
            try:
                yield
            finally:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, before)

        self.fills_and_goes_on(gateway, language, short)

    @needs_root
    @both_languages
    def test_an_upload_that_fills_the_disk_goes_on_when_there_is_room(self, gateway, language):
        with mounted(gateway.home / "uploads", "size=80m") as disk:

            @contextlib.contextmanager
            def full() -> Iterator[None]:
                ballast = disk / "ballast"
                ballast.write_bytes(bytes(74 * MiB))
                try:
                    yield
                finally:
                    ballast.unlink()

            self.fills_and_goes_on(gateway, language, full)

    @needs_root
    @both_languages
    def test_a_job_whose_file_finds_no_room_is_made_when_there_is(self, gateway, language):
        caller = Caller(gateway, language)
        upload = caller.upload(files.good() + b"\n%" * 16_000)
        with mounted(gateway.home / "store", "size=32k"):
            details = assert_told(caller.order(upload), OUTAGES["DISK_FULL"], language)
            assert details["free"] < details["needed"]
            assert gateway.query("select 1 from pdf_jobs where upload_id = %s", upload) == []
        assert caller.order(upload).status == 201


class TestServersThatAreAway:
    @pytest.fixture
    def callers(self, gateway: Gateway) -> list[Caller]:
        return [Caller(gateway, "zh"), Caller(gateway, "en")]

    def test_without_redis_streams_are_refused_and_all_else_works(self, place, callers):
        row = OUTAGES["REDIS_UNAVAILABLE"]
        followed = [(caller, f"{JOBS}/{caller.job(files.good())}/events") for caller in callers]
        assert b"event: snapshot" in row.provoke(callers[0]).body
        with stopped(place.redis):
            until(lambda: callers[0].follow("/api/v1/dashboard/events", events=0).status == 503)
            for caller, events in followed:
                assert_told(row.provoke(caller), row, caller.language)
                assert_told(caller.follow(events), row, caller.language)
                job = f"{JOBS}/{caller.job(files.good())}"
                assert caller.get(job).status == caller.get(JOBS).status == 200
                assert caller.post(f"{job}/cancel").status == 200
                assert caller.get("/health/ready").status == 200
        until(lambda: callers[0].follow("/api/v1/dashboard/events", events=0).status == 200)
        for caller, events in followed:
            assert b"event: snapshot" in caller.follow(events).body

    def test_without_postgresql_every_call_is_refused_and_goes_on_when_it_is_back(self, place, callers):
        row = OUTAGES["DB_UNAVAILABLE"]
        ready = [(caller, caller.upload(files.good())) for caller in callers]
        with stopped(place.postgres):
            asked = [
                (caller.language, call)
                for caller, upload in ready
                for call in (
                    partial(row.provoke, caller),
                    partial(caller.order, upload),
                    partial(caller.tus.create, 10),
                    partial(caller.tus.patch, f"{UPLOADS}/{upload}", 0, b"x"),
                )
            ]
            bodiless = partial(callers[0].tus.head, f"{UPLOADS}/{ready[0][1]}")
            *answers, head = at_once([*(call for _, call in asked), bodiless])
            for (language, _), answer in zip(asked, answers, strict=True):
                assert_told(answer, row, language)
            assert (head.status, head["X-Error-Code"]) == (503, "DB_UNAVAILABLE")
            assert callers[0].get("/health/live").status == 200
        until(lambda: row.provoke(callers[0]).status == 200)
        for caller, upload in ready:
            assert caller.order(upload).status == 201
