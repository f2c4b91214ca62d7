"""Five levels, key by key; every value knows who said it and what was said before."""

import pytest

from penstock.harvest.compiling.merge import STRENGTH, Level, merge
from penstock.harvest.spec import Sections


def said(level, **sections):
    return Level(level, f"{level}.yaml", sections)


class TestStrength:
    def test_without_any_level_the_built_in_values_hold(self):
        merged = merge([])
        assert Sections.model_validate(merged.sections) == Sections()
        assert {origin.level for origin in merged.origins.values()} == {"platform"}

    @pytest.mark.parametrize("strongest", STRENGTH[1:])
    def test_the_strongest_level_that_speaks_wins(self, strongest):
        speaking = STRENGTH[1 : STRENGTH.index(strongest) + 1]
        merged = merge([said(name, retry={"maxAttempts": 1 + STRENGTH.index(name)}) for name in speaking])
        origin = merged.origins["retry.maxAttempts"]
        assert merged.sections["retry"]["maxAttempts"] == 1 + STRENGTH.index(strongest)
        assert (origin.level, origin.origin) == (strongest, f"{strongest}.yaml")

    def test_the_order_in_which_levels_are_given_does_not_count(self):
        levels = [said(name, rateLimit={"qps": number}) for number, name in enumerate(STRENGTH[1:], 1)]
        assert merge(reversed(levels)) == merge(levels)

    def test_of_two_levels_of_one_name_the_later_wins(self):
        merged = merge([Level("section", "one", {"retry": {"maxAttempts": 2}}),
                        Level("section", "two", {"retry": {"maxAttempts": 3}})])  # fmt: skip
        assert merged.origins["retry.maxAttempts"].origin == "two"

    def test_what_was_overridden_is_kept_the_strongest_first(self):
        merged = merge([said("source", retry={"maxAttempts": 2}), said("run", retry={"maxAttempts": 9})])
        before = merged.origins["retry.maxAttempts"].overrode
        assert [(origin.level, origin.value) for origin in before] == [("source", 2), ("platform", 5)]

    def test_a_level_that_does_not_exist_is_an_error(self):
        with pytest.raises(ValueError, match="tuple"):
            merge([said("planet")])


class TestShapes:
    def test_a_section_keeps_what_the_stronger_level_does_not_mention(self):
        merged = merge(
            [said("source", window={"align": "day"}), said("section", window={"watermarkKey": "updated_at"})]
        )
        assert (merged.sections["window"]["align"], merged.sections["window"]["watermarkKey"]) == ("day", "updated_at")

    def test_a_template_is_merged_by_key(self):
        merged = merge([
            said("source", http={"queryTemplate": {"mailto": "a@example.org", "rows": "10"}}),
            said("section", http={"queryTemplate": {"rows": "20"}}),
        ])  # fmt: skip
        assert merged.sections["http"]["queryTemplate"] == {"mailto": "a@example.org", "rows": "20"}
        assert merged.origins["http.queryTemplate.mailto"].level == "source"

    def test_null_takes_a_key_of_a_template_away_and_who_did_it_is_kept(self):
        merged = merge([
            said("source", http={"queryTemplate": {"mailto": "a@example.org"}}),
            said("endpoint", http={"queryTemplate": {"mailto": None}}),
        ])  # fmt: skip
        assert merged.sections["http"]["queryTemplate"] == {}
        assert "http.queryTemplate.mailto" not in merged.origins
        removed = merged.removed["http.queryTemplate.mailto"]
        assert (removed.level, removed.overrode[0].value) == ("endpoint", "a@example.org")

    def test_a_key_that_was_taken_away_can_come_back(self):
        merged = merge([
            said("source", params={"q": "a"}), said("endpoint", params={"q": None}), said("run", params={"q": "b"})
        ])  # fmt: skip
        assert merged.sections["params"] == {"q": "b"}
        assert merged.removed == {}
        assert [origin.value for origin in merged.origins["params.q"].overrode] == [None, "a"]

    def test_null_for_a_setting_is_a_value(self):
        merged = merge([said("source", pagination={"maxPage": 7}), said("run", pagination={"maxPage": None})])
        assert merged.sections["pagination"]["maxPage"] is None
        assert merged.origins["pagination.maxPage"].level == "run"

    def test_lists_replace(self):
        merged = merge(
            [said("source", retry={"retryableStatus": [500]}), said("run", retry={"retryableStatus": [503]})]
        )
        assert merged.sections["retry"]["retryableStatus"] == [503]

    def test_a_group_that_is_absent_until_now_brings_its_built_in_values(self):
        merged = merge([said("source", auth={"oauth2": {"tokenUrl": "https://id.example.org"}})])
        assert merged.sections["auth"]["oauth2"]["refresh"] is True
        assert merged.origins["auth.oauth2.refresh"].level == "platform"
        assert merged.origins["auth.oauth2.tokenUrl"].level == "source"
        assert "auth.oauth2" not in merged.origins

    def test_a_group_can_be_taken_back(self):
        merged = merge([said("source", count={"queryTemplate": {"rows": "0"}}), said("run", count=None)])
        assert merged.sections["count"] is None
        assert [key for key in merged.origins if key.startswith("count")] == ["count"]
        (before,) = merged.origins["count"].overrode
        assert (before.level, before.value) == ("source", {"queryTemplate.rows": "0"})

    def test_keys_that_nothing_reads_are_set_aside(self):
        merged = merge([said("source", pagination={"page_size": 5, "pageSize": 6}, htpp={})])
        assert set(merged.unknown) == {"pagination.page_size", "htpp"}
        assert merged.sections["pagination"]["pageSize"] == 6
