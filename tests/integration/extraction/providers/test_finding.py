"""Providers and post-processors are found by name: ours, and those of packages that are installed."""

import tomllib
from pathlib import Path

import pikepdf
import pytest
from tests.integration.extraction.mineru.conftest import document_of
from tests.support.notebooks import opened

from penstock.extraction.ports import Extract, Rule, Subject, Tools
from penstock.extraction.providers import ocr_providers, post_processors
from penstock.kernel import error_codes as codes
from penstock.kernel.clock import SystemClock
from penstock.kernel.errors import PenstockError

EXAMPLE = Path(__file__).parents[3] / "examples" / "provider"


async def count_pages(path: Path, media_type: str) -> int:
    with pikepdf.open(path) as document:
        return len(document.pages)


TOOLS = Tools(SystemClock(), count_pages)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The example package as an installer leaves it behind; returns what adds further entry points."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    place = tmp_path / "site"
    written = place / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    written.mkdir(parents=True)
    (place / "penstock_example.py").write_text((EXAMPLE / "penstock_example.py").read_text())
    (written / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    points = {group: dict(entries) for group, entries in project["entry-points"].items()}

    def write(group: str = "penstock.ocr_providers", **more: str) -> None:
        points[group] |= more
        lines = [
            f"[{name}]\n" + "".join(f"{key} = {at}\n" for key, at in held.items()) for name, held in points.items()
        ]
        (written / "entry_points.txt").write_text("\n".join(lines))

    write()
    monkeypatch.syspath_prepend(str(place))
    return write


class Markdown:
    markdown_key, provider_task_id, page_count, metadata = "k", "p", 1, {}

    async def markdown(self) -> str:
        return "three short words"


class TestInstalledOnes:
    async def test_an_installed_provider_reads_a_document(self, installed, tmp_path):
        provider = ocr_providers().make("example", TOOLS)
        notebook = await opened(tmp_path / "book")
        reading = await provider.read(document_of(tmp_path / "document", 3), notebook)
        assert (reading.page_count, reading.markdown) == (3, None)
        assert [page.blocks[0].text for page in await notebook.pages()] == ["Page 1", "Page 2", "Page 3"]
        assert notebook.told[-1] == (3, 3)
        await provider.close()

    async def test_its_refusal_is_a_refusal_like_ours(self, installed, tmp_path):
        provider = ocr_providers().make("example", TOOLS)
        with pytest.raises(PenstockError) as refusal:
            await provider.read(document_of(tmp_path / "photo", 1, "image/png"), await opened(tmp_path / "book"))
        assert refusal.value.code is codes.OCR_REFUSED

    async def test_an_installed_post_processor_makes_json(self, installed):
        counting = post_processors().make("word-count", TOOLS)

        async def progress(done: int, total: int) -> None: ...

        made = await counting.process(Rule(1, 1, "r", "word-count"), Markdown(), Subject(1, "m-1"), progress)
        assert made == Extract({"words": 3})


class TestUnknownOnes:
    def test_one_that_is_not_there_is_refused_with_those_that_are(self, installed):
        for shelf, ours, theirs in ((ocr_providers, "local", "example"), (post_processors, "skip", "word-count")):
            with pytest.raises(PenstockError) as refusal:
                shelf(**{ours: lambda tools: None}).make("nobody", TOOLS)
            assert refusal.value.code is codes.ETL_PROVIDER_UNKNOWN
            assert refusal.value.details["installed"] == sorted([ours, theirs])

    def test_one_that_cannot_be_loaded_harms_nobody_else(self, installed):
        installed(broken="no_such_module:Thing", empty="penstock_example:Nothing")
        shelf = ocr_providers()
        for name in ("broken", "empty"):
            with pytest.raises(PenstockError) as refusal:
                shelf.make(name, TOOLS)
            assert refusal.value.code is codes.ETL_PROVIDER_UNKNOWN
            assert "Error" in refusal.value.details["reason"]
        assert shelf.make("example", TOOLS).name == "example"

    def test_a_name_of_ours_is_not_taken_over(self, installed):
        installed(local="penstock_example:PageNumbers")
        ours = object()
        assert ocr_providers(local=lambda tools: ours).make("local", TOOLS) is ours
