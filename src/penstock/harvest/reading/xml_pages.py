"""An XML answer: where its items are, what leads to the next one, and whether it is an answer at all.

Invariant: nothing outside of the answer is ever opened, no entity is ever expanded, and the parser's own limits on
depth and size stay on.
"""

import re
from collections.abc import Sequence
from typing import Any

from lxml import etree

from penstock.harvest.page import Page
from penstock.harvest.reading.rules import Columns, InBandErrors, Rules, whole_number, yes_or_no
from penstock.harvest.reading.xml_items import XmlItems
from penstock.harvest.reading.xml_paths import XmlPath, error_text_of, text_of
from penstock.harvest.slices import Span
from penstock.harvest.spec import Sections

_FIRST_STEP = re.compile(r"/[A-Za-z_][\w.\-]*(?::[A-Za-z_][\w.\-]*)?(?=/|$)")


class XmlPages:
    """Reads the answers of one source; built once."""

    def __init__(self, sections: Sections, rules: Rules) -> None:
        response, pagination = sections.response, sections.pagination
        names = response.namespaces
        items_path = response.items_path or "/*"

        def path(key: str, text: str | None) -> XmlPath | None:
            return XmlPath(key, text, names) if text else None

        self._rules = rules
        self._errors = InBandErrors(sections)
        self._items_path = XmlPath("itemsPath", items_path, names)
        self._top = path("itemsPath", _tops(items_path))
        self._error = path("errorPath", response.error_path)
        self._total = path("totalPath", response.total_path)
        self._truncated = path("truncatedPath", response.truncated_path)
        self._token = path("nextTokenPath", pagination.next_token_path)
        self._url = path("nextUrlPath", pagination.next_url_path)
        self._more = path("hasMorePath", pagination.has_more_path)
        self._items = XmlItems(sections, rules)

    def read(self, body: bytes, span: Span | None, asked: Sequence[str]) -> Page:
        root = self._parse(body)
        columns = Columns(self._rules, span, len(body))
        if self._is_empty_by_error(root):
            return columns.finish(0, asked)
        elements = self._elements(root, body)
        page = columns.page
        page.total = whole_number(_text(self._total, root))
        page.next_token = _text(self._token, root) or None
        page.next_url = _text(self._url, root) or None
        page.has_more = yes_or_no(_text(self._more, root))
        page.is_truncated = _text(self._truncated, root) not in {None, "", "false", "0"}
        self._items.read_all(elements, columns, may_hold_entities=bool(root.getroottree().docinfo.doctype))
        return columns.finish(len(elements), asked)

    def count(self, body: bytes) -> int:
        """The total alone; the answer need not hold items."""
        root = self._parse(body)
        if self._is_empty_by_error(root):
            return 0
        total = whole_number(_text(self._total, root))
        if total is None:
            raise self._errors.unreadable(body, "there is no number at totalPath")
        return total

    def _parse(self, body: bytes) -> Any:
        stripped = body.lstrip()
        if not stripped:
            raise self._errors.unreadable(body, "the answer is empty")
        if b"<!DOCTYPE" in stripped and b"<!ENTITY" in stripped:
            raise self._errors.unreadable(body, "it declares entities")
        parser = etree.XMLParser(
            resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, recover=False, strip_cdata=False
        )
        try:
            root = etree.fromstring(stripped, parser)
        except (etree.LxmlError, ValueError, LookupError) as error:
            raise self._errors.unreadable(body, f"not XML: {error}"[:200]) from error
        declared = root.getroottree().docinfo.internalDTD
        if declared is not None and next(iter(declared.iterentities()), None) is not None:
            raise self._errors.unreadable(body, "it declares entities")
        return root

    def _is_empty_by_error(self, root: Any) -> bool:
        found = self._error.find_all(root) if self._error else []
        texts = [error_text_of(value) for value in found if value is not False and value != ""]
        if not texts:
            return False
        self._errors.settle("; ".join(texts))
        return True

    def _elements(self, root: Any, body: bytes) -> list[Any]:
        """No items is an answer too, but not when the document is another than the paths were written for."""
        elements = self._items_path.find_all(root)
        if not all(isinstance(element, etree._Element) for element in elements):  # noqa: SLF001  it has no other name
            raise self._errors.unreadable(body, "itemsPath must find elements")
        is_other = self._top is not None and not self._top.find_all(root)
        if not elements and (is_other or str(etree.QName(root).localname).lower() == "html"):
            raise self._errors.unreadable(body, f"there is nothing at itemsPath, the document is <{root.tag}>")
        return elements


def _tops(items_path: str) -> str | None:
    """The elements that the document may begin with, where the path says so."""
    steps = [_FIRST_STEP.match(branch.strip()) for branch in items_path.split("|")]
    return "|".join(step[0] for step in steps if step) if all(steps) else None


def _text(path: XmlPath | None, root: Any) -> str | None:
    found = path.find_all(root) if path else []
    return text_of(found[0]) if found else None
