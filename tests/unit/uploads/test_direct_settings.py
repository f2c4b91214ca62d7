"""Settings of direct uploads that could never work are refused at the start."""

import pytest
from pydantic import ValidationError

from penstock.uploads.direct.settings import PDF_POLICY, VIDEO_POLICY, DirectSettings


class TestPolicies:
    @pytest.mark.parametrize("taken", ["name", "folder", "content_types"])
    def test_each_has_its_own(self, taken):
        same = PDF_POLICY.model_copy(update={taken: getattr(VIDEO_POLICY, taken)})
        with pytest.raises(ValidationError, match="belongs to one policy"):
            DirectSettings(policies=(VIDEO_POLICY, same))

    def test_none_may_use_the_folder_of_what_was_moved_aside(self):
        with pytest.raises(ValidationError, match="quarantine"):
            DirectSettings(policies=(PDF_POLICY.model_copy(update={"folder": "quarantine"}),))
