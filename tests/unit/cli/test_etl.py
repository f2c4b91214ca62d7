"""`penstock etl`: what it refuses before it reads, what it writes, and what it leaves behind when it cannot."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from tests.support.page_pdfs import grey_image, photo, picture_page
from tests.support.refused_files import good, with_password
from tests.support.scans import saved_as, scan

from penstock.cli.etl.outputs import Placing, choose_outputs, refused_as
from penstock.cli.etl.rule_choice import read_rule
from penstock.cli.interruptible import run_interruptibly
from penstock.cli.rules.sample import invoice_pdf
from penstock.cli.screen import Refusal
from penstock.kernel.schemas import errors_of

STRICT = "postprocess_mode: rules\njson_schema: {type: object, required: [iban], properties: {iban: {type: string}}}\n"
ASKING = "postprocess_mode: llm\njson_schema: {type: object, properties: {total: {type: number}}}\n"


@pytest.fixture(autouse=True)
def _invoice(tmp_path: Path) -> None:
    Path("invoice.pdf").write_bytes(invoice_pdf())


def names() -> set[str]:
    return {path.name for path in Path().iterdir() if path.name != "state"}


def flat(text: str) -> str:
    return " ".join(text.split())


class TestRefusing:
    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("nothing.pdf",), "There is no file nothing.pdf"),
            (("folder",), "folder is a directory"),
            (("notes.txt",), "ETL_FILE_TYPE"),
            (("empty.pdf",), "empty.pdf is empty"),
            (("invoice.pdf", "--out", "nowhere/"), "nowhere is not a directory"),
            (("invoice.pdf", "--out", "nowhere/x.json"), "nowhere is not a directory"),
            (("invoice.pdf", "--out", "notes.txt/x"), "notes.txt is not a directory"),
            (("invoice.pdf", "--out", "a", "--pages", "a.json"), "is a name of the result itself"),
            (("invoice.pdf", "--rule", "missing.yaml"), "There is no rule missing.yaml"),
            (("invoice.pdf", "--rule", "wrong.yaml"), "wrong.yaml:2:1 postprocess_mode: must be one of"),
            (("invoice.pdf", "--rule", "asking.yaml"), "LLM_NOT_CONFIGURED"),
            (("invoice.pdf", "--rule", "7"), "No database is known"),
            (("invoice.pdf", "--merchant", "two words"), "--merchant two words"),
        ],
    )
    def test_what_cannot_work_is_one_sentence_and_nothing_is_written(self, run, arguments, said):
        Path("folder").mkdir()
        Path("notes.txt").write_text("a note")
        Path("empty.pdf").touch()
        Path("wrong.yaml").write_text("name: x\npostprocess_mode: magic\n")
        Path("asking.yaml").write_text(ASKING)
        before = names()
        code, out, error = run("etl", *arguments)
        assert (code, out) == (1, "")
        assert said in flat(error)
        assert "Traceback" not in error
        assert names() == before

    def test_a_file_over_the_limit_is_not_read(self, run, monkeypatch):
        monkeypatch.setenv("ETL_MAX_FILE_MB", "1")
        Path("large.pdf").write_bytes(b"%PDF-1.7\n" + bytes(2 << 20))
        assert "ETL_FILE_TOO_LARGE" in run("etl", "large.pdf")[2]

    def test_a_model_without_servers_says_what_to_start_in_the_terminals_language(self, run, monkeypatch):
        Path("asking.yaml").write_text(ASKING)
        monkeypatch.setenv("PENSTOCK_LLM_BASE_URL", "http://127.0.0.1:1/v1")
        monkeypatch.setenv("PENSTOCK_LLM_MODEL", "small")
        assert "start `penstock up` in another terminal" in flat(run("etl", "invoice.pdf", "--rule", "asking.yaml")[2])
        monkeypatch.setenv("LANG", "zh_CN.UTF-8")
        assert "请在另一终端启动 penstock up" in run("etl", "invoice.pdf", "--rule", "asking.yaml")[2].replace("\n", "")
        assert names() == {"invoice.pdf", "asking.yaml"}

    def test_a_file_that_cannot_be_opened_says_why(self, run):
        Path("loop.pdf").symlink_to("loop.pdf")
        code, _, error = run("etl", "loop.pdf")
        assert code == 1
        assert "loop.pdf" in error

    def test_a_locked_pdf_ends_with_its_code(self, run):
        Path("locked.pdf").write_bytes(with_password())
        code, out, error = run("etl", "locked.pdf", "--json")
        assert (code, out) == (1, "")
        assert "SECURITY_ENCRYPTED_PDF" in error
        assert names() == {"invoice.pdf", "locked.pdf"}


class TestPlaces:
    def test_somebody_elses_file_is_not_written_over(self):
        Path("invoice.md").write_text("my own notes")
        with pytest.raises(Refusal, match="was not written by this command"):
            choose_outputs(Path("invoice.pdf"), None, None, is_forced=False)
        assert choose_outputs(Path("invoice.pdf"), None, None, is_forced=True).markdown == Path("invoice.md")

    def test_what_an_earlier_run_wrote_is(self):
        Path("invoice.md").write_text("<!-- page 1 -->\n")
        Path("invoice-images").mkdir()
        Path("invoice.json").write_text('{\n  "format": "penstock.etl/1",\n')
        chosen = choose_outputs(Path("invoice.pdf"), None, None, is_forced=False)
        assert chosen.json == Path("invoice.json")

    def test_the_document_itself_is_never_written_over(self):
        Path("invoice.json").write_bytes(invoice_pdf())
        with pytest.raises(Refusal, match="is the document itself"):
            choose_outputs(Path("invoice.json"), None, None, is_forced=True)

    @pytest.mark.parametrize("out", ["sub/result", "sub/result.md", "sub/result.JSON"])
    def test_a_name_may_have_either_ending(self, out):
        Path("sub").mkdir()
        chosen = choose_outputs(Path("invoice.pdf"), out, None, is_forced=False)
        assert {chosen.markdown, chosen.json} == {Path("sub/result.md"), Path("sub/result.json")}

    def test_what_is_not_placed_is_gone(self):
        with pytest.raises(ZeroDivisionError), Placing() as placing:
            placing.file(Path("a.md")).write_text("half")
            placing.file(Path("a-images")).mkdir()
            _ = 1 / 0
        assert names() == {"invoice.pdf"}

    def test_a_full_disk_is_named(self):
        if not Path("/dev/full").exists():
            pytest.skip("there is no disk here that is always full")
        with pytest.raises(Refusal, match=r"The disk is full: a\.md was not written"), refused_as(Path("a.md")):
            Path("/dev/full").write_bytes(b"x")


class TestReading:
    def test_a_result_that_does_not_fit_leaves_the_markdown_and_no_json(self, run):
        Path("strict.yaml").write_text(STRICT)
        Path("invoice.json").write_text('{\n  "format": "penstock.etl/1", "data": "of an earlier run"}')
        code, out, error = run("etl", "invoice.pdf", "--rule", "strict.yaml")
        assert (code, out) == (1, "")
        assert "/iban is missing" in flat(error)
        assert "penstock rules try strict.yaml --file invoice.md" in flat(error)
        assert names() == {"invoice.pdf", "strict.yaml", "invoice.md"}
        assert "PS-2026-0042" in Path("invoice.md").read_text()

    def test_pictures_lie_beside_the_markdown_and_pages_have_boxes(self, run):
        said = "A photo of a sluice gate, as it stood in March"
        drawn = f"q 90 0 0 120 50 300 cm /I Do Q BT /F 12 Tf 50 750 Td ({said}) Tj ET"
        page = picture_page(drawn, grey_image(photo(), 300, 400))
        Path("my photo.pdf").write_bytes(page)
        code, out, error = run("etl", "my photo.pdf", "--pages", "pages.json", "--json")
        assert (code, error) == (0, "")
        result = json.loads(out)
        assert json.loads(Path("my photo.json").read_text()) == result
        assert (result["data"], result["provenance"], result["page_count"]) == (None, {}, 1)
        (image,) = result["images"]
        assert Path(image).is_file()
        assert f"(my%20photo-images/{Path(image).name})" in Path("my photo.md").read_text()
        (read,) = json.loads(Path("pages.json").read_text())
        assert read["spans"][0]["text"] == said
        assert read["images"][0]["key"] == image

    def test_a_scan_is_recognised(self, run):
        Path("scan.png").write_bytes(saved_as(scan("Gate closed at noon", size=(420, 110)), "PNG"))
        code, out, error = run("etl", "scan.png")
        assert code == 0, error
        assert "Gate closed at noon" in Path("scan.md").read_text()
        assert "1 page, 1 by OCR" in flat(out)
        assert "scan.png: 1 of 1 pages read" in flat(error)


class TestTheSample:
    def test_rule_and_invoice_fit_each_other_and_each_value_has_its_place(self, run):
        Path("invoice.pdf").unlink()
        assert run("rules", "init", "--sample")[0] == 0
        code, out, _ = run("etl", "invoice.pdf", "--rule", "invoice.yaml", "--pages", "pages.json")
        assert code == 0
        assert "/invoice_number" in out
        assert "17 values" in flat(out)
        result = json.loads(Path("invoice.json").read_text())
        data, places = result["data"], result["provenance"]
        assert (data["invoice_number"], data["invoice_date"], data["total"]) == ("PS-2026-0042", "2026-02-03", 367)
        assert [line["amount"] for line in data["lines"]] == [240, 92, 35]
        assert places["/lines/1/amount"][0]["page"] == 1
        assert all(0 <= side <= 1 for found in places.values() for side in found[0]["box"])
        assert errors_of(read_rule("invoice.yaml").json_schema, data) == []
        again = run("rules", "try", "invoice.yaml", "--file", "pages.json")
        assert json.loads(again[1]) == data
        assert run("rules", "init")[0] == 1, "what is there is kept"

    def test_a_text_of_another_person_cannot_reach_the_terminal_raw(self, run):
        Path("a\x1b[31m.pdf").write_bytes(good())
        out = run("etl", "a\x1b[31m.pdf", "--out", "b\x1b[32mc")
        assert "\x1b[31m" not in out[1] + out[2]
        assert "\x1b[32m" not in out[1] + out[2]
        Path("b\x1b[31m.txt").write_text("no document")
        assert "\x1b" not in run("etl", "b\x1b[31m.txt")[2]


class TestInterrupting:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
    def test_work_is_cancelled_and_cleans_up(self, number):
        cleaned = []
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        before = signal.signal(number, usual)  # tests may run where it is ignored

        async def work() -> None:
            try:
                os.kill(os.getpid(), number)
                await asyncio.sleep(30)
            finally:
                cleaned.append(number)

        with pytest.raises(KeyboardInterrupt):
            run_interruptibly(work())
        signal.signal(number, before)
        assert cleaned == [number]
