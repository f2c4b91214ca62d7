"""What was harvested: stored once per version, kept apart when it is no record, looked at and exported."""

from penstock.harvest.records.counting import Counts, Place
from penstock.harvest.records.export import Export, Format, Order, format_of
from penstock.harvest.records.output import STANDARD_OUTPUT, is_plain
from penstock.harvest.records.quarantine import list_quarantine, quarantine
from penstock.harvest.records.reads import Selection, count_records, endpoint_of, read_record, select_records
from penstock.harvest.records.store import mark_absent, upsert
from penstock.harvest.records.where import Where, parse_where

__all__ = [
    "STANDARD_OUTPUT",
    "Counts",
    "Export",
    "Format",
    "Order",
    "Place",
    "Selection",
    "Where",
    "count_records",
    "endpoint_of",
    "format_of",
    "is_plain",
    "list_quarantine",
    "mark_absent",
    "parse_where",
    "quarantine",
    "read_record",
    "select_records",
    "upsert",
]
