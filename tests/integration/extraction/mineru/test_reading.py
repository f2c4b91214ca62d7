"""The same document through each family gives the same pages, whatever their units and shapes."""

import asyncio
from dataclasses import dataclass

import httpx
import pytest
from tests.integration.extraction.mineru.conftest import document_of, provider_at
from tests.standins import mineru_results as results
from tests.standins.mineru import Mineru
from tests.support.notebooks import WatchedNotebook, opened

from penstock.extraction.ports import Document, Reading
from penstock.pdf.pages.model import BlockKind, Origin, TableKind

FAMILY_NAMES = {"hosted": "hosted-v4", "v2": "self-hosted-2", "v3": "self-hosted-3", "v4": "self-hosted-4"}


async def read(service, document, notebook, **settings):
    async with provider_at(service.base_url, **settings) as provider:
        return await provider.read(document, notebook)


def near(box, *expected):
    assert [box.x0, box.y0, box.x1, box.y1] == pytest.approx(expected, abs=0.002)


@dataclass
class Done:
    service: Mineru
    document: Document
    notebook: WatchedNotebook
    reading: Reading


@pytest.fixture(scope="module", params=["hosted", "v2", "v3", "v4"])
async def done(request, tmp_path_factory):
    """One document, read once by each family."""
    folder = tmp_path_factory.mktemp(request.param)
    document, notebook = document_of(folder / "document"), await opened(folder / "notebook")
    async with Mineru(request.param).running() as service:
        reading = await read(service, document, notebook)
    return Done(service, document, notebook, reading)


class TestEveryFamily:
    async def test_the_reading_says_who_read_it(self, done):
        reading = done.reading
        assert reading.page_count == 2
        assert reading.metadata["family"] == FAMILY_NAMES[done.service.family]
        assert reading.metadata["pages"] == 2
        assert reading.metadata["seconds"] >= 0
        assert reading.metadata["version"]
        assert reading.provider_task_id
        assert done.service.calls["submit"] == 1

    async def test_boxes_are_shares_of_the_page(self, done):
        for page in await done.notebook.pages():
            near(page.tables[0].box, 0.1, 0.3, 0.9, 0.5)
            near(page.images[0].box, 0.1, 0.6, 0.5, 0.8)
            boxes = [span.box for span in page.spans] + [block.box for block in page.blocks]
            assert all(0 <= box.x0 < box.x1 <= 1 and 0 <= box.y0 < box.y1 <= 1 for box in boxes)

    async def test_blocks_come_in_reading_order_and_name_their_spans(self, done):
        page = await done.notebook.page(2)
        kinds = [block.kind for block in page.blocks if block.kind is not BlockKind.FURNITURE]
        assert kinds[0] is BlockKind.HEADING
        assert kinds.index(BlockKind.TABLE) < kinds.index(BlockKind.IMAGE)
        heading = next(block for block in page.blocks if block.kind is BlockKind.HEADING)
        assert (heading.text, heading.level) == ("Chapter 2", 1)
        paragraph = next(block for block in page.blocks if "begins here" in block.text)
        assert paragraph.text == " ".join(results.text_of(2))
        spans = {span.id: span for span in page.spans}
        assert len(spans) == len(page.spans)
        assert " ".join(spans[name].text for name in paragraph.spans) == paragraph.text
        assert {span.origin for span in page.spans} == {Origin.PROVIDER}
        assert [block.text for block in page.blocks if block.kind is BlockKind.FURNITURE] == ["Catalogue"]

    async def test_tables_have_cells_and_merged_ones_span(self, done):
        page = await done.notebook.page(1)
        table = page.tables[0]
        assert (table.rows, table.columns, table.header_rows, table.kind) == (3, 3, 1, TableKind.PROVIDER)
        found = {(cell.row, cell.column): (cell.text, cell.row_span, cell.column_span) for cell in table.cells}
        assert found == {
            (0, 0): ("Item & size", 1, 2),
            (0, 2): ("Price", 1, 1),
            (1, 0): ("杯子", 2, 1),
            (1, 1): ("small", 1, 1),
            (1, 2): ("3.50", 1, 1),
            (2, 1): ("large", 1, 1),
            (2, 2): ("4.00\nnet", 1, 1),
        }
        spans = {span.id: span.text for span in page.spans}
        assert [spans[name] for cell in table.cells for name in cell.spans] == [cell.text for cell in table.cells]
        assert "cell_boxes_estimated" in page.warnings

    async def test_captions_and_notes_are_kept_around_what_they_belong_to(self, done):
        blocks = (await done.notebook.page(1)).blocks
        at = next(number for number, block in enumerate(blocks) if block.kind is BlockKind.TABLE)
        assert blocks[at - 1].text == results.CAPTION
        assert blocks[at + 1].text == "net prices"
        assert "A cup" in [block.text for block in blocks]

    async def test_pictures_are_stored_and_the_markdown_leads_to_them(self, done):
        reading = done.reading
        for page in await done.notebook.pages():
            key = page.images[0].key
            assert await done.notebook.image(key) == results.picture(page.number)
            assert key.endswith(".png")  # by its bytes, whatever it is called
            assert f"![]({key})" in reading.markdown
        assert "images/000" not in reading.markdown
        assert reading.markdown.startswith("# Chapter 1\n")

    async def test_a_picture_is_a_document_too(self, service, tmp_path, notebook):
        photo = document_of(tmp_path / "photo", media_type="image/png")
        reading = await read(service, photo, notebook)
        assert reading.page_count == 1
        assert await notebook.numbers() == {1}

    async def test_nobodys_file_name_goes_out(self, done):
        sent = b"".join(f"{seen.target}{seen.headers}".encode() + seen.body for seen in done.service.seen)
        assert b"Miller" not in sent
        assert done.document.sha256[:16].encode() in sent

    async def test_progress_is_told_until_the_end(self, done):
        assert done.notebook.told[-1] == (2, 2)
        assert [done for done, _ in done.notebook.told] == sorted(done for done, _ in done.notebook.told)


