"""Boxes that touch are one region."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.pdf.pages.model import Box
from penstock.pdf.pages.regions import grouped

shares = st.floats(0, 1, allow_nan=False)
boxes = st.builds(
    lambda x, y, w, h: Box(x, y, min(1.0, x + w), min(1.0, y + h)), shares, shares, st.floats(0, 0.2), st.floats(0, 0.2)
)


class TestGroups:
    def test_the_strips_of_a_scan_are_one(self):
        strips = [Box(0, at / 10, 1, (at + 1) / 10) for at in range(10)]
        assert grouped(strips) == [Box(0, 0, 1, 1)]

    def test_what_lies_apart_stays_apart(self):
        apart = [Box(0, 0, 0.2, 0.2), Box(0.5, 0.5, 0.7, 0.7)]
        assert grouped(apart) == apart

    @given(st.lists(boxes, max_size=12))
    def test_every_box_is_in_a_group_and_groups_reach_no_further_than_boxes(self, given_boxes):
        groups = grouped(given_boxes)
        for box in given_boxes:
            assert any(g.x0 <= box.x0 and g.y0 <= box.y0 and g.x1 >= box.x1 and g.y1 >= box.y1 for g in groups)
        for group in groups:
            assert group.x0 in {box.x0 for box in given_boxes}
            assert group.y1 in {box.y1 for box in given_boxes}
