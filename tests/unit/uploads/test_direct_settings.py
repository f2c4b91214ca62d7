"""Settings of direct uploads that could never work are refused at the start."""

import pytest
from pydantic import ValidationError

from penstock.uploads.direct.settings import PDF_POLICY, VIDEO_POLICY, DirectSettings, Policy


class TestPolicies:
    @pytest.mark.parametrize("taken", ["name", "folder", "content_types"])
    def test_each_has_its_own(self, taken):
        same = PDF_POLICY.model_copy(update={taken: getattr(VIDEO_POLICY, taken)})
        with pytest.raises(ValidationError, match="belongs to one policy"):
            DirectSettings(policies=(VIDEO_POLICY, same))

    def test_none_may_use_the_folder_of_what_was_moved_aside(self):
        with pytest.raises(ValidationError, match="quarantine"):
            DirectSettings(policies=(PDF_POLICY.model_copy(update={"folder": "quarantine"}),))

    def test_types_are_compared_as_phones_write_them(self):
        named = Policy(name="film", folder="films", content_types=("Video/MP4",), becomes="video")
        assert DirectSettings(policies=(named,)).policy_for("video/mp4; codecs=avc1") is named

    @pytest.mark.parametrize("odd", ["mp4", "video/", "video/mp4; codecs=avc1", "video/*", " video/mp4", ""])
    def test_what_no_phone_could_announce_is_refused(self, odd):
        with pytest.raises(ValidationError):
            Policy(name="film", folder="films", content_types=(odd,), becomes="video")
