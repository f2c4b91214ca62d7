"""What one answer of an unknown API tells about it: where items, ids, times, totals and the next page are. Pure.

Guesses are modest: what is not clear stays None, and the file that is made of them says TODO there.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lxml import etree

OAI = "http://www.openarchives.org/OAI/2.0/"
ATOM = "http://www.w3.org/2005/Atom"
_SEARCH = "http://a9.com/-/spec/opensearch/1.1/"
_IDS = ("id", "_id", "uuid", "guid", "doi", "pmid", "identifier", "key", "number", "code")
_TIMES = (
    "updated",
    "modified",
    "indexed",
    "changed",
    "timestamp",
    "datestamp",
    "revis",
    "date",
    "created",
    "published",
)
_TOTAL = re.compile(r"total|count|numfound|hits|size", re.IGNORECASE)
_NEXT = re.compile(r"next|resumption", re.IGNORECASE)
_DEEP = 5


@dataclass(frozen=True, slots=True)
class Guess:
    """Paths as the reader wants them: JSONPath, or XPath with `namespaces`."""

    format: str
    kind: str = "plain"  # plain, atom, oai
    items: str | None = None
    id: str | None = None
    updated: str | None = None
    total: str | None = None
    next_token: str | None = None
    next_url: str | None = None
    count: int = 0  # items in the answer
    namespaces: dict[str, str] = field(default_factory=dict)


def guess_json(value: Any) -> Guess:
    path, items = max(_lists(value, "$"), key=lambda found: _weight(*found), default=("", []))
    outside = list(_scalars(value, "$", skip=path))
    totals = [(p, v) for p, v in outside if isinstance(v, int) and not isinstance(v, bool) and _TOTAL.search(_last(p))]
    nexts = [(p, v) for p, v in outside if isinstance(v, str) and v and _NEXT.search(p)]
    urls = [p for p, v in nexts if v.startswith(("http://", "https://", "/"))]
    tokens = [p for p, v in nexts if not v.startswith(("http://", "https://", "/"))]
    fitting = [(p, v) for p, v in totals if v >= len(items)]
    fitting.sort(key=lambda found: (0 if "total" in found[0].lower() else 1, -found[1]))
    return Guess(
        "JSON",
        items=path or None,
        id=_id_of(items),
        updated=_time_of(items),
        total=fitting[0][0] if fitting else None,
        next_token=tokens[0] if tokens else None,
        next_url=urls[0] if urls and not tokens else None,
        count=len(items),
    )


def guess_xml(body: bytes) -> Guess:
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    root = etree.fromstring(body, parser)
    name = etree.QName(root)
    if name.namespace == OAI:
        return Guess("XML", "oai")
    if name.namespace == ATOM:
        return _atom(root)
    return _elements(root)


def _atom(root: Any) -> Guess:
    names = {"a": ATOM, "os": _SEARCH}
    has_total = root.find(f"{{{_SEARCH}}}totalResults") is not None
    has_next = bool(root.xpath("/a:feed/a:link[@rel='next']/@href", namespaces=names))
    return Guess(
        "XML", "atom", "/a:feed/a:entry", "a:id", "a:updated",
        "/a:feed/os:totalResults" if has_total else None,
        next_url="/a:feed/a:link[@rel='next']/@href" if has_next else None,
        count=len(root.findall(f"{{{ATOM}}}entry")), namespaces=names if has_total else {"a": ATOM},
    )  # fmt: skip


def _elements(root: Any) -> Guess:
    """The element that is repeated most, under one parent."""
    best: tuple[int, Any, str] | None = None
    for parent in root.iter(etree.Element):
        tags = [child.tag for child in parent if isinstance(child.tag, str)]
        for tag in set(tags):
            if best is None or tags.count(tag) > best[0]:
                best = (tags.count(tag), parent, tag)
    if best is None:
        return Guess("XML")
    count, parent, tag = best
    address = etree.QName(root).namespace
    items = [child for child in parent if child.tag == tag]
    above = [parent, *parent.iterancestors()][::-1]
    flat = [{_step(child, address): (child.text or "").strip() for child in item if len(child) == 0} for item in items]
    return Guess(
        "XML", items="/" + "/".join([*(_step(each, address) for each in above), _step(items[0], address)]),
        id=_bare(_id_of(flat)), updated=_bare(_time_of(flat)), count=count,
        namespaces={"n": address} if address else {},
    )  # fmt: skip


def _step(element: Any, address: str | None) -> str:
    name = etree.QName(element)
    return f"n:{name.localname}" if address and name.namespace == address else str(name.localname)


def _bare(path: str | None) -> str | None:
    """Back from a JSONPath of one step to the name itself."""
    return None if path is None else path.removeprefix("$.").removeprefix("$['").removesuffix("']")


# --- JSON --------------------------------------------------------------------------------------------------
def _lists(value: Any, path: str, depth: int = 0) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    if depth > _DEEP:
        return
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _lists(inner, _join(path, key), depth + 1)


def _weight(path: str, items: Sequence[dict[str, Any]]) -> tuple[bool, int, int]:
    """A list of things with an id beats a longer one of things without; the outer one wins among equals."""
    return _id_of(items) is not None, len(items), -len(path)


def _scalars(value: Any, path: str, *, skip: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    if path == skip or depth > _DEEP:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _scalars(inner, _join(path, key), skip=skip, depth=depth + 1)
    elif not isinstance(value, list):
        yield path, value


def _id_of(items: Sequence[dict[str, Any]]) -> str | None:
    """In every item, different in each; by the usual names first."""
    if not items:
        return None
    fit = []
    for key in items[0]:
        values = [item.get(key) for item in items]
        if all(isinstance(each, str | int) and each != "" for each in values) and len(set(values)) == len(values):
            fit.append(key)
    named = {key: _rank(key) for key in fit}
    best = min((key for key in fit if named[key] is not None), key=lambda key: named[key] or 0, default=None)
    return None if best is None else _join("$", best)


def _rank(key: str) -> int | None:
    bare = key.lower().rpartition(":")[2]
    if bare in _IDS:
        return _IDS.index(bare)
    return len(_IDS) if bare.endswith("id") else None


def _time_of(items: Sequence[dict[str, Any]]) -> str | None:
    """A moment in every item; what sounds like a change before what sounds like a beginning."""
    if not items:
        return None
    found = [
        (_time_rank(path), path)
        for path, _ in _scalars(items[0], "$", skip="")
        if _time_rank(path) is not None and all(_is_time(_at(item, path)) for item in items)
    ]
    if not found:
        return None
    return min(found, key=lambda each: (each[0] or 0, not isinstance(_at(items[0], each[1]), str), len(each[1])))[1]


def _time_rank(path: str) -> int | None:
    lowered = path.lower()
    return next((rank for rank, word in enumerate(_TIMES) if word in lowered), None)


def _at(item: Any, path: str) -> Any:
    for step in re.findall(r"\.([A-Za-z_][A-Za-z0-9_]*)|\['([^']*)'\]", path):
        item = item.get(step[0] or step[1]) if isinstance(item, dict) else None
    return item


def _is_time(value: Any) -> bool:
    if isinstance(value, str) and len(value) >= 10:
        try:
            datetime.fromisoformat(value)
        except ValueError:
            return False
        return True
    return isinstance(value, int | float) and not isinstance(value, bool) and 9e8 < value < 4e12


def _join(path: str, key: str) -> str:
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
        return f"{path}.{key}"
    escaped = key.replace("\\", "\\\\").replace("'", "\\'")
    return f"{path}['{escaped}']"


def _last(path: str) -> str:
    return re.split(r"[.\[]", path)[-1]
