"""How pieces of text become one: words with spaces, Chinese without, words broken at a line's end made whole.

Invariant: no letter is lost; only white space, and the hyphen of a word that was broken over two lines, may go.
"""

import re
from collections.abc import Iterable

_CJK = re.compile(
    "[\u2e80-\u2fdf\u3000-\u30ff\u31c0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60"
    "\U00020000-\U0003ffff]"
)
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")
_UNSEEN = re.compile("[\x00-\x08\x0e-\x1f\x7f\u200b\u2060\ufeff]")  # soft hyphens stay until lines are joined
_BROKEN = re.compile("[\ud800-\udfff]")  # half a letter: it can be neither stored nor sent
_SPACE = re.compile(r"\s+")
_BROKEN_WORD = re.compile(r"[^\W\d_]{2,}-$")
_SOFT_HYPHENS = ("\u00ad", "\ufffe")


def is_cjk(letter: str) -> bool:
    """Whether it is written without spaces between words: Chinese, Japanese, full-width forms; Korean is not."""
    return letter >= "\u2e80" and _CJK.match(letter) is not None


def is_right_to_left(text: str) -> bool:
    """Whether most letters are of a script written from the right."""
    if text.isascii():
        return False
    found = len(_RIGHT_TO_LEFT.findall(text))
    return found > 0 and found * 2 > sum(map(str.isalpha, text))


def tidy(text: str) -> str:
    """One line, single spaces, nothing that cannot be seen."""
    if text.isascii() and text.isprintable():
        return " ".join(text.split()) if "  " in text or text[:1] == " " or text[-1:] == " " else text
    return _SPACE.sub(" ", _UNSEEN.sub("", _BROKEN.sub("\ufffd", text))).strip()


def join_words(pieces: Iterable[tuple[str, float]]) -> str:
    """Pieces of one line, each with the gap before it in letter heights."""
    out = ""
    for text, gap in pieces:
        piece = tidy(text)
        if not piece:
            continue
        if out and gap >= _space_needed(out[-1], piece[0]):
            out += " "
        out += piece
    return out


def _space_needed(before: str, after: str) -> float:
    """From which gap on two letters have a space between them."""
    if is_cjk(before) and is_cjk(after):
        return 0.8
    return 0.35 if is_cjk(before) or is_cjk(after) else 0.12


def join_lines(lines: Iterable[str]) -> str:
    """Lines of one paragraph."""
    out = ""
    for line in lines:
        if not out or not line:
            out += line
        elif _is_broken(out, line):
            out = out[:-1] + line
        elif is_cjk(out[-1]) or is_cjk(line[0]) or (out[-1] in "-/" and out[-2:-1].isalnum()):
            out += line
        else:
            out += " " + line
    return out.replace("\u00ad", "").replace("\ufffe", "")


def _is_broken(upper: str, lower: str) -> bool:
    """Whether a word goes on in the next line and its hyphen was only for the break."""
    if upper[-1] != "-":
        return upper[-1] in _SOFT_HYPHENS
    return lower[0].islower() and _BROKEN_WORD.search(upper[-40:]) is not None


def weight(text: str) -> int:
    """How much room it takes, in letters: a Chinese one counts double."""
    return len(text) if text.isascii() else len(text) + sum(map(is_cjk, text))
