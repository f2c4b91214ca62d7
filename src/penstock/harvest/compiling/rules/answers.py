"""Rule 5: an answer can be read: items, ids and times have their paths, and every path and pattern is a good one."""

import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

import jsonpath

from penstock.harvest.compiling.problems import Case, Complaint, Found, Part, Rule
from penstock.harvest.path_bounds import JSON_PATHS, jsonpath_beyond_bounds, xpath_beyond_bounds
from penstock.harvest.patterns import PatternUnfit, compile_pattern
from penstock.harvest.spec import Response, Sections
from penstock.kernel.errors import Sentence

_LITERAL = re.compile(r"'[^']*'|\"[^\"]*\"")
_PREFIX = re.compile(r"(?<![\w.:-])([A-Za-z_][\w.-]*):(?=[A-Za-z_*])")
_OF_ITEMS = frozenset({f"response.{name}Path" for name in ("id", "updatedAt", "version", "deleted")})
_SAMPLE = datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC)


def _check(case: Case) -> Found:
    for part in case.parts:
        for complaint in (*_trio(part), *_paths(part.sections), *_patterns(part.sections), *_details(part.sections)):
            yield part, complaint


def _trio(part: Part) -> Iterator[Complaint]:
    response = part.sections.response
    if not response.items_path:
        yield Complaint("response.itemsPath", "缺少 itemsPath", "say where the items are")
    if not response.id_path:
        yield Complaint("response.idPath", "缺少 idPath", "say where the id of an item is")
    if not (part.ids_only or response.updated_at_path or response.updated_at_from == "WINDOW"):
        yield Complaint(
            "response.updatedAtPath",
            "缺少 updatedAtPath（源不提供时写 updatedAtFrom: WINDOW）",
            "say where the time of an item is, or updatedAtFrom: WINDOW when the source does not tell",
        )


def _paths(sections: Sections) -> Iterator[Complaint]:
    for key, path in _all_paths(sections):
        is_xml = sections.response.format == "XML"
        wrong = _xpath(path, sections.response) if is_xml else _jsonpath(path)
        if wrong is not None:
            yield Complaint(key, f"路径 {path} 无法解析：{wrong}", f"the path {path} cannot be read: {wrong}")
        elif beyond := _beyond_bounds(key, path, is_xml=is_xml):
            yield Complaint(key, f"路径 {path}：{beyond.zh}", f"the path {path}: {beyond.en}")


def _beyond_bounds(key: str, path: str, *, is_xml: bool) -> Sentence | None:
    if is_xml:
        return xpath_beyond_bounds(path, of_item=key.startswith("mapping.") or key in _OF_ITEMS)
    return jsonpath_beyond_bounds(path, getattr(JSON_PATHS.compile(path), "segments", ()))


def _all_paths(sections: Sections) -> Iterator[tuple[str, str]]:
    response, pagination = sections.response, sections.pagination
    single = {
        "response.itemsPath": response.items_path,
        "response.versionPath": response.version_path,
        "response.deletedPath": response.deleted_path,
        "response.totalPath": response.total_path,
        "response.errorPath": response.error_path,
        "response.truncatedPath": response.truncated_path,
        "pagination.nextTokenPath": pagination.next_token_path,
        "pagination.nextUrlPath": pagination.next_url_path,
        "pagination.hasMorePath": pagination.has_more_path,
    }
    yield from ((key, path) for key, path in single.items() if path is not None)
    for key, paths in (("response.idPath", response.id_path), ("response.updatedAtPath", response.updated_at_path)):
        yield from ((key, path) for path in ((paths,) if isinstance(paths, str) else paths or ()))
    yield from ((f"mapping.outputFields.{field.name}", field.expr) for field in sections.mapping.output_fields)


def _jsonpath(path: str) -> str | None:
    if not path.startswith("$"):
        return "a JSONPath begins with $"
    try:
        JSON_PATHS.compile(path)
    except jsonpath.JSONPathError as wrong:
        return str(wrong).splitlines()[0]
    return None


def _xpath(path: str, response: Response) -> str | None:
    from lxml import etree  # large: only who needs it loads it

    try:
        etree.XPath(path, namespaces=response.namespaces or None, regexp=False)
    except (etree.XPathError, ValueError, TypeError) as wrong:
        return str(wrong)
    # libxml2 asks for prefixes only when it gets to them, which is too late.
    missing = set(_PREFIX.findall(_LITERAL.sub("''", path))) - set(response.namespaces)
    return f"response.namespaces does not declare {', '.join(sorted(missing))}" if missing else None


def _patterns(sections: Sections) -> Iterator[Complaint]:
    response = sections.response
    written = [("response.idPattern", response.id_pattern)]
    written += [("response.emptyErrors", pattern) for pattern in response.empty_errors]
    written += [("response.retryErrors", pattern) for pattern in response.retry_errors]
    written += [(f"mapping.requestParams.{param.name}", param.pattern) for param in sections.mapping.request_params]
    for key, pattern in written:
        if pattern is None:
            continue
        try:
            groups = compile_pattern(pattern).groups
        except PatternUnfit as unfit:
            yield Complaint(key, unfit.said.zh, unfit.said.en)
            continue
        if key == "response.idPattern" and groups == 0:
            yield Complaint(key, "idPattern 需要一个分组，即 id", "idPattern needs a group, which is the id")


def _details(sections: Sections) -> Iterator[Complaint]:
    response = sections.response
    if response.updated_at_format is not None and not _reads(response.updated_at_format):
        yield Complaint("response.updatedAtFormat", "不是可用的时间格式", "not a format that a time can be read with")
    if response.deleted_value is not None and response.deleted_path is None:
        yield Complaint("response.deletedPath", "有 deletedValue 而没有 deletedPath", "deletedValue needs deletedPath")
    names = Counter(field.name for field in sections.mapping.output_fields)
    for name in (name for name, times in names.items() if times > 1):
        yield Complaint(f"mapping.outputFields.{name}", "输出字段重名", "two output fields have this name")


def _reads(time_format: str) -> bool:
    try:
        return datetime.strptime(_SAMPLE.strftime(time_format), time_format).replace(tzinfo=UTC).year == _SAMPLE.year
    except (ValueError, re.error):
        return False


ANSWERS = Rule(5, "response", "响应解析三件套齐备且可解析", "items, id and time can be found and read", _check)
