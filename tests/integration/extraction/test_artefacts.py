"""What a task has left, and what is said where there is nothing yet."""

from dataclasses import replace

import pytest
from tests.support.edge import SECRET
from tests.support.etl import ALICE, EtlPlace, etl_place
from tests.support.pdfs import text_pages

from penstock.extraction import retry, stages
from penstock.extraction.folder import Folder, Manifest
from penstock.extraction.holding import claim
from penstock.extraction.media import media_type_of
from penstock.extraction.ports import Document, Extract, Notebook, Reading
from penstock.extraction.stages import run_stage
from penstock.extraction.states import Stage
from penstock.extraction.submit import Submission, submit
from penstock.kernel import error_codes, json
from penstock.kernel.errors import PenstockError
from penstock.pdf.pages.model import Page

PNG = b"\x89PNG\r\n\x1a\n"


class Provider:
    """A plug-in that reads everything as one page, after as many failures as it is told."""

    name = "local"
    version = "1"

    def __init__(self, task_id: str = "elsewhere-1", failures: int = 0) -> None:
        self._task_id, self._failures = task_id, failures

    async def read(self, document: Document, notebook: Notebook) -> Reading:
        if self._failures:
            self._failures -= 1
            raise PenstockError(error_codes.OCR_UNAVAILABLE)
        await notebook.progress(1, 1)
        return Reading(1, self._task_id, markdown=f"# {document.filename}\n")

    async def close(self) -> None: ...


@pytest.fixture
async def place(environment, tmp_path):
    environment.setenv("PENSTOCK_JWT_SECRET", SECRET)
    environment.setenv("PENSTOCK_REDIS_PREFIX", tmp_path.name)  # tasks are numbered from 1 in every test
    async with etl_place(works=False) as made:
        made.parts.workshop._providers["local"] = Provider()
        yield made


async def change(place: EtlPlace, task_id: int, changes: str) -> None:
    async with place.parts.database.transaction() as tx:
        await tx.execute(f"update etl_task set {changes} where task_id = %s", (task_id,))


async def said(place: EtlPlace, task_id: int, what: str) -> tuple[int, str]:
    answer = await place.http.get(f"/api/v1/etl/tasks/{task_id}/{what}")
    return answer.status_code, answer.json()["code"]


class TestReading:
    async def test_what_is_not_made_yet_is_not_called_gone(self, place):
        task_id = await place.submit(text_pages(1))
        for what in ("markdown", "pages/1", "images/a.png", "result"):
            assert await said(place, task_id, what) == (409, "ETL_NOT_READY")
        await run_stage(place.parts.workshop, Stage.OCR, task_id)
        assert (await place.http.get(f"/api/v1/etl/tasks/{task_id}/markdown")).text == "# a.pdf\n"
        assert await said(place, task_id, "result") == (409, "ETL_NOT_READY")

    async def test_what_was_read_and_is_there_no_more_is_gone(self, place):
        task_id = await place.submit(text_pages(1))
        await run_stage(place.parts.workshop, Stage.OCR, task_id)
        await place.parts.store.delete(f"etl/{task_id}/1/manifest.json")
        assert await said(place, task_id, "markdown") == (409, "ETL_ARTEFACT_GONE")

    async def test_a_picture_is_what_it_was_stored_as(self, place):
        task_id = await place.submit(text_pages(1))
        folder = Folder(place.parts.store, task_id, 1)
        keys = [folder.key(f"images/a.{kind}") for kind in ("gif", "bmp", "png")]
        for key in keys:
            await place.parts.store.put(key, b"GIF8 or whatever")
        await folder.seal(Manifest(folder.key("document.md"), 1, {}, keys, "mineru", "4", "t", {}))
        for kind in ("gif", "bmp", "png"):
            answer = await place.http.get(f"/api/v1/etl/tasks/{task_id}/images/a.{kind}")
            assert (answer.status_code, answer.headers["content-type"]) == (200, f"image/{kind}")
        assert await said(place, task_id, "images/b.png") == (404, "NOT_FOUND")

    def test_a_picture_that_speaks_of_a_pdf_is_a_picture(self):
        assert media_type_of(PNG + b"tEXt made from %PDF-1.7") == "image/png"
        assert media_type_of(b"rubbish %PDF-1.7") == "application/pdf"


