"""A process killed exactly between two lines of a direct upload: what is lost, what is told twice, what lies around?

All deaths happen first, each over a file of its own; then one worker looks after everything, and each is looked at.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.uploads.direct.callback import receive
from penstock.uploads.direct.opening import open_upload
from tests.chaos.direct_actors import PHONE, TROUBLE, content_of, wish_of
from tests.chaos.direct_stage import DirectStage, Victim
from tests.support.shelf import SECRET, pushed

OPENING = ("direct.announced", "direct.signed")
REOPENING = ("direct.moved_aside", "direct.reopening", "direct.announced", "direct.signed")
RECEIVING = ("direct.received", "direct.finishing", "direct.video_moved", "direct.finished", "direct.recorded")
FINDING = (
    "direct.claimed", "direct.looked", "direct.finishing", "direct.video_moved", "direct.finished", "direct.settling",
    "direct.settled",
)  # fmt: skip
BECOMING = ("direct.claimed", "direct.became", "direct.settling", "direct.settled")
MOVING_ASIDE = ("direct.claimed", "direct.moved_aside", "direct.settled")
GIVING_UP = ("direct.claimed", "direct.looked", "direct.settling", "direct.settled")
WRONG = b"something else"


@pytest.fixture(scope="module")
def stage(module_home: Path) -> Iterator[DirectStage]:
    made = DirectStage(module_home)
    made.open()
    try:
        yield made
    finally:
        made.close()


def opened(stage: DirectStage, name: str, content: bytes | None = None) -> bytes:
    """An announced file, in the bucket if there is content; returns what the bucket says of it."""
    row = stage.do(open_upload(stage.desk, PHONE, wish_of(name))).row
    return b"" if content is None else pushed(stage.shelf.put(row["object_name"], content))


def received(stage: DirectStage, name: str, content: bytes) -> bytes:
    body = opened(stage, name, content)
    stage.do(receive(stage.desk, body))
    return body


def healed(stage: DirectStage) -> None:
    """One worker, after all the deaths, until nothing is due but what cannot be done."""
    stage.bury()
    stage.process("healer", "work")
    due = f"select 1 from catalog.uploads where due_at <= now() and original_filename not like '{TROUBLE}%%'"
    stage.wait_for(lambda: not stage.query(f"{due} or leased_until is not null", {}), 60, "all is done")
    stage.actors["healer"].terminate()
    assert stage.actors["healer"].wait(60) == 0, stage.log("healer")


def judged_complete(stage: DirectStage, name: str) -> None:
    row = stage.row(name)
    told = stage.events(row["upload_id"])
    assert (row["status"], row["due_at"]) == ("completed", None)
    assert told.count("video.upload.completed") == 1
    assert told.count("direct_upload.completed") == 1
    made = stage.query(
        "select status from catalog.videos where raw_file_reference = %(r)s", {"r": f"gs://shelf/{row['object_name']}"}
    )
    assert made == [("processing",)]
    became = stage.query("select 1 from chaos_heard where entity = %(id)s", {"id": row["upload_id"]})
    assert 1 <= len(became) <= 2  # twice only if it died in between: whoever does it makes it the same


def all_wrong(names: list[str], judge) -> dict[str, str]:
    wrong = {}
    for name in names:
        try:
            judge(name)
        except AssertionError as failure:
            wrong[name] = str(failure)
    return wrong


@pytest.mark.timeout(240)
class TestKilledAt:
    def test_any_line_of_an_announcement_there_is_one_upload_and_the_phone_goes_on(self, stage: DirectStage):
        victims = [Victim(f"opens-{point}", "open", point) for point in OPENING]
        for point in REOPENING:
            received(stage, f"reopens-{point}", WRONG)
            victims.append(Victim(f"reopens-{point}", "open", point))
        stage.kill_all(victims)

        def judge(name: str) -> None:
            again = stage.do(open_upload(stage.desk, PHONE, wish_of(name)))
            row = stage.row(name)
            is_second = name.startswith("reopens")
            assert again.start is not None
            assert (str(again.row["upload_id"]), row["status"]) == (row["upload_id"], "pending")
            assert row["opened_count"] == 1 + is_second
            assert stage.events(row["upload_id"]).count("direct_upload.pending") == 1 + is_second
            kept = [each for each in stage.shelf.kept() if row["upload_id"] in each or each == row["object_name"]]
            assert kept == ([row["aside_name"]] if is_second else [])

        assert all_wrong([victim.name for victim in victims], judge) == {}

    def test_any_line_after_the_bytes_are_there_the_upload_is_complete_and_told_once(self, stage: DirectStage):
        """Whether the notification comes again, as it must after no answer, or not, as it must not."""
        victims = []
        for does, points, prefix in (
            ("receive", RECEIVING, "again"), ("receive", RECEIVING, "never"), ("attend", FINDING, "found"),
        ):  # fmt: skip
            for point in points:
                name = f"{prefix}-{point}"
                victims.append(Victim(name, does, point, opened(stage, name, content_of(name))))
        for point in BECOMING:
            name = f"becomes-{point}"
            victims.append(Victim(name, "attend", point, received(stage, name, content_of(name))))
        stage.kill_all(victims)
        bodies = {victim.name: victim.body for victim in victims}
        answers = {name: stage.do(receive(stage.desk, body)) for name, body in bodies.items() if "never" not in name}
        assert set(answers.values()) <= {"completed", "duplicate"}
        healed(stage)
        assert all_wrong(list(bodies), lambda name: judged_complete(stage, name)) == {}
        late = {stage.do(receive(stage.desk, body)) for body in bodies.values()}
        assert late == {"duplicate"}

    def test_any_line_of_a_failure_nothing_lies_in_the_way_and_it_is_told_once(self, stage: DirectStage):
        victims = []
        for point in MOVING_ASIDE:
            received(stage, f"aside-{point}", WRONG)
            victims.append(Victim(f"aside-{point}", "attend", point))
        for point in GIVING_UP:
            opened(stage, f"expires-{point}")
            stage.change("opened_at = now() - interval '30 days'", f"expires-{point}")
            victims.append(Victim(f"expires-{point}", "attend", point))
        stage.kill_all(victims)
        healed(stage)

        def judge(name: str) -> None:
            row = stage.row(name)
            wanted = "MD5_MISMATCH" if name.startswith("aside") else "SESSION_EXPIRED"
            assert (row["status"], row["error_code"], row["due_at"]) == ("failed", wanted, None)
            assert stage.events(row["upload_id"]).count("direct_upload.failed") == 1
            kept = [each for each in stage.shelf.kept() if row["upload_id"] in each or each == row["object_name"]]
            assert kept == ([row["aside_name"]] if name.startswith("aside") else [])

        assert all_wrong([victim.name for victim in victims], judge) == {}


@pytest.mark.timeout(120)
class TestAddressesThatAreSecrets:
    def test_none_is_in_a_log_or_a_trace(self, stage: DirectStage):
        """Whoever has one can write into the bucket. Over all that happened above, and a failure that quotes two."""
        received(stage, TROUBLE, content_of(TROUBLE))
        stage.process("opens", "open", DIRECT_NAME="secret")
        stage.process("fails", "attend", DIRECT_NAME=TROUBLE)
        assert [stage.actors[name].wait(60) for name in ("opens", "fails")] == [0, 0], stage.log("fails")
        assert stage.row(TROUBLE)["looks"] == 1
        written = {file.name: file.read_text(errors="replace") for file in stage.files()}
        assert "ValueError" in written["fails.log"]
        assert "direct.attend" in written["fails.trace"]
        assert "exception" in written["fails.trace"]
        assert [name for name, text in written.items() if SECRET[:24] in text] == []
        assert SECRET in stage.do(open_upload(stage.desk, PHONE, wish_of("secret"))).start.url
