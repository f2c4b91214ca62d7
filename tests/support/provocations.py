"""Requests that must be refused, with what has to happen before: each returns the last answer."""

from tests.support import refused_files as files
from tests.support.callers import JOBS, Caller
from tests.support.tus import Answer, checksum, id_of

UNKNOWN = "upl_nobody"


def same_content_twice(caller: Caller) -> Answer:
    content = files.good()
    caller.job(content)
    return caller.send(content)


def one_key_for_two_requests(caller: Caller) -> Answer:
    upload = caller.upload(files.good())
    assert caller.order(upload, key="order-1").status == 201
    return caller.order(upload, key="order-1", category="shoes")


def third_job_of_a_minute(caller: Caller) -> Answer:
    assert [caller.order(UNKNOWN).status for _ in range(2)] == [404, 404]
    return caller.order(UNKNOWN)


def third_unfinished_upload(caller: Caller) -> Answer:
    for _ in range(2):
        caller.tus.created(10)
    return caller.tus.create(10)


def wrong_checksum(caller: Caller) -> Answer:
    path = caller.tus.created(6)
    return caller.tus.patch(path, 0, b"abcdef", upload_checksum=checksum(b"other"))


def cancelled_upload(caller: Caller) -> Answer:
    path = caller.tus.created(6)
    assert caller.tus.delete(path).status == 204
    return caller.tus.patch(path, 0, b"abcdef")


def requeue(caller: Caller, job_id: str) -> Answer:
    return caller.as_("operator").post(f"{JOBS}/{job_id}/requeue")


def requeued_too_often(caller: Caller) -> Answer:
    """Its workers die again and again."""
    job_id, gateway = caller.job(files.good()), caller.gateway
    gateway.query(
        "insert into worker_heartbeats (worker_id, hostname, takes_jobs) values ('w', 'h', true)"
        " on conflict (worker_id) do update set last_heartbeat = now()"
    )
    orphan = "update pdf_jobs set status = 'ORPHANED', orphaned_at = now() where job_id = %s"
    for _ in range(3):
        gateway.query(orphan, job_id)
        assert requeue(caller, job_id).status == 200
    gateway.query(orphan, job_id)
    return requeue(caller, job_id)


def cancelled_twice(caller: Caller) -> Answer:
    address = f"{JOBS}/{caller.job(files.good())}/cancel"
    assert caller.post(address).status == 200
    return caller.post(address)


def silence(caller: Caller) -> Answer:
    """Half a body, and then nothing."""
    with caller.tus.hold(caller.tus.created(6), 6, b"abc") as wire:
        return wire.answer()


def joining_half_a_part(caller: Caller) -> Answer:
    part = caller.tus.created(6, upload_concat="partial")
    return caller.tus.create(upload_concat=f"final;{part}")


def bytes_for_a_whole(caller: Caller) -> Answer:
    part = caller.tus.uploaded(b"abc", upload_concat="partial")
    return caller.tus.patch(caller.tus.created(upload_concat=f"final;{part}"), 3, b"def")


def cancelling_what_became_a_job(caller: Caller) -> Answer:
    path = caller.tus.uploaded(files.good())
    assert caller.order(id_of(path)).status == 201
    return caller.tus.delete(path)