class TestListing:
    async def test_of_large_results_a_list_has_the_pointers_only(self, place):
        small, large = await place.submit(text_pages(1)), await place.submit(text_pages(1))
        for task_id, letters in ((small, 10), (large, 100_000)):
            text = "".join(chr(0x4E00 + each % 9000) for each in range(letters))
            result = json.dumps({"data": {"text": text}, "provenance": {}, "output_s3_key": "k"})
            async with place.parts.database.transaction() as tx:
                end = "update etl_task set status = 'completed', finished_at = now(), result = %s where task_id = %s"
                await tx.execute(end, (result, task_id))
        listed = (await place.http.get("/api/v1/etl/tasks")).json()["tasks"]
        assert [task["task_id"] for task in listed] == [large, small]
        assert listed[0]["result"] == {"output_s3_key": "k", "is_large": True}
        assert len(listed[1]["result"]["data"]["text"]) == 10


class TestSubmitting:
    async def test_a_folder_within_another_merchants_inbox_is_not_an_inbox(self, place):
        await place.parts.store.put("inbox/m-1/sub/a.pdf", text_pages(1))
        sub = replace(ALICE, merchant_id="m-1/sub")
        with pytest.raises(PenstockError) as refusal:
            await submit(place.parts.etl, Submission(sub, object_key="inbox/m-1/sub/a.pdf"))
        assert refusal.value.code is error_codes.ETL_SOURCE_NOT_FOUND


class TestRetrying:
    async def test_a_task_that_waits_has_not_ended_whatever_it_is_to_go_on_from(self, place):
        task_id = await place.submit(text_pages(1))
        for stage in Stage:
            with pytest.raises(PenstockError) as refusal:
                await retry.retry(place.parts.etl, task_id, stage, ALICE)
            assert refusal.value.code is error_codes.ETL_NOT_ENDED

    async def test_reading_anew_is_done_by_whoever_reads_now(self, place):
        task_id = await place.submit(text_pages(1))
        await change(place, task_id, "provider = 'mineru'")
        await run_stage(place.parts.workshop, Stage.OCR, task_id)
        assert (await place.ended(task_id))["error"]["code"] == "OCR_NOT_CONFIGURED"
        row = await retry.retry(place.parts.etl, task_id, Stage.OCR, ALICE)
        assert (row["provider"], row["metadata"]) == ("local", {})

    async def test_what_the_earlier_attempt_made_is_not_told_of_the_next(self, place):
        task_id = await place.submit(text_pages(1))
        for stage in Stage:
            await run_stage(place.parts.workshop, stage, task_id)
        assert (await place.ended(task_id))["metadata"].keys() == {"artifacts", "ocr", "postprocess"}
        row = await retry.retry(place.parts.etl, task_id, Stage.POSTPROCESS, ALICE)
        assert row["metadata"].keys() == {"artifacts", "ocr"}


