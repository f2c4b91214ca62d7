"""Records as files: complete, exact, whole or absent."""

import asyncio
import csv
import gzip
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from pyarrow import parquet
from tests.support.records import EARLY, PLACE, page_of
from typer.testing import CliRunner

from penstock.cli.harvest import export as export_command
from penstock.cli.harvest import records as records_command
from penstock.cli.screen import Refusal
from penstock.harvest.records import Export, Format, Order, Selection, format_of, parse_where, upsert
from penstock.kernel.db import Database

CHOSEN = Selection("crossref", "works")
PRETTY = b'{\n  "n": 12345678901234567890.1200,\n  "t": "\\u4e2d\\n"\n}'


@pytest.fixture(autouse=True)
async def _records(database: Database):
    page = page_of(("a", EARLY, PRETTY, "1"), ("=b()", EARLY, "<c>é\n</c>".encode()), ("c", EARLY, b"{}"))
    page.fields = [b'{"title":"=cmd()","n":-5,"authors":["x"]}', b"null", b'{"title":"-3.5","other":null}']
    page.deleted = [False, False, True]
    async with database.transaction() as tx:
        await upsert(tx, PLACE, page)


async def write(database: Database, file: Path, chosen: Selection = CHOSEN) -> int:
    kind = format_of(file)
    assert kind is not None
    async with database.transaction() as tx:
        return await Export(Order(chosen, file, kind)).run(tx)


class TestJsonLines:
    async def test_a_body_is_the_json_it_was_and_xml_is_text(self, database: Database, tmp_path: Path):
        assert await write(database, tmp_path / "x.jsonl") == 3
        raw = (tmp_path / "x.jsonl").read_bytes().splitlines()
        lines = {line["provider_id"]: line for line in map(json.loads, raw)}
        assert set(lines) == {"a", "=b()", "c"}
        assert lines["a"]["body"]["t"] == "中\n"
        assert any(b"12345678901234567890.1200" in line for line in raw), "every digit"
        assert lines["=b()"]["body"] == "<c>é\n</c>"
        assert lines["a"]["updated_at"] == "2024-05-01T00:00:00Z"
        assert lines["a"]["fields"] == {"title": "=cmd()", "n": -5, "authors": ["x"]}
        assert lines["c"]["deleted"] is True

    async def test_gz_packs(self, database: Database, tmp_path: Path):
        await write(database, tmp_path / "x.jsonl.gz")
        with gzip.open(tmp_path / "x.jsonl.gz", "rt") as lines:
            assert len(list(lines)) == 3


class TestCsv:
    async def test_every_mapped_field_is_a_column_and_formulas_are_disarmed(self, database: Database, tmp_path: Path):
        await write(database, tmp_path / "x.csv")
        with (tmp_path / "x.csv").open(newline="", encoding="utf-8") as file:
            rows = {row["provider_id"]: row for row in csv.DictReader(file)}
        assert set(rows) == {"a", "'=b()", "c"}
        assert rows["a"]["f_title"] == "'=cmd()"
        assert (rows["a"]["f_n"], rows["c"]["f_title"]) == ("-5", "-3.5"), "a number is no formula"
        assert rows["a"]["f_authors"] == '["x"]'
        assert rows["a"]["body"] == PRETTY.decode()
        assert (rows["c"]["deleted"], rows["c"]["f_other"], rows["c"]["version"]) == ("true", "", "")


class TestParquet:
    async def test_columns_have_types_and_text_is_exact(self, database: Database, tmp_path: Path):
        await write(database, tmp_path / "x.parquet")
        rows = {row["provider_id"]: row for row in parquet.read_table(tmp_path / "x.parquet").to_pylist()}
        assert rows["a"]["updated_at"] == EARLY
        assert rows["a"]["f_title"] == "=cmd()"
        assert rows["=b()"]["body"] == "<c>é\n</c>"
        assert rows["c"]["deleted"] is True
        assert rows["=b()"]["f_title"] is None

    async def test_many_rows_become_several_groups(self, database: Database, tmp_path: Path):
        async with database.transaction() as tx:
            for part in range(11):
                await upsert(tx, PLACE, page_of(*((f"{part}-{n}", EARLY, b"{}") for n in range(2000))))
        assert await write(database, tmp_path / "x.parquet") == 22_003
        assert parquet.ParquetFile(tmp_path / "x.parquet").metadata.num_row_groups == 2

    async def test_no_records_are_an_empty_table(self, database: Database, tmp_path: Path):
        assert await write(database, tmp_path / "x.parquet", replace(CHOSEN, endpoint="none")) == 0
        assert parquet.read_table(tmp_path / "x.parquet").num_rows == 0


