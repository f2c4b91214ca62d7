"""XPath 1.0, compiled once. A path of child names alone, with an attribute at its end at the most, is followed without
the XPath machine, which takes several times as long to start as to walk.

Invariant: an unprefixed name has no namespace, as XPath says; a prefix must be declared in the source's file.
"""

import re
from collections.abc import Sequence
from typing import Any

from lxml import etree

from penstock.harvest.path_bounds import xpath_beyond_bounds, xpath_branches
from penstock.harvest.reading.paths import path_problem

_NAME = r"(?:[A-Za-z_][\w.\-]*:)?[A-Za-z_][\w.\-]*"
_SIMPLE = re.compile(rf"(?:\./)?({_NAME}(?:/{_NAME})*)(?:/@({_NAME}))?")
_ATTRIBUTE = re.compile(rf"(?:\./)?@({_NAME})")
_OF_ITEMS = frozenset({"idPath", "updatedAtPath", "versionPath", "deletedPath", "outputFields"})
_MOST_TAGS = 8  # with more of them it is quicker to look at every element
_string_value = etree.XPath("string()", smart_strings=False)


class XmlPath:
    """`find_all` gives elements, texts, numbers or truth values; `first_text` the text of the first."""

    def __init__(self, key: str, text: str, namespaces: dict[str, str]) -> None:
        if beyond := xpath_beyond_bounds(text, of_item=key in _OF_ITEMS):
            raise path_problem(key, text, beyond.en)
        try:  # without `regexp` a namespace would bring Python's own engine for patterns, which may not end
            self._branches = [
                etree.XPath(branch, namespaces=namespaces or None, smart_strings=False, regexp=False)
                for branch in xpath_branches(text)
            ]
            for branch in self._branches:  # unknown prefixes and functions show only when a path is used
                branch(etree.Element("probe"))
        except (etree.XPathError, ValueError) as error:
            raise path_problem(key, text, str(error)) from error
        self._steps: str | None = None
        self._attribute: str | None = None
        if match := _SIMPLE.fullmatch(text):
            self._steps = "/".join(_expanded(name, namespaces) for name in match[1].split("/"))
            self._attribute = _expanded(match[2], namespaces) if match[2] else None
        elif match := _ATTRIBUTE.fullmatch(text):
            self._steps, self._attribute = ".", _expanded(match[1], namespaces)

    def find_all(self, element: Any) -> list[Any]:
        if len(self._branches) > 1:
            return _joined(element, [found for branch in self._branches if (found := branch(element))])
        found = self._branches[0](element)
        return found if isinstance(found, list) else [found]

    def first(self, element: Any) -> Any:
        """None when nothing is there; an attribute is its text."""
        if self._steps is None:
            found = self.find_all(element)
            return found[0] if found else None
        if self._attribute is None:
            return element.find(self._steps)
        values = (holder.get(self._attribute) for holder in element.iterfind(self._steps))
        return next((value for value in values if value is not None), None)

    def first_text(self, element: Any) -> str | None:
        found = self.first(element)
        return None if found is None else text_of(found)


def _joined(element: Any, lists: Sequence[list[Any]]) -> list[Any]:
    """Elements once each and in the order of the document, in one walk over it; then texts, branch by branch."""
    if len(lists) <= 1:
        return lists[0] if lists else []
    wanted = {node: None for found in lists for node in found if not isinstance(node, str)}
    texts = [text for found in lists for text in found if isinstance(text, str)]
    tags = {node.tag for node in wanted}
    ordered: list[Any] = []
    for node in element.iter(*tags) if len(tags) <= _MOST_TAGS else element.iter():
        if len(ordered) == len(wanted):
            break
        if node in wanted:
            ordered.append(node)
    return ordered + texts


def _expanded(name: str, namespaces: dict[str, str]) -> str:
    prefix, _, local = name.rpartition(":")
    if prefix == "xml":
        return f"{{http://www.w3.org/XML/1998/namespace}}{local}"
    return f"{{{namespaces[prefix]}}}{local}" if prefix else local


def text_of(found: Any) -> str:
    """The string value, without the space around it."""
    if isinstance(found, str):
        return found.strip()
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, float):
        return str(int(found)) if found.is_integer() else str(found)
    text = (found.text or "") if len(found) == 0 else _string_value(found)
    return str(text).strip()


def error_text_of(found: Any) -> str:
    """As `text_of`, with the attributes before it: in OAI-PMH the code of an error is one."""
    if isinstance(found, str | bool | float):
        return text_of(found)
    attributes = " ".join(str(value) for value in found.attrib.values())
    return ": ".join(part for part in (attributes, text_of(found)) if part) or str(etree.QName(found).localname)
