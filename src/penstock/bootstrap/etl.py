"""The workshop of ETL: its providers and post-processors, made of what the process has."""

from penstock.bootstrap.parts import Parts
from penstock.extraction.ports import Tools
from penstock.extraction.processors import built_in as processors
from penstock.extraction.providers import ocr_providers, post_processors
from penstock.extraction.providers.local import LocalProvider
from penstock.extraction.providers.mineru import MineruProvider
from penstock.extraction.workshop import Shelves, Workshop


def make_workshop(parts: Parts) -> Workshop:
    settings = parts.settings
    shelves = Shelves(
        ocr_providers(
            local=lambda tools: LocalProvider(parts.reader),  # noqa: ARG005  it needs the reader alone
            mineru=lambda tools: MineruProvider(settings.mineru, tools),
        ),
        post_processors(**processors(settings.etl)),
    )
    tools = Tools(parts.clock, parts.reader.page_count, None)
    return Workshop(parts.etl, parts.examiner, tools, shelves, parts.worker_id)
