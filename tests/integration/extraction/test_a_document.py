"""One document from submission to result, with a real worker."""

import pytest
from tests.support.edge import SECRET
from tests.support.etl import EtlPlace, etl_place
from tests.support.pdfs import text_pages

from penstock.extraction.states import RunStatus


@pytest.fixture
async def place(environment):
    environment.setenv("PENSTOCK_JWT_SECRET", SECRET)
    async with etl_place() as made:
        yield made


class TestWithoutARule:
    async def test_a_pdf_becomes_markdown_with_the_default_rule(self, place: EtlPlace):
        task_id = await place.submit(text_pages(2))
        row = await place.ended(task_id)
        assert (row["status"], row["error"]) == ("completed", None)
        markdown = await place.markdown(row)
        assert "<!-- page 2 -->" in markdown
        assert "1.3 The quick brown fox" in markdown
        assert row["result"]["provider_task_id"].startswith("local-")
        assert (await place.look(task_id)).state.status is RunStatus.COMPLETED
