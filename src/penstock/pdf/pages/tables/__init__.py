"""Tables of a page, from its words and its rulings."""

from penstock.pdf.pages.tables.finding import find_tables

__all__ = ["find_tables"]
