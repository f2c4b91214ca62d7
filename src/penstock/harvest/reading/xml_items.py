"""One item of an XML answer: an element, from which id, time and mapped fields are taken.

Invariant: its body is XML in UTF-8 that stands alone: it declares the namespaces that it uses.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from lxml import etree

from penstock.harvest.page import FaultKind
from penstock.harvest.reading.json_items import More, several
from penstock.harvest.reading.rules import Columns, ItemFault, Rules
from penstock.harvest.reading.times import from_parts
from penstock.harvest.reading.xml_paths import XmlPath, text_of
from penstock.harvest.spec import Sections

_DATE_PARTS = ("Year", "Month", "Day", "Hour", "Minute", "Second")


class XmlItems:
    """Reads the items of one source; built once."""

    def __init__(self, sections: Sections, rules: Rules) -> None:
        response = sections.response
        names = response.namespaces
        self._rules = rules
        self._ids = [XmlPath("idPath", path, names) for path in several(response.id_path)]
        times = several(response.updated_at_path) if rules.needs_time else ()
        self._times = [XmlPath("updatedAtPath", path, names) for path in times]
        self._version = XmlPath("versionPath", response.version_path or ".", names) if rules.has_version else None
        self._deleted = XmlPath("deletedPath", response.deleted_path or ".", names) if rules.has_deleted else None
        self._output = [(field, XmlPath("outputFields", field.expr, names)) for field in rules.output]

    def read_all(self, elements: Sequence[Any], columns: Columns, *, may_hold_entities: bool) -> None:
        rules = self._rules
        for no, element in enumerate(elements):
            body = b"" if rules.ids_only else written(element)
            try:
                if may_hold_entities:
                    self._refuse_entities(element)
                provider_id = rules.id_of([path.first_text(element) for path in self._ids])
                updated = self._time(element, provider_id) if rules.needs_time else None
                more = None if rules.is_plain else self._more(element, provider_id)
            except ItemFault as fault:
                columns.fault(no, fault, body or written(element))
                continue
            if columns.add(provider_id, updated, body) and more is not None:
                columns.add_more(*more)

    def _refuse_entities(self, element: Any) -> None:
        if next(element.iter(etree.Entity), None) is not None:
            reason = "it refers to an entity that is declared elsewhere"
            raise ItemFault(FaultKind.NOT_READABLE, reason, self._id_if_any(element))

    def _id_if_any(self, element: Any) -> str | None:
        try:
            return self._rules.id_of([path.first_text(element) for path in self._ids])
        except ItemFault:
            return None

    def _time(self, element: Any, provider_id: str) -> datetime:
        for path in self._times:
            found = path.first(element)
            if found is None:
                continue
            if not isinstance(found, str | bool | float) and (parts := _parts_of_date(found)):
                try:
                    return from_parts(parts)
                except ValueError as error:
                    raise ItemFault(FaultKind.BAD_UPDATED_AT, f"updatedAt: {error}", provider_id) from error
            if text := text_of(found):
                return self._rules.time_of([text], provider_id)
        return self._rules.time_of([], provider_id)

    def _more(self, element: Any, provider_id: str) -> More:
        version = self._version.first_text(element) if self._version else None
        is_deleted = self._deleted is not None and self._rules.is_deleted(self._deleted.first_text(element))
        if not self._output:
            return version, is_deleted, None
        fields: dict[str, Any] = {}
        for field, path in self._output:
            found = [text_of(value) for value in path.find_all(element)]
            if any(found):
                fields[field.name] = found[0] if len(found) == 1 else found
            elif field.required and not is_deleted:
                raise ItemFault(FaultKind.FIELD_MISSING, f"the field {field.name} is missing", provider_id)
        return version, is_deleted, json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def written(element: Any) -> bytes:
    return bytes(etree.tostring(element, encoding="UTF-8", xml_declaration=False, with_tail=False))


def _parts_of_date(element: Any) -> list[str]:
    """Year, Month, Day … as elements of their own, up to the first that is not there."""
    if len(element) == 0:
        return []
    parts = []
    for name in _DATE_PARTS:
        text = element.findtext(f"{{*}}{name}")
        if not text:
            break
        parts.append(text)
    return parts
