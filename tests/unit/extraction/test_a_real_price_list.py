"""A price list as it was published: every row, every price, and where each stands."""

import json

import pytest
from tests.support.pdfs import material
from tests.support.rule_places import HERE
from tests.support.scripted_model import SUBJECT, Text, Told

from penstock.extraction.places import Search
from penstock.extraction.ports import Rule
from penstock.extraction.processors.by_rules import RulesProcessor
from penstock.extraction.spelling import number_of
from penstock.pdf.finishing import read_finished
from penstock.pdf.look import count_pages

DATA = material()
pytestmark = pytest.mark.skipif(DATA is None, reason="the shared test material is not here (PENSTOCK_TEST_DATA)")

PRODUCT = {
    "type": "object",
    "properties": {"cat_no": {"type": "string"}, "price": {"type": "number", "title": "PRICE/EACH"}},
    "required": ["cat_no", "price"],
}
SCHEMA = {"type": "object", "properties": {"products": {"type": "array", "items": PRODUCT}}, "required": ["products"]}


@pytest.fixture(scope="module")
def pages():
    with (DATA / "catalogues" / "sharanggupta__pricelist.pdf").open("rb") as file:
        return [step.page for step in read_finished(file, 1, count_pages(file), {})]


@pytest.fixture(scope="module")
def truth():
    return json.loads((DATA / "catalogues" / "sharanggupta__pricelist.truth.json").read_text())


class TestAPriceList:
    async def test_every_row_is_read_without_a_model(self, pages, truth):
        extract = await RulesProcessor(HERE).process(Rule(2, 1, "r", "rules", SCHEMA), Text("", pages), SUBJECT, Told())
        got = sorted((row["cat_no"], row["price"]) for row in extract.data["products"])
        assert got == sorted((row["model"], float(number_of(row["price"]))) for row in truth)
        assert len(extract.places) == 2 * len(truth)

    def test_every_value_is_found_in_its_row_on_its_page(self, pages, truth):
        search = Search([{"model": row["model"], "price": row["price"]} for row in truth])
        for page in pages:
            search.look_at(page)
        places = search.places()
        for index, row in enumerate(truth):
            [model], [price] = places[f"/{index}/model"], places[f"/{index}/price"]
            assert (model.page, price.page) == (row["page"], row["page"])
            assert abs(model.box.y0 - price.box.y0) < 0.01, row["model"]
