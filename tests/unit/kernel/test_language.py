"""Accept-Language, as browsers and programs send it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.errors import Language
from penstock.kernel.language import preferred

ZH, EN = Language.ZH, Language.EN


class TestChoosing:
    @pytest.mark.parametrize(
        ("header", "wanted"),
        [
            ("zh", ZH),
            ("zh-CN", ZH),
            ("zh-TW,zh;q=0.9,en;q=0.8", ZH),
            ("ZH-hans-CN", ZH),
            ("en-US,en;q=0.9,zh;q=0.8", EN),
            ("en;q=0.3,zh;q=0.7", ZH),
            ("fr-FR, de;q=0.9, zh;q=0.1", ZH),
            ("zh;q=0, en;q=0.1", EN),
            ("zh;q=abc, en;q=0.1", EN),
            ("zh;q=1.5, en;q=0.1", EN),
            ("zh;q=nan, en;q=0.1", EN),
            ("zh;level=1, en;q=0.1", EN),
            ("zh , en", ZH),
            ("zhx, en;q=0.2", EN),
        ],
    )
    def test_the_highest_weight_that_we_speak_wins(self, header, wanted):
        assert preferred(header, ZH if wanted is EN else EN) is wanted

    @pytest.mark.parametrize("header", [None, "", "fr, de", "*", ";;;", ",", "zh;q=0"])
    @pytest.mark.parametrize("default", [ZH, EN])
    def test_nothing_we_speak_gives_the_default(self, header, default):
        assert preferred(header, default) is default

    @given(st.text(max_size=200))
    def test_any_header_gives_a_language(self, header):
        assert preferred(header, EN) in Language

    @given(st.permutations(["zh;q=0.9", "en;q=0.8", "fr", "*;q=0.1"]))
    def test_order_does_not_matter_where_weights_differ(self, entries):
        assert preferred(",".join(entries), EN) is ZH
