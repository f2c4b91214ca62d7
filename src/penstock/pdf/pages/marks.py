"""What the first letters of a line say: a list item, a numbered heading, the number of a page."""

import re
from string import ascii_letters

_BULLET = re.compile(r"([•‣⁃◦▪▫●○■□◆◇►▶➢➤✓✔★☆・·∙\uf0b7\uf0a7\uf0d8]|[-–—*](?=\s))\s*(?=\S)")
_NUMBER = re.compile(r"(\d{1,3}[.)]|[a-zA-Z][.)]|[ivx]{1,5}[.)])\s+(?=\S)")
_CHINESE_NUMBER = re.compile(
    r"(\d{1,3}[、．](?!\d)|[（(][一二三四五六七八九十百\d]{1,4}[)）]|[①-⑳⑴-⒇]|[一二三四五六七八九十百]{1,4}、)\s*(?=\S)"
)
_BRACKETED = re.compile(r"([（(](?:\d{1,3}|[a-z]|[ivx]{1,5})[)）])\s*(?=\S)")
_CHAPTER = re.compile(r"第\s*[一二三四五六七八九十百零〇\d]{1,5}\s*([编篇部章节条])(?=[\s\u3000：:]|[^之的条款项规])")
_DECIMAL_TITLE = re.compile(r"(\d{1,2}(?:\.\d{1,2}){1,3})\.?\s+(?=[^\W\d_])")
_WORD_TITLE = re.compile(r"(?:chapter|part|appendix|annex|section)\s+[\dA-Z]+\b", re.IGNORECASE)
_CLAUSE = re.compile(r"([一二三四五六七八九十]{1,3}、|[（(][一二三四五六七八九十]{1,3}[)）])\s*(?=\S)")
_PAGE_NUMBER = re.compile(
    r"(?:[-–—·|\[(]\s*)?(?:(?:page|p\.|pg\.?|第)\s*)?(?:\d{1,4}|[ivxlc]{1,6})(?:\s*页)?"
    r"(?:\s*(?:of|/|／|von|sur|de|，?\s*共)\s*\d{1,4}(?:\s*页)?)?(?:\s*[-–—·|\])])?",
    re.IGNORECASE,
)
_SECTION = re.compile(r"(?:\d{1,2}|[IVXLC]{1,5}|[A-Z])(?:\.\d{1,2}){0,3}\.?")
_CAPTION = re.compile(r"(?:(?:figure|fig\.|table|chart|exhibit)\s*|[图表]\s*)[\dA-Z]", re.IGNORECASE)
_NUMBER_STARTS = frozenset("0123456789第（(一二三四五六七八九十cCpPaAsS")
_LEADS = re.compile(r"(?:[.…·‥_] ?){4}\s*[\divxlc–-]{1,8}$")
_LATIN = frozenset(ascii_letters)
_PAGE_ENDS = frozenset("ivxlc–-\n")
_LEADERS = frozenset(" .…·‥_")
_CHAPTER_LEVELS = {"编": 1, "篇": 1, "部": 1, "章": 1, "节": 2, "条": 3}


def list_mark(text: str) -> re.Match[str] | None:
    """The mark that begins an item of a list, with the white space after it."""
    begun = text[:6]
    if begun[:1].isalpha() and begun[1:2].isalpha() and "、" not in begun[:5] and begun[1:].isalpha():
        return None  # a word
    if begun[:1] in _LATIN and "." not in begun and ")" not in begun:
        return None
    return bullet(text) or _NUMBER.match(text) or _CHINESE_NUMBER.match(text) or _BRACKETED.match(text)


def is_lone_mark(text: str) -> bool:
    """A bullet or a number that stands apart from what it marks."""
    text = text.strip()
    found = list_mark(f"{text} x")
    return (found is not None and found.end() > len(text)) or _SECTION.fullmatch(text) is not None


def is_caption(text: str) -> bool:
    return _CAPTION.match(text) is not None


def is_leader(text: str) -> bool:
    return text[:1] in _LEADERS and not text.strip(" .…·‥_")


def leads_to_a_page(text: str) -> bool:
    """A line of a table of contents."""
    last = text[-1:]
    if not (last in _PAGE_ENDS or last.isdecimal()):
        return False
    return _LEADS.search(text[-48:]) is not None


def is_rule(text: str) -> bool:
    """A line drawn with letters."""
    return len(text) >= 5 and not text[0].isalnum() and not any(map(str.isalnum, text))


def bullet(text: str) -> re.Match[str] | None:
    return _BULLET.match(text)


def numbered_level(text: str) -> int:
    """The level that a heading's own number gives it; 0 without one."""
    if text[:1] not in _NUMBER_STARTS:
        return 0
    if text[0] in _LATIN:
        return int(_WORD_TITLE.match(text) is not None)
    chapter = _CHAPTER.match(text)
    if chapter:
        return _CHAPTER_LEVELS[chapter[1]]
    decimal = _DECIMAL_TITLE.match(text)
    if decimal:
        return min(decimal[1].count(".") + 2, 6)
    clause = _CLAUSE.match(text)
    if clause:
        return 2 if clause[1].endswith("、") else 3
    return 2 if _NUMBER.match(text) and text[0].isdigit() else 0


def heads_by_number(text: str) -> bool:
    """Whether the number alone makes a heading of a short line, in letters like those of the text."""
    chapter = _CHAPTER.match(text)
    return bool((chapter and chapter[1] != "条") or _DECIMAL_TITLE.match(text) or _CLAUSE.match(text))


def is_page_number(text: str) -> bool:
    return len(text) <= 24 and _PAGE_NUMBER.fullmatch(text) is not None


def markdown_number(text: str) -> re.Match[str] | None:
    """A number that begins an item of a list in markdown too."""
    return re.match(r"(\d{1,9}[.)])\s+(?=\S)", text)