class TestWorking:
    async def test_a_name_from_elsewhere_that_postgresql_cannot_hold_is_made_fit(self, place):
        place.parts.workshop._providers["local"] = Provider("a\x00b" + "c" * 10_000)
        task_id = await place.submit(text_pages(1))
        await run_stage(place.parts.workshop, Stage.OCR, task_id)
        row = (await place.look(task_id)).state
        assert row.phase is Stage.POSTPROCESS
        assert row.facts["artifacts"]["provider_task_id"].startswith("a\N{REPLACEMENT CHARACTER}bc")

    async def test_an_error_with_details_that_are_no_json_ends_the_task_all_the_same(self, place):
        class Careless(Provider):
            async def read(self, document: Document, notebook: Notebook) -> Reading:
                raise PenstockError(error_codes.OCR_REFUSED, path=document.path, page=7)

        place.parts.workshop._providers["local"] = Careless()
        task_id = await place.submit(text_pages(1))
        await run_stage(place.parts.workshop, Stage.OCR, task_id)
        error = (await place.ended(task_id))["error"]
        assert (error["code"], error["details"]["page"]) == ("OCR_REFUSED", 7)

    async def test_what_a_plug_in_says_of_its_keys_is_masked(self, place):
        class Talkative(Provider):
            async def read(self, document: Document, notebook: Notebook) -> Reading:
                raise ValueError("no answer from https://user:hunter2@ocr.example/read?token=abcdef0123456789abcdef")

        place.parts.workshop._providers["local"] = Talkative()
        task_id = await place.submit(text_pages(1))
        await run_stage(place.parts.workshop, Stage.OCR, task_id)
        told = (await place.look(task_id)).state.facts["error"]
        assert "no answer from" in told["reason"]
        assert "hunter2" not in str(told)
        assert "abcdef0123456789" not in str(told)

    async def test_when_it_is_tried_again_nothing_is_said_of_waiting(self, place):
        place.parts.workshop._providers["local"] = Provider(failures=1)
        task_id = await place.submit(text_pages(1))
        await run_stage(place.parts.workshop, Stage.OCR, task_id)
        assert (await place.look(task_id)).state.facts["next_attempt_at"]
        await change(place, task_id, "due_at = now()")
        await run_stage(place.parts.workshop, Stage.OCR, task_id)
        assert (await place.look(task_id)).state.facts["next_attempt_at"] is None

    async def test_the_result_names_pages_to_look_at_twice_also_of_an_attempt_before(self, place):
        class Doubtful(Provider):
            async def read(self, document: Document, notebook: Notebook) -> Reading:
                number = len(await notebook.pages_done()) + 1
                page = Page(number, 100, 100, ocr_share=1.0, warnings=["low_confidence"] if number != 2 else [])
                await notebook.add_page(page)  # stored at once, as it was recognised
                if number < 3:
                    raise PenstockError(error_codes.OCR_UNAVAILABLE)
                return Reading(3, "elsewhere-1")

        place.parts.workshop._providers["local"] = Doubtful()
        task_id = await place.submit(text_pages(3))
        for _ in range(3):
            await change(place, task_id, "due_at = now()")
            await run_stage(place.parts.workshop, Stage.OCR, task_id)
        await run_stage(place.parts.workshop, Stage.POSTPROCESS, task_id)
        said = [{"page": page, "warnings": ["low_confidence"]} for page in (1, 3)]
        assert (await place.ended(task_id))["result"]["warnings"] == said
        assert (await place.http.get(f"/api/v1/etl/tasks/{task_id}/result")).json()["warnings"] == said

    async def test_a_late_workers_result_lies_beside_its_successors(self, place):
        task_id = await place.submit(text_pages(1))
        await run_stage(place.parts.workshop, Stage.OCR, task_id)
        late = await claim(place.parts.etl, task_id, Stage.POSTPROCESS, "late")
        assert late is not None
        await change(place, task_id, "lease_owner = null, leased_until = null")
        await run_stage(place.parts.workshop, Stage.POSTPROCESS, task_id)
        before = (await place.http.get(f"/api/v1/etl/tasks/{task_id}/result")).json()
        folder = Folder(place.parts.store, task_id, 1)
        manifest = await folder.manifest()
        assert manifest is not None
        await stages._store_result(late, folder, replace_id(manifest), Extract(None))
        assert (await place.http.get(f"/api/v1/etl/tasks/{task_id}/result")).json() == before


def replace_id(manifest: Manifest) -> Manifest:
    held = json.loads(json.dump_bytes(manifest)) | {"provider_task_id": "another"}
    return Manifest(**held)
