"""What must fit together within one file. Whether a source can be asked at all is for the compiler to say."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from cronsim import CronSim, CronSimError

from penstock.harvest.durations import read_duration
from penstock.harvest.registry.canonical import default_endpoint
from penstock.harvest.registry.walking import Path, all_sections, groups
from penstock.harvest.schedule_params import wrong_params
from penstock.kernel.clock import SystemClock
from penstock.kernel.errors import Sentence
from penstock.kernel.yaml_text import Text

_MOST_ENDPOINTS = 100
_MOST_TEMPLATES = 65_536  # characters


def check(text: Text) -> None:
    endpoints = {str(path[-1]): endpoint for path, endpoint in groups(text.values, "endpoints")}
    _credentials(text)
    _endpoints(text, endpoints)
    _lists(text)
    _schedules(text, endpoints)
    _measure(text, endpoints)


def _measure(text: Text, endpoints: dict[str, Any]) -> None:
    """A source is compiled by whoever plans it, so that it must not take long."""
    if len(endpoints) > _MOST_ENDPOINTS:
        text.report(("endpoints",), "endpoint.many", Sentence(
            f"端点最多 {_MOST_ENDPOINTS} 个，请拆成几个源", f"at most {_MOST_ENDPOINTS} endpoints: make several sources"
        ))  # fmt: skip
    if sum(len(each) for each in _texts(text.values) if "${" in each) > _MOST_TEMPLATES:
        text.report((), "template.many", Sentence(
            f"模板合计最多 {_MOST_TEMPLATES:,} 个字符，请缩短或拆成几个源",
            f"all templates together have at most {_MOST_TEMPLATES:,} characters: shorten them or make several sources",
        ))  # fmt: skip


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def _credentials(text: Text) -> None:
    for path, credential in groups(text.values, "credentials"):
        for key in ("secret", "clientId"):
            place = credential.get(key)
            if isinstance(place, dict) and len([each for each in place.values() if each is not None]) != 1:
                text.report((*path, key), "credential.place", Sentence(
                    "env、file、store 三者须且只须写一个", "must have exactly one of env, file and store"
                ))  # fmt: skip
        if credential.get("type") == "OAUTH2" and "clientId" not in credential:
            text.report(path, "credential.client", Sentence(
                "OAUTH2 还需要 clientId：{env: 变量名}", "OAUTH2 needs a clientId too: {env: NAME}"
            ))  # fmt: skip


def _endpoints(text: Text, endpoints: dict[str, Any]) -> None:
    defaults = [name for name, endpoint in endpoints.items() if endpoint.get("default") is True]
    for name in defaults[1:]:
        text.report(("endpoints", name, "default"), "endpoint.default", Sentence(
            f"默认端点只能有一个，{defaults[0]} 已是", f"only one endpoint is the default, and {defaults[0]} is"
        ))  # fmt: skip
    for name, endpoint in endpoints.items():
        linked = endpoint.get("linkedEndpoint")
        if isinstance(linked, str):
            _linked(text, ("endpoints", name, "linkedEndpoint"), linked, endpoints)


def _linked(text: Text, path: Path, linked: str, endpoints: dict[str, Any]) -> None:
    if linked not in endpoints:
        text.report(path, "endpoint.linked", Sentence(
            f"没有名为 {linked} 的端点", f"there is no endpoint {linked} in this file"
        ))  # fmt: skip
    elif linked == path[1]:
        text.report(path, "endpoint.linked", Sentence("端点不能链接到自身", "an endpoint cannot be linked to itself"))


def _lists(text: Text) -> None:
    for path, sections in all_sections(text.values):
        for key in ("requestParams", "outputFields"):
            named: Counter[str] = Counter()
            for where, each in groups(sections, "mapping", key):
                named[str(each.get("name"))] += 1
                if named[str(each.get("name"))] > 1:
                    text.report((*path, *where), "mapping.twice", Sentence(
                        f"{each.get('name')} 重复", f"{each.get('name')} is in the list twice"
                    ))  # fmt: skip


def _schedules(text: Text, endpoints: dict[str, Any]) -> None:
    seen: set[tuple[str, str]] = set()
    default = default_endpoint(endpoints)
    for path, schedule in groups(text.values, "schedules"):
        _when(text, path, schedule)
        _params(text, path, schedule.get("params"))
        name = schedule.get("endpoint") or default
        if name is None:
            text.report(path, "schedule.endpoint", Sentence(
                "有多个端点：请写 endpoint，或给其中一个写 default: true",
                "there are several endpoints: say which, or mark one with default: true",
            ))  # fmt: skip
        elif name not in endpoints:
            text.report((*path, "endpoint"), "schedule.endpoint", Sentence(
                f"没有名为 {name} 的端点", f"there is no endpoint {name} in this file"
            ))  # fmt: skip
        elif (which := (str(name), str(schedule.get("operation")))) in seen:
            text.report(path, "schedule.twice", Sentence(
                f"{which[0]} 的 {which[1]} 已有计划", f"{which[1]} of {which[0]} has a schedule already"
            ))  # fmt: skip
        else:
            seen.add(which)


def _when(text: Text, path: Path, schedule: dict[str, Any]) -> None:
    cron, every = schedule.get("cron"), schedule.get("every")
    if (cron is None) == (every is None):
        text.report(path, "schedule.when", Sentence("cron 与 every 须且只须写一个", "must have either cron or every"))
    if isinstance(cron, str) and not _is_cron(cron):
        text.report((*path, "cron"), "schedule.cron", Sentence(
            "不是五段 cron 表达式，如 \"*/10 * * * *\"", 'is no cron line of five fields, such as "*/10 * * * *"'
        ))  # fmt: skip
    if isinstance(every, str) and not _is_interval(every):
        text.report((*path, "every"), "schedule.every", Sentence("至少为 1s", "must be one second or more"))


def _params(text: Text, path: Path, params: Any) -> None:
    for name, wrong in wrong_params(params) if isinstance(params, dict) else ():
        text.report((*path, "params", name), "schedule.params", wrong)


def _is_cron(cron: str) -> bool:
    if len(cron.split()) != 5:
        return False
    try:
        next(CronSim(cron, SystemClock().now()))
    except (CronSimError, StopIteration):
        return False
    return True


def _is_interval(every: str) -> bool:
    """What is no duration at all is reported elsewhere."""
    try:
        return read_duration(every).total_seconds() >= 1
    except ValueError:
        return True
