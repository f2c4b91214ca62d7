"""Frames out of a stream of bytes, and following a job through trouble."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.answering import Answering, Asked, Said

from penstock.cli.following import Event, events, frames, line_of, says_the_end
from penstock.cli.remote import Away, Patience, Remote, Token

JOB = "3f0c8a52-1f0e-4b59-9a35-0c6f5b0f6a11"
names = st.from_regex(r"[a-z_]{1,20}", fullmatch=True)
values = st.dictionaries(st.text(max_size=8), st.text(max_size=30), max_size=3)


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_TOKEN", "t")


def frame(event: Event) -> bytes:
    place = b"" if event.place is None else b"id: " + event.place.encode() + b"\n"
    return place + f"event: {event.name}\ndata: {json.dumps(event.data, ensure_ascii=False)}\n\n".encode()


def snapshot(status: str, place: str) -> bytes:
    return frame(Event("snapshot", {"job_id": JOB, "status": status, "progress_percent": 0}, place))


def following(server: Answering, *, wait: float = 5.0) -> list[Event]:
    remote = Remote(server.address, Token(lambda: "t", made_here=False), here=True)
    try:
        return list(events(remote, JOB, Patience(wait, lambda *_: None)))
    finally:
        remote.close()


class TestFrames:
    @given(st.lists(st.builds(Event, names, values, st.none() | names), max_size=4), st.data())
    def test_however_the_bytes_arrive_the_events_are_the_same(self, sent, data):
        whole = b"retry: 5000\n\n" + b"".join(map(frame, sent))
        cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
        parts = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
        assert list(frames(parts)) == sent

    def test_line_ends_inside_a_text_are_no_line_ends(self):
        event = Event("page_completed", {"text": "one\u2028two\x85three\x0bfour"}, "1-0-aa")
        assert list(frames([frame(event)])) == [event]

    @given(st.data())
    def test_carriage_returns_are_line_ends_too(self, data):
        whole = frame(Event("a", {"x": "1"}, "7")).replace(b"\n", b"\r\n") * 2
        cut = data.draw(st.integers(0, len(whole)))
        assert list(frames([whole[:cut], whole[cut:]])) == [Event("a", {"x": "1"}, "7")] * 2

    def test_comments_broken_json_and_half_frames_are_passed_over(self):
        assert list(frames([b": hello\n\n", b"data: {nonsense\n\n", b"event: x\ndata: {}\n"])) == []


class TestTheEnd:
    @pytest.mark.parametrize(
        ("event", "ended"),
        [
            (Event("snapshot", {"status": "CANCELLED"}), True),
            (Event("snapshot", {"status": None}), True),
            (Event("snapshot", {"status": "PROCESSING"}), False),
            (Event("job_completed", {"entity": "job", "to": "FULL_IMPORTED"}), True),
            (Event("job_completed", {"entity": "job", "to": "PARTIAL_IMPORTED"}), False),
            (Event("job_failed", {"entity": "job", "to": "ORPHANED"}), False),
            (Event("page_completed", {"entity": "page", "to": "IMPORTED_CONFIRMED"}), False),
            (Event("heartbeat", {"ts": "now"}), False),
        ],
    )
    def test_it_is_what_the_server_says_of_the_job(self, event, ended):
        assert says_the_end(event) is ended


class TestFollowing:
    def test_it_comes_back_with_the_last_id_until_it_has_heard_all(self):
        page = frame(Event("page_completed", {"entity": "page", "page_no": 7}, "5-0-aa"))
        answers = iter([
            Said(body=snapshot("PROCESSING", "4-0-aa"), cut=True),
            Said(503, {"code": "SERVICE_UNAVAILABLE", "message": "Not now"}),
            Said(body=page),
            Said(204),
        ])  # fmt: skip
        with Answering(lambda _: next(answers)) as server:
            heard = following(server)
        assert [event.place for event in heard] == ["4-0-aa", "5-0-aa"]
        assert [asked.headers.get("last-event-id") for asked in server.asked] == [
            None, "4-0-aa", "4-0-aa", "5-0-aa",
        ]  # fmt: skip

    def test_it_ends_with_the_last_event_without_asking_again(self):
        with Answering(lambda _: Said(body=snapshot("REJECTED", "1-0-aa"))) as server:
            assert len(following(server)) == 1
        assert len(server.asked) == 1

    def test_a_server_that_stays_away_is_given_up(self):
        with Answering(lambda _: Said()) as server:
            pass
        with pytest.raises(Away):
            following(server, wait=0.3)

    def test_streams_that_say_nothing_are_given_up(self):
        with Answering(lambda _: Said(body=b"retry: 5000\n\n")) as server, pytest.raises(Away):
            following(server, wait=0.3)


class TestTheCommand:
    def test_programs_get_a_line_for_each_event(self, run):
        def answer(asked: Asked) -> Said:
            return Said(body=snapshot("CANCELLED", "1-0-aa")) if asked.path.endswith("/events") else Said(body={})

        with Answering(answer) as server:
            code, said, _ = run("job", JOB, "--follow", "--json", "--server", server.address)
        assert code == 0
        [line] = said.splitlines()
        assert json.loads(line) == {
            "id": "1-0-aa", "event": "snapshot",
            "data": {"job_id": JOB, "status": "CANCELLED", "progress_percent": 0},
        }  # fmt: skip

    @pytest.mark.parametrize("name", ["nonsense", "../workers", f"{JOB}/cancel", ""])
    def test_what_is_no_id_never_becomes_an_address(self, run, name):
        with Answering(lambda _: Said()) as server:
            code, _, error = run("job", name, "--server", server.address)
        assert (code, server.asked) == (1, [])
        assert "is not a job's id" in error


class TestLines:
    def test_a_page_says_which_and_how_it_changed(self):
        data = {"page_no": 7, "from": "AI_PROCESSING", "to": "AI_COMPLETED"}
        assert "page 7  AI_PROCESSING → AI_COMPLETED" in line_of(Event("page_completed", data)).plain

    def test_a_message_is_in_the_terminals_language(self, monkeypatch):
        data = {"to": "CANCELLED", "message": "no", "sentences": {"message": {"en": "cancelled", "zh": "已取消"}}}
        assert "cancelled" in line_of(Event("job_failed", data)).plain
        monkeypatch.setenv("LANG", "zh_CN.UTF-8")
        assert "已取消" in line_of(Event("job_failed", data)).plain

    def test_control_characters_do_not_reach_the_terminal(self):
        assert "\x1b" not in line_of(Event("x", {"to": "\x1b[2J"})).plain
