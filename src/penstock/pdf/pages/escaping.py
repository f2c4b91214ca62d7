"""Text of a document inside markdown: it says what it said, and it never becomes markup.

Letters are escaped only where markdown would take them for its own, so that people and models read plain text. A `<`
that could begin a tag or a comment becomes `&lt;`, which holds in every renderer: no document can bring in HTML or
forge our page marks.
"""

import re

from penstock.pdf.pages.joining import tidy

_SPECIAL = re.compile(r"[\\`\[<&~]|\*+|_+")
_ANY_SPECIAL = re.compile(r"[\\`\[<&~*_]")  # as one set it is searched for four times as fast
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});")
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_BLOCK_START = re.compile(r"(#{1,6}(?=\s|$)|>|[-+](?=\s|$)|[-=]+(?=\s*$)|[-*_](?=\s*(?:[-*_]\s*)+$))")
_ORDERED = re.compile(r"(\d{1,9})([.)])(?=\s|$)")
_CLOSING_HASHES = re.compile(r"(\s|^)(#+)$")


def running_text(text: str) -> str:
    """One line inside a block: a cell, a heading, an item."""
    text = tidy(text)
    if not _ANY_SPECIAL.search(text):
        return text
    last_link = max(map(text.rfind, ("](", "][", "]:")))
    has_tildes = text.count("~") > 1
    return _SPECIAL.sub(lambda found: _escaped(found, last_link, has_tildes), text)


def block_text(text: str) -> str:
    """A whole paragraph: what would begin a heading, a list, a quotation or a rule is escaped too."""
    return _at_start(running_text(text))


def heading_text(text: str) -> str:
    return _CLOSING_HASHES.sub(lambda found: f"{found[1]}\\{found[2]}", running_text(text))


def cell_text(text: str) -> str:
    """A cell of a pipe table: one line, whatever is in it."""
    lines = re.split(r"\r\n|[\n\r\v\f\x85\u2028\u2029]", text.strip())
    return "<br>".join(running_text(line).replace("|", "\\|") for line in lines).strip()


def _at_start(text: str) -> str:
    if _BLOCK_START.match(text):
        return "\\" + text
    return _ORDERED.sub(r"\1\\\2", text, count=1) if _ORDERED.match(text) else text


def _escaped(found: re.Match[str], last_link: int, has_tildes: bool) -> str:
    text, at, letter = found.string, found.start(), found[0]
    before, after = text[at - 1 : at], text[found.end() : found.end() + 1]
    if letter[0] in "*_":
        return letter if _is_no_emphasis(letter, before, after) else "".join(f"\\{each}" for each in letter)
    if letter == "<":
        return "&lt;" if after.isalpha() or after in ("/", "!", "?") else letter
    if letter == "&":
        return "&amp;" if _ENTITY.match(text, at) else letter
    changes = {
        "\\": after in _PUNCTUATION or not after,
        "`": True,
        "[": at < last_link,
        "~": has_tildes,
    }
    return f"\\{letter}" if changes[letter] else letter


def _is_no_emphasis(run: str, before: str, after: str) -> bool:
    """Stars with white on both sides, underscores inside a word."""
    if run[0] == "_" and before.isalnum() and after.isalnum():
        return True
    return bool(before) and before.isspace() and (not after or after.isspace())
