"""`penstock etl` in a terminal, interrupted, and with a language model: as processes, as people run them."""

import asyncio
import json
import sys
from pathlib import Path

import psycopg
from tests.standins.openai_like import openai_like, says
from tests.support.pdfs import text_pages
from tests.support.programs import environment
from tests.support.terminals import Terminal

from penstock.cli.rules.sample import invoice_pdf

ASKING = "postprocess_mode: llm\njson_schema: {type: object, required: [total], properties: {total: {type: number}}}\n"
PENSTOCK = [sys.executable, "-m", "penstock"]


class TestInATerminal:
    def test_progress_is_shown_and_an_interrupt_leaves_nothing(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        Path("temporary").mkdir()
        Path("book.pdf").write_bytes(text_pages(900))
        env = environment(TMPDIR=str(tmp_path / "temporary"), LANG="zh_CN.UTF-8", GW_MAX_PAGES="1000")
        terminal = Terminal([*PENSTOCK, "etl", "book.pdf"], env, columns=60)
        try:
            terminal.until("/900", seconds=60)
            assert "正在读取 book.pdf" in terminal.text
            terminal.interrupt()
            assert terminal.end(60) == 130, terminal.text
            assert "Traceback" not in terminal.text
        finally:
            terminal.close()
        assert {path.name for path in tmp_path.iterdir()} == {"book.pdf", "temporary"}
        assert [*Path("temporary").iterdir()] == []


class TestWithAModel:
    async def test_the_answer_has_its_place_and_the_call_is_in_the_account(self, tmp_path, postgres, database_url,
                                                                           redis_server):  # fmt: skip
        (tmp_path / "invoice.pdf").write_bytes(invoice_pdf())
        (tmp_path / "total.yaml").write_text(ASKING)
        async with openai_like(says({"total": 367.0})) as model:
            env = environment(
                PENSTOCK_DATABASE_URL=database_url, PENSTOCK_REDIS_URL=redis_server.url, PENSTOCK_LLM_MODEL="small",
                PENSTOCK_LLM_BASE_URL=model.base_url, PENSTOCK_LLM_API_KEY=model.key,
            )  # fmt: skip
            process = await asyncio.create_subprocess_exec(
                *PENSTOCK, "etl", "invoice.pdf", "--rule", "total.yaml", "--merchant", "acme", "--json",
                env=env, cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            out, error = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0, error.decode()
        result = json.loads(out)
        assert result["data"] == {"total": 367}
        assert result["provenance"]["/total"][0]["page"] == 1
        assert len(model.asked) == 1
        with psycopg.connect(database_url) as connection:
            rows = connection.execute("select merchant_id, outcome from llm_call").fetchall()
        assert [merchant for merchant, _ in rows] == ["acme"]
