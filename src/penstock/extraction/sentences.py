"""Where sentences end, in Chinese and in languages that end them with a point."""

import re
from collections.abc import Iterator

# Points are tried from the first of a row only, and without going back: a page of nothing but points takes no longer.
_END = re.compile(r"""[。！？；]+[”’」』）】》"')\]]*\s*|…{2,}[”’」』）】》]*\s*|(?<![.!?])[.!?]++[”’"')\]]*+\s+""")
_WORD_BEFORE = re.compile(r"[^\s(（\[“\"'/]*$")
_INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]|\d{1,3}|[ivxlcIVXLC]{1,5}")
_ABBREVIATION = re.compile(
    r"mrs?|ms|dr|prof|st|sr|jr|vs|etc|e\.g|i\.e|cf|al|figs?|nos?|art|sec|ch|vol|eds?|pp|approx|dept|est|inc|ltd|co|corp"
    r"|bros|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|mon|tue|wed|thu|fri|sat|sun|tel|fax|ext|min|max|ca|cat|ref|rev"
    r"|para?|incl|excl|qty|z\.b|d\.h|bzw|u\.a|nr|abs|bd|str|p\.ex"
)


def sentences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of text[start:end], each a sentence with the white space after it."""
    begun = start
    for found in _END.finditer(text, start, end):
        if found.end() < end and (found[0][0] != "." or _is_end(text, begun, found)):
            after = text[found.end()]
            if found[0][0] in "!?" and after.islower():
                continue
            yield begun, found.end()
            begun = found.end()
    if begun < end:
        yield begun, end


def _is_end(text: str, begun: int, found: re.Match[str]) -> bool:
    """Whether a point ends a sentence: not after an abbreviation, an initial or a number, nor before a small letter."""
    if text[found.end()].islower():
        return False
    before = _WORD_BEFORE.search(text[max(begun, found.start() - 24) : found.start()])
    word = before[0].lower() if before else ""
    is_number = word.isdigit() and found.start() - len(word) > begun  # "in 2019." does end; "1." alone at the start not
    return _ABBREVIATION.fullmatch(word) is None and (is_number or _INITIALS.fullmatch(word) is None)