class TestWholeOrNotAtAll:
    async def test_what_was_there_stays_when_it_fails_half_way(self, database: Database, tmp_path: Path):
        file = tmp_path / "x.jsonl"
        file.write_text("before")

        def stop(_: int) -> None:
            raise KeyError("stopped")

        with pytest.raises(KeyError):
            async with database.transaction() as tx:
                await Export(Order(CHOSEN, file, Format.JSONL), stop).run(tx)
        assert file.read_text() == "before"
        assert next(os.walk(tmp_path))[2] == ["x.jsonl"]

    async def test_a_link_stays_and_the_file_that_it_leads_to_is_replaced(self, database: Database, tmp_path: Path):
        (tmp_path / "far").mkdir()
        link, target = tmp_path / "x.jsonl", tmp_path / "far" / "y.jsonl"
        target.write_text("before")
        link.symlink_to(target)
        await write(database, link)
        assert link.is_symlink()
        assert len(target.read_text().splitlines()) == 3

    async def test_a_pipe_is_written_to_and_stays_one(self, database: Database, tmp_path: Path):
        pipe = tmp_path / "x.csv.gz"
        os.mkfifo(pipe)
        reading = asyncio.create_task(asyncio.to_thread(pipe.read_bytes))
        await write(database, pipe)
        assert gzip.decompress(await reading).startswith(b"provider_id,")
        assert pipe.is_fifo()

    async def test_it_tells_how_far_it_is(self, database: Database, tmp_path: Path):
        told: list[int] = []
        async with database.transaction() as tx:
            await Export(Order(CHOSEN, tmp_path / "x", Format.JSONL), told.append).run(tx)
        assert told == [3]

    async def test_only_what_the_filter_names(self, database: Database, tmp_path: Path):
        chosen = Selection("crossref", "works", parse_where("deleted = false"))
        assert await write(database, tmp_path / "x.csv", chosen) == 2


@pytest.fixture
def commands() -> typer.Typer:
    app = typer.Typer()
    records_command.register(app)
    export_command.register(app)
    return app


class TestCommands:
    """Plain functions: a command brings a loop of its own."""

    @pytest.fixture(autouse=True)
    def _environment(self, database_url: str, monkeypatch):
        monkeypatch.setenv("PENSTOCK_DATABASE_URL", database_url)
        monkeypatch.setenv("LC_ALL", "C")

    def run(self, commands: typer.Typer, *arguments: str):
        return CliRunner().invoke(commands, list(arguments))

    def test_records_are_listed(self, commands):
        said = self.run(commands, "records", "crossref", "--limit", "2")
        assert said.exit_code == 0, said.output
        assert "2024-05-01 00:00:00" in said.output
        assert "There are more" in said.output

    def test_as_json(self, commands):
        said = self.run(commands, "records", "crossref", "--where", "id = a", "--json")
        assert [row["provider_id"] for row in json.loads(said.stdout)] == ["a"]

    def test_one_with_its_body(self, commands):
        said = self.run(commands, "records", "crossref", "--id", "a")
        assert said.stdout == PRETTY.decode() + "\n"

    def test_one_that_is_not_there(self, commands):
        assert isinstance(self.run(commands, "records", "crossref", "--id", "zzz").exception, Refusal)

    def test_none(self, commands):
        assert "No records" in self.run(commands, "records", "crossref", "--where", "run = 99").output

    def test_a_file_is_written(self, commands, tmp_path: Path):
        said = self.run(
            commands, "export", "crossref", str(tmp_path / "x.csv.gz"), "--where", "deleted = false", "--json"
        )
        assert json.loads(said.stdout)["records"] == 2
        with gzip.open(tmp_path / "x.csv.gz", "rt") as packed:
            assert packed.readline().startswith("provider_id,updated_at")

    def test_a_file_that_does_not_tell_its_format_is_refused(self, commands, tmp_path: Path):
        assert isinstance(self.run(commands, "export", "crossref", str(tmp_path / "x.txt")).exception, Refusal)
        said = self.run(commands, "export", "crossref", str(tmp_path / "x.txt"), "--format", "jsonl")
        assert "3 records" in said.output

    def test_a_directory_that_is_not_there_is_refused(self, commands, tmp_path: Path):
        assert isinstance(self.run(commands, "export", "crossref", str(tmp_path / "no" / "x.csv")).exception, Refusal)

    def test_standard_output_gets_the_records_alone(self, tmp_path: Path):
        command = [sys.executable, "-m", "penstock", "harvest", "export", "crossref", "-"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert {json.loads(line)["provider_id"] for line in done.stdout.splitlines()} == {"a", "=b()", "c"}
        assert "3 records" in done.stderr
        assert list(tmp_path.iterdir()) == [], "no file called -"

    def test_parquet_to_what_is_no_plain_file_is_refused(self, commands):
        assert isinstance(self.run(commands, "export", "crossref", "-", "--format", "parquet").exception, Refusal)