class TestWhatFamiliesTellMore:
    @pytest.mark.parametrize("family", ["hosted", "v2", "v3"])
    async def test_lines_are_spans_of_their_own_where_they_say_the_same(self, family, document, notebook):
        async with Mineru(family).running() as service:
            await read(service, document, notebook)
        page = await notebook.page(1)
        paragraph = next(block for block in page.blocks if "begins here" in block.text)
        spans = {span.id: span for span in page.spans}
        first, second = (spans[name] for name in paragraph.spans)
        assert (first.text, second.text) == results.text_of(1)
        near(first.box, 0.1, 0.12, 0.8, 0.148)
        assert (first.confidence, second.confidence) == (0.9, 0.91)
        assert (page.width, page.height) == (results.WIDTH, results.HEIGHT)

    async def test_4x_tells_no_page_size_and_the_page_says_so(self, document, notebook):
        async with Mineru("v4").running() as service:
            await read(service, document, notebook)
        page = await notebook.page(1)
        assert (page.width, page.height) == (0, 0)
        assert "page_size_unknown" in page.warnings

    async def test_without_a_content_list_blocks_come_from_points(self, document, notebook):
        async with Mineru("v3").running() as service:
            service.behave(flaw="no_content_list")
            await read(service, document, notebook)
        page = await notebook.page(1)
        near(page.tables[0].box, 0.1, 0.3, 0.9, 0.5)
        assert page.tables[0].cells[0].text == "Item & size"
        assert page.images[0].key is not None
        assert [block.text for block in page.blocks if block.kind is BlockKind.HEADING] == ["Chapter 1"]

    async def test_without_a_layout_the_content_list_is_enough(self, document, notebook):
        async with Mineru("hosted").running() as service:
            service.behave(flaw="only_content_list")
            await read(service, document, notebook)
        page = await notebook.page(2)
        near(page.tables[0].box, 0.1, 0.3, 0.9, 0.5)
        assert page.width == 0

    async def test_a_2x_server_that_answers_in_json_is_read_too(self, document, notebook):
        async with Mineru("v2").running() as service:
            service.behave(answers_json=True)
            reading = await read(service, document, notebook)
        page = await notebook.page(1)
        assert await notebook.image(page.images[0].key) == results.picture(1)
        assert page.images[0].key in reading.markdown

    async def test_extracted_pages_are_progress(self, hosted, document, notebook):
        await read(hosted, document, notebook)
        assert (1, 2) in notebook.told


class TestIncompleteResults:
    @pytest.mark.parametrize("family", ["hosted", "v2", "v3", "v4"])
    async def test_a_page_that_is_left_out_is_named(self, family, document, notebook):
        async with Mineru(family).running() as service:
            service.behave(flaw="partial")
            reading = await read(service, document, notebook)
        assert reading.page_count == 2
        assert reading.metadata["pages_missing"] == [2]
        assert (await notebook.page(2)).warnings == ["missing_from_result"]

    async def test_rows_in_a_wrong_order_find_their_pages(self, hosted, document, notebook):
        hosted.behave(flaw="wrong_order")
        await read(hosted, document, notebook)
        for page in await notebook.pages():
            assert any(block.text == f"Chapter {page.number}" for block in page.blocks)

    async def test_our_row_is_found_among_others(self, hosted, document, notebook):
        hosted.behave(decoys=True)
        assert (await read(hosted, document, notebook)).page_count == 2


class TestSettings:
    async def test_options_go_out_under_the_names_each_family_knows(self, service, document, notebook):
        model = {"hosted": "vlm", "v4": "advanced"}.get(service.family, "pipeline")
        await read(service, document, notebook, model_version=model, language="en", ocr_mode="ocr", formulas=False)
        assert service.calls["submit"] == 1

    async def test_what_a_server_does_not_know_is_refused_by_the_stand_in(self, notebook, document):
        """Or the test above would prove nothing."""
        async with Mineru("v3").running() as service, httpx.AsyncClient(trust_env=False) as client:
            form = {"files": {"files": ("a.pdf", document.path.read_bytes())}, "data": {"is_ocr": "true"}}
            assert (await client.post(f"{service.url}/tasks", **form)).status_code == 422
        async with Mineru("v4", token="").running() as service, httpx.AsyncClient(trust_env=False) as client:
            answer = await client.post(f"{service.url}/v1/tasks?filename=a.pdf&language=en", content=b"%PDF-")
            assert answer.status_code == 400


class TestNotebooks:
    async def test_two_documents_at_once_do_not_mix(self, queueing, tmp_path):
        async with provider_at(queueing.base_url) as provider:
            books = [await opened(tmp_path / f"book-{number}") for number in (1, 3)]
            orders = [
                provider.read(document_of(tmp_path / f"doc-{number}", number), book)
                for number, book in zip((1, 3), books, strict=True)
            ]
            readings = await asyncio.gather(*orders)
        assert [reading.page_count for reading in readings] == [1, 3]
        assert [len(await book.numbers()) for book in books] == [1, 3]
