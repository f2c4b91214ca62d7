"""Judges the objects that the cross-reference table names, as qpdf reads them."""

import pikepdf
from pikepdf import Object, Pdf

from penstock.pdf.actions import Judge
from penstock.pdf.findings import Notes
from penstock.pdf.syntax import Reference, Stream, Value, parse_value


def find_listed_actions(pdf: Pdf, holder: Object, place: str, notes: Notes) -> None:
    """Add a note for each action in an object; what it refers to is visited on its own."""

    def resolve(reference: Reference) -> list[Value]:
        found = pdf.get_object(reference.number, reference.generation)
        return [_value_of(found)] if isinstance(found, Object) else [found] if isinstance(found, int) else []

    for found in Judge(resolve).find_actions(_value_of(holder)):
        notes.add(found.code, f"{place} {found.path}".rstrip(), found.detail)


def _value_of(found: Object) -> Value:
    """The object as plain values, by way of the text that qpdf writes: escapes undone, one value for each key."""
    if not isinstance(found, pikepdf.Stream):
        return parse_value(found.unparse(resolved=True)).value
    held = parse_value(found.stream_dict.unparse(resolved=True)).value
    return Stream(held, lambda: [found.read_raw_bytes()]) if isinstance(held, dict) else None
