"""The model under all stand-ins: seeded, moving in time, with ties, edges, late arrivals and deletions."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from tests.standins.library import Habits, Library
from tests.standins.times import NoDate, reach


class TestSeeds:
    def test_the_same_seed_gives_the_same_history_and_another_seed_another(self):
        assert Library(200, seed=3).revisions() == Library(200, seed=3).revisions()
        assert Library(200, seed=3).revisions() != Library(200, seed=4).revisions()


class TestHistory:
    def test_it_has_what_makes_harvests_hard(self):
        history = Library(2000, days=10).revisions()
        stamps = Counter(entry.updated for entry in history)
        assert max(stamps.values()) > 3  # many at the same instant
        assert any(stamp == stamp.replace(hour=0, minute=0, second=0, microsecond=0) for stamp in stamps)
        assert any(entry.visible > entry.updated for entry in history)  # late arrivals
        assert any(entry.is_deleted for entry in history)
        assert max(entry.version for entry in history) > 2

    def test_a_later_revision_has_a_later_stamp_and_is_served_later(self):
        last = {}
        for entry in Library(2000, days=10).revisions():
            if before := last.get(entry.number):
                assert entry.version == before.version + 1
                assert entry.updated >= before.visible + timedelta(seconds=1)
            last[entry.number] = entry

    def test_no_arrival_is_later_than_the_habits_say(self):
        habits = Habits(late=0.5, late_by=timedelta(seconds=90))
        delays = [entry.visible - entry.updated for entry in Library(500, habits=habits).revisions()]
        assert timedelta(seconds=60) < max(delays) <= timedelta(seconds=90)


class TestTime:
    def test_the_window_over_all_time_is_what_the_source_held_then(self):
        library = Library(800, days=10)
        for days in (0, 2.5, 7, 3, 10):  # also backwards
            library.now = library.start + timedelta(days=days)
            held = {entry.number: entry for entry in library.window("updated", START, END)}
            assert held == library.at(library.now)

    def test_small_steps_give_the_same_order_as_one_large_step(self):
        stepped, jumped = Library(300, days=3), Library(300, days=3)
        stepped.now = stepped.start
        while stepped.now < stepped.end:
            stepped.advance(timedelta(minutes=40))
            stepped.window("updated", START, END)
        jumped.now = stepped.now
        for field in ("updated", "created"):
            assert stepped.window(field, START, END) == jumped.window(field, START, END)

    def test_a_window_is_half_open_and_in_order(self):
        library = Library(800, days=10)
        first, end = library.start + timedelta(days=2), library.start + timedelta(days=4)
        part = library.window("updated", first, end)
        assert part
        assert all(first <= entry.updated < end for entry in part)
        assert part == sorted(part, key=lambda entry: (entry.updated, entry.number))

    def test_it_can_follow_a_clock(self):
        library = Library(100, days=10)
        library.follow(lambda: library.start - timedelta(seconds=1))
        assert library.window("updated", START, END) == []


class TestBounds:
    @pytest.mark.parametrize(
        ("text", "length"),
        [
            ("2026-11-01", timedelta(days=1)),
            ("2026/11/01", timedelta(days=1)),
            ("2026-11-01T15", timedelta(hours=1)),
            ("2026-11-01T15:04", timedelta(minutes=1)),
            ("2026-11-01T15:04:05Z", timedelta(seconds=1)),
            ("2026-11-01T15:04:05.000001", timedelta(microseconds=1)),
            ("2026-11", timedelta(days=30)),
            ("2026", timedelta(days=365)),
        ],
    )
    def test_a_bound_covers_its_smallest_unit(self, text: str, length: timedelta):
        start, end = reach(text)
        assert end - start == length

    def test_what_is_no_date_is_refused(self):
        for text in ("yesterday", "2026-13-01", "2026-11-01 to"):
            with pytest.raises(NoDate):
                reach(text)


START, END = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
