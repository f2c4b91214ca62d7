"""Documents with more pages than the hosted service takes go there in parts and come back as one."""

import pytest
from tests.integration.extraction.mineru.conftest import HURRIED, count_pages, document_of, provider_at
from tests.standins import mineru_results as results
from tests.standins.mineru import Mineru

from penstock.bootstrap import load_settings
from penstock.extraction.ports import Tools
from penstock.extraction.providers.mineru import MineruProvider
from penstock.kernel import error_codes as codes
from penstock.kernel.clock import SystemClock
from penstock.kernel.errors import PenstockError


class TestLongDocuments:
    async def test_they_are_split_at_the_known_limit(self, hosted, tmp_path, notebook):
        document = document_of(tmp_path / "long", 5)
        async with provider_at(hosted.base_url, pages_per_part=2) as provider:
            reading = await provider.read(document, notebook)
        assert [task.numbers for task in hosted.tasks.values()] == [[1, 2], [3, 4], [5]]
        await assert_whole(reading, notebook, 5)
        assert reading.metadata["parts"] == 3
        assert reading.provider_task_id == "batch-1,batch-2,batch-3"
        done = [done for done, _ in notebook.told]
        assert done == sorted(done)
        assert notebook.told[-1] == (5, 5)

    async def test_a_limit_that_is_lower_than_we_thought_is_found(self, hosted, tmp_path, notebook):
        hosted.behave(most_pages=2)
        async with provider_at(hosted.base_url) as provider:
            reading = await provider.read(document_of(tmp_path / "long", 7), notebook)
        await assert_whole(reading, notebook, 7)
        assert all(len(task.numbers) <= 2 for task in list(hosted.tasks.values())[2:])

    async def test_what_was_found_out_is_remembered_by_the_next_attempt(self, hosted, tmp_path, notebook):
        document = document_of(tmp_path / "long", 4)
        hosted.behave(most_pages=2, faults={"result": [None, *[403] * 5]})
        async with provider_at(hosted.base_url) as provider:
            with pytest.raises(PenstockError, match="LINK_DEAD"):
                await provider.read(document, notebook)
            submitted = hosted.calls["submit"]
            hosted.behave(faults={})
            await assert_whole(await provider.read(document, notebook), notebook, 4)
        assert (submitted, hosted.calls["submit"]) == (3, 3)  # too long, then one for each half

    async def test_a_changed_setting_does_not_change_what_is_under_way(self, hosted, tmp_path, notebook):
        document = document_of(tmp_path / "long", 5)
        hosted.behave(faults={"result": [None, *[403] * 5]})
        async with provider_at(hosted.base_url, pages_per_part=2) as provider:
            with pytest.raises(PenstockError, match="LINK_DEAD"):
                await provider.read(document, notebook)
        hosted.behave(faults={})
        async with provider_at(hosted.base_url, pages_per_part=3) as provider:
            await assert_whole(await provider.read(document, notebook), notebook, 5)
        assert [task.numbers for task in hosted.tasks.values()] == [[1, 2], [3, 4], [5]]

    async def test_one_page_that_is_too_many_is_refused(self, hosted, tmp_path, notebook):
        for media_type in ("application/pdf", "image/png"):
            hosted.behave(states=["failed"], err_code=-60006)
            async with provider_at(hosted.base_url) as provider:
                with pytest.raises(PenstockError) as refusal:
                    await provider.read(document_of(tmp_path / "one", 1, media_type), notebook)
            assert (refusal.value.code, refusal.value.details["upstream_code"]) == (codes.OCR_REFUSED, -60006)

    @pytest.mark.parametrize("family", ["v2", "v3", "v4"])
    async def test_a_server_of_ones_own_gets_them_whole(self, family, tmp_path, notebook):
        async with Mineru(family).running() as service, provider_at(service.base_url, pages_per_part=2) as provider:
            await assert_whole(await provider.read(document_of(tmp_path / "long", 5), notebook), notebook, 5)
        assert service.calls["submit"] == 1

    async def test_parts_may_count_their_pages_either_way(self, hosted, tmp_path, notebook):
        hosted.behave(flaw="document_numbers")
        async with provider_at(hosted.base_url, pages_per_part=2) as provider:
            await assert_whole(await provider.read(document_of(tmp_path / "long", 5), notebook), notebook, 5)


async def assert_whole(reading, notebook, pages: int) -> None:
    assert reading.page_count == pages
    assert await notebook.numbers() == frozenset(range(1, pages + 1))
    for page in await notebook.pages():
        assert f"Chapter {page.number}" in [block.text for block in page.blocks]
        assert await notebook.image(page.images[0].key) == results.picture(page.number)
    headings = [line for line in reading.markdown.splitlines() if line.startswith("# ")]
    assert headings == [f"# Chapter {number}" for number in range(1, pages + 1)]


class TestSettingItUp:
    async def test_an_address_and_a_token_are_enough(self, hosted, document, notebook, monkeypatch):
        monkeypatch.setenv("PENSTOCK_MINERU_BASE_URL", f"{hosted.base_url}/")
        monkeypatch.setenv("PENSTOCK_MINERU_TOKEN", hosted.token)
        settings = load_settings().mineru
        provider = MineruProvider(settings.model_copy(update=HURRIED), Tools(SystemClock(), count_pages))
        assert (await provider.read(document, notebook)).page_count == 2
        await provider.close()

    @pytest.mark.parametrize(
        ("given", "said"),
        [({"base_url": ""}, "PENSTOCK_MINERU_BASE_URL"), ({"token": ""}, "PENSTOCK_MINERU_TOKEN")],
    )
    async def test_what_is_missing_is_named_at_the_start(self, given, said):
        with pytest.raises(PenstockError) as refusal:
            async with provider_at(**{"base_url": "https://mineru.net/api/v4", **given}):
                pass
        assert (refusal.value.code, refusal.value.details["missing"]) == (codes.OCR_NOT_CONFIGURED, said)
