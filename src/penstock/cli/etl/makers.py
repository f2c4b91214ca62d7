"""The post-processor for a rule. Only a language model needs servers: for budgets and limits that all share."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.places import find_servers
from penstock.cli.screen import Refusal
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.settings import SettingsFile

if TYPE_CHECKING:
    from penstock.extraction.ports import CountPages, PostProcessor, Rule
    from penstock.extraction.rule_sandbox import RuleSandbox
    from penstock.llm.adapter import Llm

LLM = "llm"
_OFFLINE = frozenset({"skip", "rules"})


@asynccontextmanager
async def maker_for(
    rule: "Rule", data: Path | None, count_pages: "CountPages"
) -> "AsyncIterator[tuple[PostProcessor, RuleSandbox]]":
    """And where rules are applied: in this process, as they are the operator's own. Refused at once when it needs what
    is not there."""
    from penstock.bootstrap.etl import processors_with
    from penstock.extraction.ports import Subject, Tools
    from penstock.extraction.processors.asking import ForgetfulMemo
    from penstock.extraction.rule_sandbox import RuleSandbox
    from penstock.extraction.settings import EtlSettings
    from penstock.kernel.clock import SystemClock
    from penstock.kernel.confined_calls import DirectCalls

    def memo_of(_subject: Subject) -> ForgetfulMemo:
        return ForgetfulMemo()

    async with AsyncExitStack() as stack:
        mode = rule.postprocess_mode
        model = None
        if mode == LLM or (mode not in _OFFLINE and _is_possible(data)):
            model = await stack.enter_async_context(_model(data))
        here = RuleSandbox(DirectCalls())
        shelf = processors_with(lambda: _there(model), here, SettingsFile.find().load(EtlSettings), memo_of)
        yield shelf.make(mode, Tools(SystemClock(), count_pages, model)), here


def _there(model: "Llm | None") -> "Llm":
    if model is None:
        raise PenstockError(error_codes.LLM_NOT_CONFIGURED)
    return model


def _is_possible(data: Path | None) -> bool:
    """For a post-processor of somebody else's, which may do without."""
    from penstock.llm import LlmSettings

    servers = find_servers(data)
    configured = SettingsFile.find().load(LlmSettings).is_configured
    return bool(configured and servers.database_url and servers.redis_url)


@asynccontextmanager
async def _model(data: Path | None) -> "AsyncIterator[Llm]":
    from penstock.llm import LlmSettings

    source = SettingsFile.find()
    settings = source.load(LlmSettings)
    if not settings.is_configured:
        raise PenstockError(error_codes.LLM_NOT_CONFIGURED)
    servers = find_servers(data)
    if not (servers.database_url and servers.redis_url):
        raise Refusal(
            "This rule asks a language model, and budgets and rate limits are kept by Penstock's servers, of which none"
            f" run on {servers.home.path}: start `penstock up` in another terminal (or set PENSTOCK_DATABASE_URL and"
            " PENSTOCK_REDIS_URL), or use a rule with postprocess_mode rules, which needs neither.",
            f"该规则需要语言模型，而预算与限流由 Penstock 的服务保管，{servers.home.path} 上没有运行："
            "请在另一终端启动 penstock up（或设置 PENSTOCK_DATABASE_URL 与 PENSTOCK_REDIS_URL），"
            "或改用 postprocess_mode 为 rules 的规则，无需模型与服务。",
        )
    from penstock.kernel.breaker import Breaker
    from penstock.kernel.clock import SystemClock
    from penstock.kernel.confined_calls import DirectCalls
    from penstock.kernel.db import Database, server_time
    from penstock.kernel.rategate import GateSettings, RateGate
    from penstock.kernel.redis import Keys, connect
    from penstock.llm.adapter import Guards, Llm
    from penstock.llm.judge import Judge

    async with AsyncExitStack() as stack:
        database = Database(servers.database_url, name="cli", size=4)
        await database.open()
        stack.push_async_callback(database.close)
        async with database.transaction() as tx:  # away, it is told before a long document is read
            await server_time(tx)
        redis = connect(servers.redis_url)
        stack.push_async_callback(redis.aclose)
        keys, clock = Keys(servers.settings.redis_prefix), SystemClock()
        gate = RateGate(redis, keys, clock=clock, settings=source.load(GateSettings))
        model = Llm(settings, database, Guards(gate, Breaker(redis, keys)), Judge(DirectCalls()), clock)
        stack.push_async_callback(model.close)
        yield model
