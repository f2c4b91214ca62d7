"""The workshop of ETL: its providers and post-processors, made of what the process has."""

from collections.abc import Callable

from penstock.bootstrap.parts import Parts
from penstock.extraction.folder import StoredMemo
from penstock.extraction.ports import Memo, OCRProvider, PostProcessor, Subject, Tools
from penstock.extraction.processors.by_rules import RulesProcessor
from penstock.extraction.processors.llm import LlmProcessor
from penstock.extraction.processors.skip import SkipProcessor
from penstock.extraction.providers import Shelf, ocr_providers, post_processors
from penstock.extraction.providers.local import LocalProvider
from penstock.extraction.providers.mineru import MineruProvider
from penstock.extraction.rule_sandbox import RuleSandbox
from penstock.extraction.settings import EtlSettings
from penstock.extraction.workshop import Equipment, Shelves, Workshop
from penstock.llm.examples import Examples
from penstock.llm.ports import LanguageModel


def make_workshop(parts: Parts) -> Workshop:
    tools = Tools(parts.clock, parts.reader.page_count, parts.llm)
    sandbox = RuleSandbox(parts.confined)
    shelves = Shelves(_providers(parts), _processors(parts, sandbox))
    examples = Examples(parts.redis, parts.keys)
    return Workshop(parts.etl, Equipment(parts.examiner, tools, shelves, examples, sandbox), parts.worker_id)


def _providers(parts: Parts) -> Shelf[OCRProvider]:
    def local(_tools: Tools) -> OCRProvider:
        return LocalProvider(parts.reader)

    def mineru(tools: Tools) -> OCRProvider:
        return MineruProvider(parts.settings.mineru, tools)

    return ocr_providers(local=local, mineru=mineru)


def _processors(parts: Parts, sandbox: RuleSandbox) -> Shelf[PostProcessor]:
    def memo_of(subject: Subject) -> Memo:
        return StoredMemo(parts.store, subject)

    return processors_with(lambda: parts.llm, sandbox, parts.settings.etl, memo_of)


def processors_with(
    model: Callable[[], LanguageModel],
    sandbox: RuleSandbox,
    settings: EtlSettings,
    memo_of: Callable[[Subject], Memo],
) -> Shelf[PostProcessor]:
    """The model is asked for when the first rule needs it."""

    def llm(_tools: Tools) -> PostProcessor:
        return LlmProcessor(model(), sandbox, settings, memo_of)

    def skip(_tools: Tools) -> PostProcessor:
        return SkipProcessor()

    def rules(_tools: Tools) -> PostProcessor:
        return RulesProcessor(sandbox)

    return post_processors(llm=llm, skip=skip, rules=rules)
